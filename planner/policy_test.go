package planner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"slicescheduler/batching"
	"slicescheduler/gmg"
	"slicescheduler/whatif"
)

// A scenario describes a cluster line by line:
//
//	device NAME memory=BYTES [host=N] [load=BYTES/S]
//	tenant NAME home=DEVICE [layers=N] [rate=REQUESTS/S] [prompt=TOKENS] [output=TOKENS] [seqs=N] [longest=TOKENS] [attention=NS]
//
// A layer weighs 100 bytes and holds one byte of KV a token, so a page of it is 16 bytes; embedding and head weigh 10 each. Alone, a prompt takes 1 ms a
// token and an answer 10 ms a token, and `attention` more for each token of context.
type scenario struct {
	cluster Cluster
	past    Past
	policy  Policy
	placed  *Cluster // that the policy has placed lanes on
	start   *Start
}

// layeredGraph has layers of 100 bytes between an embedding and a head of 10.
func layeredGraph(layers int) *gmg.Graph {
	g := &gmg.Graph{ID: fmt.Sprint("layered", layers), Hidden: 2, Layers: layers, Vocab: 10, ContextTokens: 1 << 16, Stages: []uint16{0}, Blocks: []gmg.Block{
		{Name: "embedding", Operators: []gmg.Operator{{Kind: gmg.OpEmbedding, Name: "embedding"}}, WeightBytes: 10},
		{Name: "layer", Operators: []gmg.Operator{{Kind: gmg.OpLinear, Name: "qkv_proj"}}, WeightBytes: 100, KVBytesPerToken: 1},
		{Name: "head", Operators: []gmg.Operator{{Kind: gmg.OpHead, Name: "lm_head"}}, WeightBytes: 10},
	}}
	for range layers {
		g.Stages = append(g.Stages, 1)
	}
	g.Stages = append(g.Stages, 2)
	return g
}

// layeredTenant is a tenant whose requests alone take 1 ms a prompt token and 10 ms an answer token.
func layeredTenant(id string, layers, home int) Tenant {
	return Tenant{
		ID: id, Graph: layeredGraph(layers), Home: home, MaxSequences: 8,
		AloneTTFTNs: func(prompt int) int64 { return int64(prompt) * 1e6 }, AloneTPOTNs: func(int) int64 { return 1e7 },
	}
}

// layeredCosts are those of layeredTenant: of the 1 ms that a prompt's token takes, and the 10 ms of an answer's, each layer has its share.
type layeredCosts struct{ c *Cluster }

func (l layeredCosts) Program(tenant, _ int, r gmg.Range) (*whatif.Program, error) {
	g := l.c.Tenants[tenant].Graph
	return whatif.Compile(g, r, func(op *gmg.Operator) (whatif.Cost, error) {
		return layerCost{op.Kind == gmg.OpLinear, int64(g.Layers)}, nil
	}, whatif.Parallelism{})
}

type layerCost struct {
	layer  bool
	layers int64
}

func (c layerCost) Ns(sh *whatif.Shape) int64 {
	if !c.layer {
		return 1
	}
	return (9e6 + 1e6*int64(sh.Tokens)) / c.layers
}

// field finds "key=value" among fields.
func field(f []string, key string, otherwise float64) float64 {
	for _, s := range f {
		if v, ok := strings.CutPrefix(s, key+"="); ok {
			if _, err := fmt.Sscan(v, &otherwise); err != nil {
				panic(err)
			}
		}
	}
	return otherwise
}

func (s *scenario) device(name string) int {
	for i := range s.cluster.Devices {
		if s.cluster.Devices[i].ID == name {
			return i
		}
	}
	return -1
}

func (s *scenario) describe(t *testing.T, text string) string {
	*s = scenario{cluster: Cluster{Engine: func(int) *whatif.EngineKind { return &whatif.EngineKind{} }}}
	for _, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		switch {
		case len(f) == 0:
		case f[0] == "device":
			s.cluster.Devices = append(s.cluster.Devices, Device{
				ID: f[1], MemoryBytes: int64(field(f, "memory", 0)), Host: int(field(f, "host", 0)), LoadBytesPerS: field(f, "load", 1e9),
			})
		case f[0] == "tenant":
			home := -1
			for _, w := range f {
				if v, ok := strings.CutPrefix(w, "home="); ok {
					home = s.device(v)
				}
			}
			tenant := layeredTenant(f[1], int(field(f, "layers", 4)), home)
			tenant.MaxSequences = int(field(f, "seqs", 8))
			attention := field(f, "attention", 0)
			tenant.AloneTPOTNs = func(context int) int64 { return 1e7 + int64(attention*float64(context)) }
			s.cluster.Tenants = append(s.cluster.Tenants, tenant)
			prompt, output := field(f, "prompt", 100), field(f, "output", 10)
			longest := int(field(f, "longest", 0))
			p := TenantPast{RequestsPerS: field(f, "rate", 1), PromptTokens: prompt, OutputTokens: output}
			p.PeakRequestsPerS = field(f, "peak", p.RequestsPerS)
			if longest > 0 {
				p.PromptQuantiles, p.OutputQuantiles = []int{longest}, []int{1}
			}
			s.past.Tenants = append(s.past.Tenants, p)
		default:
			t.Fatalf("what is %q?", f[0])
		}
	}
	s.cluster.Costs = layeredCosts{&s.cluster}
	for a := range s.cluster.Devices {
		for b := range s.cluster.Devices {
			if a != b {
				s.cluster.Links = append(s.cluster.Links, whatif.LinkSpec{From: a, To: b, BandwidthBytesPerS: 1e9})
			}
		}
	}
	return ""
}

// laneText is a lane on a line: its slices, its pages, and what sets it apart.
func (s *scenario) laneText(l *whatif.LaneSpec) string {
	var out strings.Builder
	for _, sl := range l.Ranks[0].Slices {
		fmt.Fprintf(&out, "%s:%d-%d ", s.placed.Devices[sl.Device].ID, sl.Stages.From, sl.Stages.To)
	}
	fmt.Fprintf(&out, "pages=%d budget=%d inflight=%d", l.Batching.KVBlocks, l.Batching.MaxBatchTokens, l.Batching.InFlight)
	if l.SharedKV {
		out.WriteString(" shared")
	}
	if l.FreeWeights {
		out.WriteString(" weightless")
	}
	if l.Prefill {
		out.WriteString(" prefill")
	}
	if l.Batching.Overlap == batching.OverlapPrefill {
		out.WriteString(" pipelined")
	}
	if b := &l.Batching; b.Separate > 0 {
		fmt.Fprintf(&out, " separate=%d micro=%d", b.Separate, b.MicroBatches)
	}
	return out.String()
}

func (s *scenario) place(t *testing.T, d *datadriven.TestData) string {
	name, knobs := "", Knobs{}
	for _, a := range d.CmdArgs {
		if a.Key == "policy" {
			name = a.Vals[0]
			continue
		}
		var v float64
		if _, err := fmt.Sscan(a.Vals[0], &v); err != nil {
			t.Fatal(err)
		}
		knobs[a.Key] = v
	}
	var err error
	if s.policy, err = New(name, knobs); err != nil {
		return err.Error() + "\n"
	}
	on := &s.cluster
	if r, ok := s.policy.(Reshaper); ok {
		on = r.Reshape(on)
	}
	s.placed = on
	if s.start, err = s.policy.Place(on, &s.past); err != nil {
		return err.Error() + "\n"
	}
	var b strings.Builder
	for i, lanes := range s.start.Lanes {
		for k := range lanes {
			fmt.Fprintf(&b, "%s %d: %s\n", s.cluster.Tenants[i].ID, k, s.laneText(&lanes[k]))
		}
	}
	return b.String()
}

func TestPolicies(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var s scenario
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "cluster":
				return s.describe(t, d.Input)
			case "place":
				return s.place(t, d)
			case "route":
				return s.route(t, d)
			case "plan":
				return s.plan(t, d)
			}
			t.Fatalf("what is %q?", d.Cmd)
			return ""
		})
	})
}
