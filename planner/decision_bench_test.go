package planner

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"slicescheduler/gmg"
	"slicescheduler/whatif"
)

// benchCatalog compiles an 8B model's stages by rooflines of a card with 96 GB, once for each run of stages.
type benchCatalog struct {
	graph    *gmg.Graph
	roofline whatif.Roofline
	programs map[gmg.Range]*whatif.Program
}

func (c *benchCatalog) Program(_, _ int, r gmg.Range) (*whatif.Program, error) {
	if p, ok := c.programs[r]; ok {
		return p, nil
	}
	p, err := whatif.Compile(c.graph, r, func(op *gmg.Operator) (whatif.Cost, error) { return c.roofline.Cost(op), nil }, whatif.Parallelism{})
	c.programs[r] = p
	return p, err
}

// benchCluster is a cluster under a load that keeps its devices about two thirds busy, one tenant in eight far busier than the others.
func benchCluster(b *testing.B, devices, tenants int) (*Cluster, *Past) {
	h, err := whatif.FindHardware("RTXPRO6000")
	if err != nil {
		b.Fatal(err)
	}
	a, err := whatif.FindArchitecture("Llama-3.1-8B")
	if err != nil {
		b.Fatal(err)
	}
	g := a.Graph(1)
	engine := whatif.VLLM(h, 128)
	c := &Cluster{
		Costs:  &benchCatalog{g, whatif.Roofline{FLOPS: h.FLOPS, BandwidthBytesPerS: h.BandwidthBytesPerS, LaunchNs: 3000}, map[gmg.Range]*whatif.Program{}},
		Engine: func(int) *whatif.EngineKind { return engine },
	}
	for d := range devices {
		c.Devices = append(c.Devices, Device{ID: fmt.Sprint("d", d), Kind: h.Name, Host: d / 8, MemoryBytes: 85e9, LoadBytesPerS: 25e9})
		for o := max(0, d/8*8); o < min(devices, d/8*8+8); o++ {
			if o != d {
				c.Links = append(c.Links, whatif.LinkSpec{From: d, To: o, BandwidthBytesPerS: 20e9, LatencyNs: 20_000})
			}
		}
	}
	past := &Past{}
	for t := range tenants {
		c.Tenants = append(c.Tenants, Tenant{
			ID: fmt.Sprint("t", t), Model: a.Name, Graph: g, Home: t % devices, MaxSequences: 128,
			AloneTTFTNs: func(prompt int) int64 { return 10e6 + int64(prompt)*60_000 }, AloneTPOTNs: func(int) int64 { return 10e6 },
		})
		rate := float64(devices) / float64(tenants) * 2
		if t%8 == 0 {
			rate *= 4
		}
		past.Tenants = append(past.Tenants, TenantPast{
			RequestsPerS: rate, PromptTokens: 800, OutputTokens: 200,
			PromptQuantiles: []int{100, 200, 300, 500, 600, 800, 900, 1000, 1200, 1500, 3000}, OutputQuantiles: []int{5, 20, 50, 80, 120, 180, 220, 280, 350, 500, 1000},
		})
	}
	return c, past
}

// benchState runs the policy's own placement for two seconds and observes it, with a burst of the first tenant at the end.
func benchState(b *testing.B, p *slice, c *Cluster, past *Past, start *Start) *whatif.State {
	spec := &whatif.Spec{Links: c.Links, Catalog: c.Costs, Router: p, Order: start.Order}
	for i := range c.Devices {
		spec.Devices = append(spec.Devices, whatif.DeviceSpec{ID: c.Devices[i].ID, MemoryBytes: c.Devices[i].MemoryBytes})
	}
	for t := range c.Tenants {
		ts := whatif.TenantSpec{ID: c.Tenants[t].ID, Lanes: start.Lanes[t]}
		gap := 1e9 / past.Tenants[t].RequestsPerS
		for at := gap * float64(t%7) / 7; at < 2e9; at += gap {
			ts.Requests = append(ts.Requests, whatif.Request{ArrivalNs: int64(at), PromptTokens: 800, OutputTokens: 200, TTFTLimitNs: 1e9, TPOTLimitNs: 50e6})
		}
		if t == 0 {
			for range 40 {
				ts.Requests = append(ts.Requests, whatif.Request{ArrivalNs: 1_990_000_000, PromptTokens: 1500, OutputTokens: 200, TTFTLimitNs: 1e9, TPOTLimitNs: 50e6})
			}
		}
		spec.Tenants = append(spec.Tenants, ts)
	}
	s, err := whatif.New(spec, whatif.Fast)
	if err != nil {
		b.Fatal(err)
	}
	s.Run(2e9)
	st := &whatif.State{}
	s.Observe(st)
	return st
}

// BenchmarkDecision prints what a search takes that has something to search for: a tenant's burst, with candidates to be tried. Decisions without are far
// cheaper.
func BenchmarkDecision(b *testing.B) {
	for _, size := range [][2]int{{8, 8}, {64, 64}, {1024, 512}} {
		for _, group := range []float64{0, 8} {
			b.Run(fmt.Sprintf("devices=%d/tenants=%d/group=%g", size[0], size[1], group), func(b *testing.B) {
				c, past := benchCluster(b, size[0], size[1])
				made, err := New("slice", Knobs{"group": group, "bigPct": 0, "keepPct": 50})
				if err != nil {
					b.Fatal(err)
				}
				p := made.(*slice)
				start, err := p.Place(c, past)
				if err != nil {
					b.Fatal(err)
				}
				st := benchState(b, p, c, past, start)
				p.Plan(st)
				var took []time.Duration
				for b.Loop() {
					clear(p.restNs)
					clear(p.rests)
					began := time.Now()
					p.Plan(st)
					took = append(took, time.Since(began))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds())/1e3, "p50-ms")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1e3, "p99-ms")
				b.ReportMetric(float64(p.searches)/float64(len(took)+1), "searches/op")
			})
		}
	}
}
