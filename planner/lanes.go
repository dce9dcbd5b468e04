package planner

import (
	"fmt"
	"math"
	"slices"

	"slicescheduler/batching"
	"slicescheduler/gmg"
	"slicescheduler/whatif"
)

// blockTokens is the size of a KV page, as in vLLM.
const blockTokens = batching.DefaultBlockTokens

// Steps says how a lane forms steps.
type Steps struct {
	BudgetTokens int // of one step
	ChunkTokens  int // prefill of one sequence in one step; 0: the budget
	InFlight     int // 0: 2 on one device, else as many as slices
	Separate     int // steps of prompts in flight, apart from one of decodes; 0: steps hold both
}

// config is vLLM's scheduling for a lane of n slices. Several slices keep several steps in flight: a prompt's chunks follow each other down the lane, and a
// sequence decodes once its last token is back.
func (s Steps) config(t *Tenant, n, kvBlocks int) batching.Config {
	c := batching.Config{
		BlockTokens: blockTokens, KVBlocks: kvBlocks, MaxBatchTokens: s.BudgetTokens, MaxChunkTokens: s.ChunkTokens, MaxSequences: t.MaxSequences,
		InFlight: s.InFlight, Overlap: batching.OverlapAll, Order: batching.OrderStrict, AdmitWhole: true, CountOnly: true,
	}
	if c.InFlight == 0 {
		c.InFlight = max(2, n)
	}
	if n > 1 {
		c.Overlap = batching.OverlapPrefill
	}
	if s.Separate > 0 {
		c.Separate, c.MicroBatches, c.InFlight, c.Overlap = s.Separate, 1, s.Separate+1, batching.OverlapPrefill
	}
	return c
}

// Lane lays a tenant over devices in this order, with a run of stages on each, and kvBlocks pages that it has for itself. Nil runs: equal ones.
func (c *Cluster) Lane(tenant int, devices []int, runs []gmg.Range, kvBlocks int, s Steps) whatif.LaneSpec {
	t := &c.Tenants[tenant]
	if runs == nil {
		runs = EqualRuns(t.Graph, len(devices), 0)
	}
	l := whatif.LaneSpec{Engine: c.Engine(devices[0]), Batching: s.config(t, len(devices), kvBlocks), Ranks: []whatif.RankSpec{{}}}
	for i, d := range devices {
		l.Ranks[0].Slices = append(l.Ranks[0].Slices, whatif.SliceSpec{Device: d, Stages: runs[i], KVBytes: int64(kvBlocks) * pageBytes(t, runs[i])})
	}
	return l
}

// SharedLane is Lane with pages out of what its devices have free at each moment, together with all other such lanes there: up to kvBlocks.
func (c *Cluster) SharedLane(tenant int, devices []int, runs []gmg.Range, kvBlocks int, s Steps) whatif.LaneSpec {
	l := c.Lane(tenant, devices, runs, kvBlocks, s)
	l.SharedKV, l.Batching.Watermark = true, kvBlocks/100 // so that others' growth doesn't push out who was just admitted
	for i := range l.Ranks[0].Slices {
		l.Ranks[0].Slices[i].KVBytes = 0
	}
	return l
}

// EqualRuns cuts a graph into n runs so that the longest is as short as can be, the embedding counting nothing and the head as headLayers layers (a lookup
// costs nearly nothing; the head is wanted for one row of a prompt, but for every row of decodes). n is at most the number of stages.
func EqualRuns(g *gmg.Graph, n int, headLayers float64) []gmg.Range {
	stages := len(g.Stages)
	cost := func(i int) float64 {
		switch i {
		case 0:
			return 0
		case stages - 1:
			return headLayers
		}
		return 1
	}
	// longest[k][to] is the least that the longest of k runs over the first `to` stages costs, from[k][to] where its last run begins.
	longest, from := make([][]float64, n+1), make([][]int, n+1)
	for k := range longest {
		longest[k], from[k] = make([]float64, stages+1), make([]int, stages+1)
		for to := range longest[k] {
			longest[k][to] = math.Inf(1)
		}
	}
	longest[0][0] = 0
	for k := 1; k <= n; k++ {
		for to := k; to <= stages; to++ {
			last := 0.0
			for at := to - 1; at >= k-1; at-- {
				last += cost(at)
				if v := max(longest[k-1][at], last); v < longest[k][to] {
					longest[k][to], from[k][to] = v, at
				}
			}
		}
	}
	runs := make([]gmg.Range, n)
	for k, to := n, stages; k > 0; k-- {
		runs[k-1] = gmg.Range{From: from[k][to], To: to}
		to = from[k][to]
	}
	return runs
}

// pageBytes is what one KV page of a run of a tenant's stages takes.
func pageBytes(t *Tenant, r gmg.Range) int64 { return blockTokens * t.Graph.KVBytesPerToken(r) }

// pagesIn is how many KV pages a run of stages can have in some bytes.
func pagesIn(t *Tenant, r gmg.Range, bytes int64) int {
	page := pageBytes(t, r)
	if page == 0 || bytes/page > batching.MaxKVBlocks {
		return batching.MaxKVBlocks
	}
	return int(max(bytes, 0) / page)
}

// Room is what is free on each device while lanes are laid.
type Room struct {
	c    *Cluster
	Free []int64 // by device
}

// NewRoom returns an empty cluster's.
func NewRoom(c *Cluster) *Room {
	r := &Room{c: c}
	for i := range c.Devices {
		r.Free = append(r.Free, c.Devices[i].MemoryBytes)
	}
	return r
}

// RoomNow is what a running cluster has free.
func RoomNow(c *Cluster, s *whatif.State) *Room {
	r := &Room{c: c}
	for i := range s.Devices {
		r.Free = append(r.Free, s.Devices[i].FreeBytes)
	}
	return r
}

// Clone returns a copy to try things on.
func (r *Room) Clone() *Room { return &Room{c: r.c, Free: slices.Clone(r.Free)} }

// Take reserves what a lane's weights and KV hold, on all of its devices or, with an ErrNoRoom, on none.
func (r *Room) Take(tenant int, l *whatif.LaneSpec) error {
	after := slices.Clone(r.Free)
	g := r.c.Tenants[tenant].Graph
	for _, rank := range l.Ranks {
		for _, sl := range rank.Slices {
			bytes := sl.KVBytes
			if !l.FreeWeights {
				bytes += g.WeightBytes(sl.Stages)
			}
			for _, d := range append([]int{sl.Device}, sl.Gang...) {
				if after[d] -= bytes; after[d] < 0 {
					return fmt.Errorf("%w: tenant %s needs %d bytes on device %s, %d are free", ErrNoRoom, r.c.Tenants[tenant].ID, bytes, r.c.Devices[d].ID, r.Free[d])
				}
			}
		}
	}
	r.Free = after
	return nil
}

// Pages is how many KV pages a lane of these runs could have in what its devices have free beside its weights; negative when the weights don't fit.
func (r *Room) Pages(tenant int, devices []int, runs []gmg.Range) int {
	t := &r.c.Tenants[tenant]
	if runs == nil {
		runs = EqualRuns(t.Graph, len(devices), 0)
	}
	pages := batching.MaxKVBlocks
	for i, d := range devices {
		left := r.Free[d] - t.Graph.WeightBytes(runs[i])
		if left < 0 {
			return -1
		}
		pages = min(pages, pagesIn(t, runs[i], left))
	}
	return pages
}

// longestTokens is the longest request that a tenant is known for, as far as its model's context allows; 1 where nothing is known.
func longestTokens(t *Tenant, p *TenantPast) int {
	n := 1
	for _, q := range [2][]int{p.PromptQuantiles, p.OutputQuantiles} {
		if len(q) > 0 {
			n += q[len(q)-1]
		}
	}
	if t.Graph.ContextTokens > 0 {
		n = min(n, t.Graph.ContextTokens)
	}
	return n
}

// tenant is a tenant's past; nothing where nothing is known.
func (p *Past) tenant(i int) *TenantPast {
	if p == nil || i >= len(p.Tenants) {
		return &TenantPast{}
	}
	return &p.Tenants[i]
}
