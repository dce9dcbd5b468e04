package whatif

// fasterCost is a cost on a device that is several times as fast.
type fasterCost struct {
	Cost
	times int64
}

// Ns implements Cost.
func (c fasterCost) Ns(sh *Shape) int64 { return max(1, (c.Cost.Ns(sh)+c.times/2)/c.times) }

// Faster returns the same run of stages on a device that is `times` times as fast (bounds only).
func (p *Program) Faster(times int) *Program {
	out := *p
	out.blocks = make([]programBlock, len(p.blocks))
	for i, b := range p.blocks {
		costs := make([]Cost, len(b.costs))
		for k, c := range b.costs {
			costs[k] = fasterCost{c, int64(times)}
		}
		b.costs = costs
		out.blocks[i] = b
	}
	return &out
}

// Faster returns the engine on a host that is `times` times as fast (bounds only).
func (e *EngineKind) Faster(times int) *EngineKind {
	out, n := *e, int64(times)
	out.DecodeStepNs, out.PrefillStepNs, out.PrefillLayerNs = e.DecodeStepNs/n, e.PrefillStepNs/n, e.PrefillLayerNs/n
	return &out
}
