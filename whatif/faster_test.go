package whatif

import "testing"

// A device that is three times as fast takes a third of each operator's time, rounded, and the engine's own time shrinks too.
func TestFaster(t *testing.T) {
	g := smallGraph(2)
	costs := costsBy(map[string]Cost{"embedding": linear{a: 9}, "qkv_proj": linear{a: 30, b: 3}, "attention": linear{a: 1}, "down_proj": linear{a: 60}, "lm_head": linear{a: 3}})
	p := mustCompile(g, g.Whole(), costs, Parallelism{})
	shapes := []Shape{{Tokens: 10}}
	ns := make([]int64, p.distinct())
	if total := p.times(shapes, ns); total != 9+2*(60+1+60)+3 {
		t.Fatalf("%d ns", total)
	}
	if total := p.Faster(3).times(shapes, ns); total != 3+2*(20+1+20)+1 {
		t.Errorf("%d ns on the faster device", total)
	}
	e := EngineKind{Name: "x", DecodeStepNs: 90, PrefillStepNs: 60, PrefillLayerNs: 30}
	if f := e.Faster(3); f.DecodeStepNs != 30 || f.PrefillStepNs != 20 || f.PrefillLayerNs != 10 || f.Name != "x" || e.DecodeStepNs != 90 {
		t.Errorf("%+v", f)
	}
}
