package planner

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"slicescheduler/whatif"
)

// Every setting of every grid makes a policy of that name, and a sweep stays affordable.
func TestKnobGrids(t *testing.T) {
	for _, name := range Names() {
		grid := KnobGrid(name)
		if len(grid) < 1 || len(grid) > 12 {
			t.Errorf("%s is swept over %d settings", name, len(grid))
		}
		for _, k := range grid {
			p, err := New(name, k)
			if err != nil || p.Name() != name {
				t.Errorf("%s with %v: %v", name, k, err)
			}
		}
	}
	if KnobGrid("nothing") != nil {
		t.Error("a policy that doesn't exist has knobs")
	}
}

// drawCluster is a random cluster with the past of its tenants.
func drawCluster(t *rapid.T) (*Cluster, *Past) {
	c := &Cluster{Engine: func(int) *whatif.EngineKind { return &whatif.EngineKind{} }}
	past := &Past{}
	for i := range rapid.IntRange(1, 6).Draw(t, "devices") {
		c.Devices = append(c.Devices, Device{ID: fmt.Sprint("d", i), Host: i / 4, MemoryBytes: rapid.Int64Range(400, 6000).Draw(t, "memory"), LoadBytesPerS: 1e9})
	}
	for a := range c.Devices {
		for b := range c.Devices {
			if a != b {
				c.Links = append(c.Links, whatif.LinkSpec{From: a, To: b, BandwidthBytesPerS: 1e9})
			}
		}
	}
	for i := range rapid.IntRange(1, 6).Draw(t, "tenants") {
		c.Tenants = append(c.Tenants, layeredTenant(fmt.Sprint("t", i), rapid.IntRange(1, 12).Draw(t, "layers"), i%len(c.Devices)))
		rate := rapid.Float64Range(0, 20).Draw(t, "rate")
		p := TenantPast{RequestsPerS: rate, PeakRequestsPerS: 2 * rate, PromptTokens: rapid.Float64Range(1, 300).Draw(t, "prompt"), OutputTokens: rapid.Float64Range(1, 300).Draw(t, "output")}
		if rapid.Bool().Draw(t, "known") {
			p.PromptQuantiles, p.OutputQuantiles = []int{1, int(p.PromptTokens) * 3}, []int{1, int(p.OutputTokens) * 3}
		}
		past.Tenants = append(past.Tenants, p)
	}
	return c, past
}

// No policy places more than fits, and the same cluster and past give the same start.
func TestPlacesStayWithinMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, past := drawCluster(t)
		for _, name := range Names() {
			for _, k := range KnobGrid(name) {
				starts, on := [2]*Start{}, c
				for i := range starts {
					p, err := New(name, k)
					if err != nil {
						t.Fatal(err)
					}
					if r, ok := p.(Reshaper); ok {
						on = r.Reshape(c)
					}
					if starts[i], err = p.Place(on, past); err != nil {
						starts[i] = nil
					}
				}
				if starts[0] == nil {
					continue
				}
				stripEngines(starts[0], starts[1])
				if !reflect.DeepEqual(starts[0], starts[1]) {
					t.Fatalf("%s with %v places differently the second time", name, k)
				}
				checkStart(t, on, starts[0], fmt.Sprintf("%s with %v", name, k))
			}
		}
	})
}

// stripEngines drops what Cluster.Engine makes anew each time.
func stripEngines(starts ...*Start) {
	for _, s := range starts {
		for i := range s.Lanes {
			for k := range s.Lanes[i] {
				s.Lanes[i][k].Engine = nil
			}
		}
	}
}

func checkStart(t *rapid.T, c *Cluster, s *Start, what string) {
	room := NewRoom(c)
	swaps := make([]bool, len(c.Devices))
	for i := range c.Devices {
		if i < len(s.Devices) {
			room.Free[i], swaps[i] = min(room.Free[i], s.Devices[i].MemoryBytes), s.Devices[i].Swap != nil
		}
	}
	for i, lanes := range s.Lanes {
		if len(lanes) == 0 {
			t.Fatalf("%s: tenant %d has no lane", what, i)
		}
		for k := range lanes {
			if first := lanes[k].Ranks[0].Slices[0]; swaps[first.Device] {
				// Weights and KV come and go together, so each lane has to fit by itself.
				own := lanes[k]
				first.KVBytes = int64(own.Batching.KVBlocks) * pageBytes(&c.Tenants[i], first.Stages)
				own.Ranks = []whatif.RankSpec{{Slices: []whatif.SliceSpec{first}}}
				if err := NewRoom(c).Take(i, &own); err != nil {
					t.Fatalf("%s: lane %d of tenant %d: %v", what, k, i, err)
				}
			} else if err := room.Take(i, &lanes[k]); err != nil {
				t.Fatalf("%s: lane %d of tenant %d: %v", what, k, i, err)
			}
			if err := lanes[k].Batching.Validate(); err != nil {
				t.Fatalf("%s: lane %d of tenant %d: %v", what, k, i, err)
			}
			at := 0
			for _, sl := range lanes[k].Ranks[0].Slices {
				if sl.Stages.From != at || sl.Stages.Len() < 1 {
					t.Fatalf("%s: lane %d of tenant %d doesn't cover its graph in order: %+v", what, k, i, lanes[k].Ranks[0].Slices)
				}
				at = sl.Stages.To
			}
			if at != len(c.Tenants[i].Graph.Stages) {
				t.Fatalf("%s: lane %d of tenant %d covers %d stages", what, k, i, at)
			}
		}
	}
}

// The longest run is never longer than it must be, and runs cover the graph in order.
func TestEqualRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		layers := rapid.IntRange(1, 12).Draw(t, "layers")
		head := float64(rapid.IntRange(0, 3).Draw(t, "head"))
		n := rapid.IntRange(1, min(layers+2, 5)).Draw(t, "runs")
		g := layeredGraph(layers)
		cost := func(from, to int) float64 {
			sum := 0.0
			for i := from; i < to; i++ {
				switch i {
				case 0:
				case layers + 1:
					sum += head
				default:
					sum++
				}
			}
			return sum
		}
		var least func(at, n int) float64
		least = func(at, n int) float64 {
			if n == 1 {
				return cost(at, layers+2)
			}
			best := 1e9
			for to := at + 1; to <= layers+2-(n-1); to++ {
				best = min(best, max(cost(at, to), least(to, n-1)))
			}
			return best
		}
		at, longest := 0, 0.0
		for _, r := range EqualRuns(g, n, head) {
			if r.From != at || r.Len() < 1 {
				t.Fatalf("run %+v begins at %d", r, at)
			}
			at, longest = r.To, max(longest, cost(r.From, r.To))
		}
		if want := least(0, n); at != layers+2 || longest != want {
			t.Fatalf("%d stages, the longest run costs %g, could be %g", at, longest, want)
		}
	})
}
