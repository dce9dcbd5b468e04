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

// rooflineExperts is a mixture-of-experts block on its roofline: only the experts that some row reaches are read.
type rooflineExperts struct {
	weights  float64 // ns to read all experts
	flops    polynomial
	perFLOP  float64
	launchNs float64
	group    ExpertGroup
}

// Ns implements Cost.
func (r *rooflineExperts) Ns(sh *Shape) int64 {
	rows := max(sh.Tokens, 1)
	read := r.weights * r.group.Reached(rows) / float64(r.group.Experts)
	return roundNs(max(read, r.flops.at(float64(rows), float64(sh.Logits), 0)*r.perFLOP) + r.launchNs)
}

func (*rooflineExperts) onlyRows() bool { return true }

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
	if op.Kind == gmg.OpExperts && op.Attrs.Experts > 0 {
		return &rooflineExperts{
			weights: float64(op.WeightBytes) / (r.BandwidthBytesPerS * e) * 1e9, flops: polynomial(op.FLOPs), perFLOP: 1e9 / (r.FLOPS * e),
			launchNs: float64(r.LaunchNs), group: ExpertGroup{Experts: op.Attrs.Experts, TopK: op.Attrs.TopK, Members: 1},
		}
	}
	bytes := append(polynomial{{Coef: float64(op.WeightBytes)}}, op.ReadBytes...)
	return &rooflineCost{
		flops: polynomial(op.FLOPs), bytes: append(bytes, op.WriteBytes...),
		perFLOP: 1e9 / (r.FLOPS * e), perByte: 1e9 / (r.BandwidthBytesPerS * e), launchNs: float64(r.LaunchNs),
	}
}

// defaultEfficiency is the share of both peaks that good kernels reach.
const defaultEfficiency = 0.8
