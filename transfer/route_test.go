package transfer

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"slicescheduler/gmg"
)

func mustTopology(t testing.TB, links ...gmg.Link) *Topology {
	t.Helper()
	top, err := NewTopology(links)
	if err != nil {
		t.Fatal(err)
	}
	return top
}

func TestRoutesGolden(t *testing.T) {
	var top *Topology
	datadriven.RunTest(t, "testdata/routes.txt", func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd == "links" {
			var links []gmg.Link
			for line := range strings.Lines(d.Input) {
				var l gmg.Link
				var gbPerS, us float64
				if _, err := fmt.Sscan(line, &l.From, &l.To, &l.Kind, &gbPerS, &us); err != nil {
					d.Fatalf(t, "%q: %v", line, err)
				}
				l.BandwidthBytesPerS, l.LatencyNs = gbPerS*1e9, int64(us*1000)
				links = append(links, l)
			}
			top = mustTopology(t, links...)
			return fmt.Sprintf("%d links\n", len(links))
		}
		var bytes int64
		d.ScanArgs(t, "bytes", &bytes)
		r, err := top.Route(gmg.DeviceID(d.CmdArgs[0].Key), gmg.DeviceID(d.CmdArgs[1].Key), bytes)
		if err != nil {
			return err.Error() + "\n"
		}
		c, err := PlanChunks(bytes, r.ChunkBytes())
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		return fmt.Sprintf("%v: %v, %.1f us, %d chunks of %d\n", r, r.Kind(), float64(r.EstimateNs(bytes))/1000, c.Count, c.ChunkBytes)
	})
}

// fastestByHand tries every walk of at most three links whose relays are hosts.
func fastestByHand(links []gmg.Link, r Route, at gmg.DeviceID, bytes int64) (ns int64, found bool) {
	if at == r.To {
		return r.EstimateNs(bytes), true
	}
	if len(r.Hops) == 3 || len(r.Hops) > 0 && !at.IsHost() {
		return 0, false
	}
	ns = math.MaxInt64
	for _, l := range links {
		if l.From != at || l.To == r.From {
			continue
		}
		next := r
		next.Hops = append(append([]gmg.Link(nil), r.Hops...), l)
		if n, ok := fastestByHand(links, next, l.To, bytes); ok {
			ns, found = min(ns, n), true
		}
	}
	return ns, found
}

func TestRouteIsTheFastest(t *testing.T) {
	names := []string{"a/host", "b/host", "c/host", "a/cuda0", "a/cuda1", "b/cuda0"}
	kinds := []gmg.LinkKind{gmg.LinkMemory, gmg.LinkPeer, gmg.LinkStaged, gmg.LinkNetwork, gmg.LinkHost}
	rapid.Check(t, func(t *rapid.T) {
		var links []gmg.Link
		for range rapid.IntRange(0, 20).Draw(t, "links") {
			l := gmg.Link{From: gmg.DeviceID(rapid.SampledFrom(names).Draw(t, "from")), To: gmg.DeviceID(rapid.SampledFrom(names).Draw(t, "to")),
				Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), BandwidthBytesPerS: rapid.Float64Range(1e8, 1e11).Draw(t, "bandwidth"),
				LatencyNs: rapid.Int64Range(0, 100_000).Draw(t, "latency")}
			if l.From != l.To {
				links = append(links, l)
			}
		}
		top, err := NewTopology(links)
		if err != nil {
			t.Fatal(err)
		}
		from, to := gmg.DeviceID(names[rapid.IntRange(0, 5).Draw(t, "a")]), gmg.DeviceID(names[rapid.IntRange(0, 5).Draw(t, "b")])
		bytes := rapid.Int64Range(0, 1<<32).Draw(t, "bytes")
		want, found := fastestByHand(links, Route{From: from, To: to}, from, bytes)
		r, err := top.Route(from, to, bytes)
		if found != (err == nil) || err != nil && !errors.Is(err, ErrNoRoute) {
			t.Fatalf("route %v, %v; by hand %v", r, err, found)
		}
		if found && r.EstimateNs(bytes) != want {
			t.Fatalf("%v takes %d ns, the fastest %d", r, r.EstimateNs(bytes), want)
		}
	})
}

func TestLinksAreChecked(t *testing.T) {
	good := gmg.Link{From: "a", To: "b", Kind: gmg.LinkPeer, BandwidthBytesPerS: 1, LatencyNs: 1}
	for name, do := range map[string]func(l *gmg.Link){
		"kind":         func(l *gmg.Link) { l.Kind = "carrier pigeon" },
		"no end":       func(l *gmg.Link) { l.To = "" },
		"loop":         func(l *gmg.Link) { l.To = "a" },
		"no bandwidth": func(l *gmg.Link) { l.BandwidthBytesPerS = 0 },
		"negative":     func(l *gmg.Link) { l.BandwidthBytesPerS = -1 },
		"NaN":          func(l *gmg.Link) { l.BandwidthBytesPerS = math.NaN() },
		"infinite":     func(l *gmg.Link) { l.BandwidthBytesPerS = math.Inf(1) },
		"latency":      func(l *gmg.Link) { l.LatencyNs = -1 },
	} {
		bad := good
		do(&bad)
		if _, err := NewTopology([]gmg.Link{good, bad}); !errors.Is(err, ErrLink) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestChunksCover(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytes, size := rapid.Int64Range(0, 10_000).Draw(t, "bytes"), rapid.Int64Range(1, 3000).Draw(t, "size")
		c, err := PlanChunks(bytes, size)
		if err != nil {
			t.Fatal(err)
		}
		var next int64
		for i := range c.Count {
			offset, n := c.Chunk(i)
			if offset != next || n <= 0 || n > size {
				t.Fatalf("chunk %d is [%d, +%d), wants to begin at %d", i, offset, n, next)
			}
			next += n
		}
		if next != bytes {
			t.Fatalf("chunks cover %d of %d bytes", next, bytes)
		}
	})
	for _, bad := range [][2]int64{{-1, 1}, {1, 0}} {
		if _, err := PlanChunks(bad[0], bad[1]); !errors.Is(err, ErrMove) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
