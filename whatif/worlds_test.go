package whatif

import (
	"fmt"

	"pgregory.net/rapid"

	"slicescheduler/batching"
	"slicescheduler/gmg"
)

// linear is a cost that a reader can compute in the head: a + b for each row + c for each token of context.
type linear struct{ a, b, c int64 }

func (l linear) Ns(sh *Shape) int64 {
	return max(1, l.a+l.b*int64(sh.Tokens)+l.c*(sh.DecodeContext+sh.PrefillWork/2))
}

// smallGraph is a model of a few layers with rows of four bytes.
func smallGraph(layers int) *gmg.Graph {
	op := func(kind gmg.OpKind, name string) gmg.Operator { return gmg.Operator{Kind: kind, Name: name} }
	attention := op(gmg.OpAttention, "attention")
	attention.Attrs = gmg.Attrs{Heads: 1, KVHeads: 1, HeadDim: 1} // q, k, v of 2 bytes each, 2 bytes out
	g := &gmg.Graph{
		ID: "small", Hidden: 2, Layers: layers, Vocab: 10, ContextTokens: 1000,
		Blocks: []gmg.Block{
			{Name: "embedding", Operators: []gmg.Operator{op(gmg.OpEmbedding, "embedding")}, WeightBytes: 10},
			{Name: "layer", Operators: []gmg.Operator{op(gmg.OpLinear, "qkv_proj"), attention, op(gmg.OpLinear, "down_proj")}, WeightBytes: 100, KVBytesPerToken: 4},
			{Name: "head", Operators: []gmg.Operator{op(gmg.OpHead, "lm_head")}, WeightBytes: 10},
		},
	}
	g.Stages = append(g.Stages, 0)
	for range layers {
		g.Stages = append(g.Stages, 1)
	}
	g.Stages = append(g.Stages, 2)
	return g
}

// costsBy gives operators costs by name.
func costsBy(costs map[string]Cost) CostSource {
	return func(op *gmg.Operator) (Cost, error) {
		if c, ok := costs[op.Name]; ok {
			return c, nil
		}
		return nil, fmt.Errorf("%w: %s", ErrTable, op.Name)
	}
}

func mustCompile(g *gmg.Graph, r gmg.Range, s CostSource, p Parallelism) *Program {
	out, err := Compile(g, r, s, p)
	if err != nil {
		panic(err)
	}
	return out
}

// drawWorld makes a small random world.
func drawWorld(t *rapid.T) *Spec {
	s := &Spec{KeepRecords: true}
	devices := rapid.IntRange(1, 4).Draw(t, "devices")
	for d := range devices {
		s.Devices = append(s.Devices, DeviceSpec{ID: fmt.Sprint("d", d)})
	}
	for a := range devices {
		for b := range devices {
			if a != b {
				s.Links = append(s.Links, LinkSpec{From: a, To: b, BandwidthBytesPerS: float64(rapid.IntRange(1, 5).Draw(t, "bw")) * 1e8, LatencyNs: int64(rapid.IntRange(0, 30).Draw(t, "lat"))})
			}
		}
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "tenants") {
		ts := TenantSpec{ID: fmt.Sprint("t", i)}
		for range rapid.IntRange(1, 2).Draw(t, "lanes") {
			ts.Lanes = append(ts.Lanes, drawLane(t, devices))
		}
		at := int64(0)
		for range rapid.IntRange(1, 8).Draw(t, "requests") {
			at += int64(rapid.IntRange(0, 400).Draw(t, "gap"))
			ts.Requests = append(ts.Requests, Request{ArrivalNs: at, PromptTokens: rapid.IntRange(1, 30).Draw(t, "prompt"), OutputTokens: rapid.IntRange(1, 40).Draw(t, "output")})
		}
		s.Tenants = append(s.Tenants, ts)
	}
	return s
}

func drawLane(t *rapid.T, devices int) LaneSpec {
	g := smallGraph(rapid.IntRange(1, 4).Draw(t, "layers"))
	cost := func(name string) Cost {
		return linear{int64(rapid.IntRange(1, 20).Draw(t, name)), int64(rapid.IntRange(0, 3).Draw(t, name)), int64(rapid.IntRange(0, 1).Draw(t, name))}
	}
	costs := costsBy(map[string]Cost{"embedding": cost("e"), "qkv_proj": cost("q"), "attention": cost("a"), "down_proj": cost("d"), "lm_head": cost("h")})
	c := batching.Config{
		BlockTokens: 4, KVBlocks: rapid.IntRange(18, 40).Draw(t, "pages"), MaxBatchTokens: rapid.IntRange(4, 40).Draw(t, "budget"),
		MaxSequences: rapid.IntRange(1, 6).Draw(t, "seqs"), InFlight: rapid.IntRange(1, 3).Draw(t, "inflight"),
		Overlap: batching.Overlap(rapid.IntRange(0, 2).Draw(t, "overlap")), Order: batching.Order(rapid.IntRange(0, 1).Draw(t, "order")),
		AdmitWhole: rapid.Bool().Draw(t, "whole"), PrefixReuse: rapid.Bool().Draw(t, "reuse"),
	}
	e := &EngineKind{DecodeStepNs: int64(rapid.IntRange(0, 9).Draw(t, "overhead")), PrefillLayerNs: int64(rapid.IntRange(0, 3).Draw(t, "overhead")), Eager: rapid.Bool().Draw(t, "eager")}
	if rapid.Bool().Draw(t, "graphs") {
		e.CaptureSizes = []int{1, 2, 4, 8}
	}
	l := LaneSpec{Engine: e, Batching: c, Borrowed: rapid.Bool().Draw(t, "borrowed")}
	if rapid.Bool().Draw(t, "cold") {
		l.ColdNs = int64(rapid.IntRange(1, 300).Draw(t, "cold"))
	}
	if n := rapid.IntRange(1, 2).Draw(t, "ranks"); n > 1 {
		p := mustCompile(g, g.Whole(), costs, Parallelism{})
		for range n {
			l.Ranks = append(l.Ranks, RankSpec{Slices: []SliceSpec{{Device: rapid.IntRange(0, devices-1).Draw(t, "device"), Program: p}}})
		}
		return l
	}
	var r RankSpec
	for from := 0; from < len(g.Stages); {
		to := rapid.IntRange(from+1, len(g.Stages)).Draw(t, "cut")
		r.Slices = append(r.Slices, SliceSpec{Device: rapid.IntRange(0, devices-1).Draw(t, "device"), Program: mustCompile(g, gmg.Range{From: from, To: to}, costs, Parallelism{})})
		from = to
	}
	l.Ranks = []RankSpec{r}
	return l
}
