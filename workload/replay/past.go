package replay

import (
	"slices"

	"slicescheduler/planner"
	"slicescheduler/whatif"
	"slicescheduler/workload"
)

// peakNs is the window in which a tenant's busiest moment is looked for.
const peakNs = 10_000_000_000

// past measures the tuning piece at a load.
func (p *Setup) past(load float64) *planner.Past {
	out := &planner.Past{Tenants: make([]planner.TenantPast, len(p.tuning))}
	for i, arrivals := range p.tuning {
		out.Tenants[i] = pastOf(arrivals, load, p.tuneNs)
	}
	return out
}

func pastOf(arrivals piece, load float64, lengthNs int64) planner.TenantPast {
	n := len(arrivals)
	if n == 0 {
		return planner.TenantPast{}
	}
	prompts, outputs := make([]int, n), make([]int, n)
	t := planner.TenantPast{RequestsPerS: float64(n) / (float64(lengthNs) / load / 1e9)}
	most, first := 0, 0
	for k, a := range arrivals {
		prompts[k], outputs[k] = a.PromptTokens, a.OutputTokens
		t.PromptTokens += float64(a.PromptTokens) / float64(n)
		t.OutputTokens += float64(a.OutputTokens) / float64(n)
		for float64(a.ArrivalNs-arrivals[first].ArrivalNs)/load >= peakNs {
			first++
		}
		most = max(most, k-first+1)
	}
	t.PeakRequestsPerS = float64(most) / (peakNs / 1e9)
	t.PromptQuantiles, t.OutputQuantiles = deciles(prompts), deciles(outputs)
	return t
}

// deciles returns the 0, 10 .. 100 % quantiles.
func deciles(v []int) []int {
	slices.Sort(v)
	out := make([]int, 11)
	for i := range out {
		out[i] = v[i*(len(v)-1)/10]
	}
	return out
}

// cluster is what a policy is told of the hardware and the models.
func (p *Setup) cluster(v view, seed uint64) *planner.Cluster {
	c := &planner.Cluster{Devices: slices.Clone(p.devices), Links: p.links, Costs: p.catalog(v, seed)}
	engine := p.costs.engine(p.hardware, p.Scenario.Tenants.MaxSequences)
	c.Engine = func(int) *whatif.EngineKind { return engine }
	for i := range p.Tenants {
		t, curve := &p.Tenants[i], p.alone[i]
		c.Tenants = append(c.Tenants, planner.Tenant{
			ID: t.ID, Model: t.Model, Graph: t.graph, Home: t.Home, MaxSequences: p.Scenario.Tenants.MaxSequences,
			AloneTTFTNs: func(prompt int) int64 { return at(curve.ttft, prompt) },
			AloneTPOTNs: func(context int) int64 { return at(curve.tpot, context) },
		})
	}
	return c
}

// limits returns the limits of a request as its scheduler is told them. Its TPOT's is that of the context at the answer's start: the length of the answer,
// on which the true limit depends, is nobody's to know.
func (p *Setup) limits(tenant, promptTokens int) (ttftNs, tpotNs int64) {
	return workload.SLA{}.Limits(p.alone[tenant].request(promptTokens, 0))
}
