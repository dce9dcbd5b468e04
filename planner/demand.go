package planner

import (
	"cmp"
	"slices"

	"slicescheduler/whatif"
)

// guessedBatch is how many sequences share a step of decodes where nothing better is known: what a token costs a busy device is that much less than alone.
const guessedBatch = 16

// computeDemand is about how many devices a tenant's past requests kept busy, `burst` of the way from its mean rate to that of its busiest moments.
func computeDemand(t *Tenant, p *TenantPast, burst float64) float64 {
	rate := p.RequestsPerS + burst*max(0, p.PeakRequestsPerS-p.RequestsPerS)
	if t.AloneTTFTNs == nil || t.AloneTPOTNs == nil {
		return rate * (p.PromptTokens + p.OutputTokens)
	}
	prefill := float64(t.AloneTTFTNs(int(p.PromptTokens)))
	decode := p.OutputTokens * float64(t.AloneTPOTNs(int(p.PromptTokens+p.OutputTokens/2))) / guessedBatch
	return rate * (prefill + decode) / 1e9
}

// demands is computeDemand of all tenants.
func demands(c *Cluster, past *Past, burst float64) []float64 {
	out := make([]float64, len(c.Tenants))
	for i := range c.Tenants {
		out[i] = computeDemand(&c.Tenants[i], past.tenant(i), burst)
	}
	return out
}

// byDemand lists tenants, the greatest demand first.
func byDemand(demand []float64) []int {
	order := make([]int, len(demand))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(demand[b], demand[a]) })
	return order
}

// leastBy is the lane of the least cost, of those that have the pages for all prompts if any has; -1 without lanes.
func leastBy(a *whatif.Arrival, cost func(l *whatif.LaneLoad) float64) int {
	best, bestFits, least := -1, false, 0.0
	for i := range a.Lanes {
		l := &a.Lanes[i]
		fits := l.FreeBlocks*blockTokens >= a.PromptTokens+l.PendingTokens
		v := cost(l)
		if best < 0 || fits && !bestFits || fits == bestFits && v < least {
			best, bestFits, least = l.Lane, fits, v
		}
	}
	return best
}
