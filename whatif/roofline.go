package whatif

import (
	"slicescheduler/gmg"
)

// rooflineCost is an operator that was not measured: the larger of computing and moving its bytes, plus a launch (Williams et al., "Roofline", 2009).
type rooflineCost struct {
	flops, bytes polynomial
	perFLOP      float64 // ns
	perByte      float64 // ns
	launchNs     float64
}

// polynomial is a gmg.Expr with small integer powers, evaluated without math.Pow.
type polynomial []gmg.Term

func (p polynomial) at(t, s, c float64) float64 {
	sum := 0.0
	for i := range p {
		v := p[i].Coef
		for range p[i].PowT {
			v *= t
		}
		for range p[i].PowS {
			v *= s
		}
		for range p[i].PowC {
			v *= c
		}
		sum += v
	}
	return sum
}

// Ns implements Cost.
func (r *rooflineCost) Ns(sh *Shape) int64 {
	t := float64(sh.Tokens)
	s := float64(sh.Logits)
	c := 0.0
	if n := sh.PrefillTokens + sh.Decodes; n > 0 {
		c = (float64(sh.PrefillWork)/2 + float64(sh.DecodeContext)) / float64(n)
	}
	return roundNs(max(r.flops.at(t, s, c)*r.perFLOP, r.bytes.at(t, s, c)*r.perByte) + r.launchNs)
}

// Roofline gives a device's operators the time that its peaks allow.
type Roofline struct {
	FLOPS              float64 // of the dtype that weights are multiplied in
	BandwidthBytesPerS float64
	Efficiency         float64 // of both, 0: 0.8
	LaunchNs           int64
}

// Cost returns an operator's roofline cost.
func (r Roofline) Cost(op *gmg.Operator) Cost {
	e := r.Efficiency
	if e == 0 {
		e = defaultEfficiency
	}
	bytes := append(polynomial{{Coef: float64(op.WeightBytes)}}, op.ReadBytes...)
	return &rooflineCost{
		flops: polynomial(op.FLOPs), bytes: append(bytes, op.WriteBytes...),
		perFLOP: 1e9 / (r.FLOPS * e), perByte: 1e9 / (r.BandwidthBytesPerS * e), launchNs: float64(r.LaunchNs),
	}
}

// defaultEfficiency is the share of both peaks that good kernels reach.
const defaultEfficiency = 0.8
