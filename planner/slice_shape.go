package planner

import (
	"math"

	"slicescheduler/whatif"
)

// auto is the knob bigPct's value that leaves the shape of a start to forecasts.
const auto = -1

// shape is how a start is laid: from which share of a device's memory on a tenant's weights make it spread, and how much memory copies leave for KV.
type shape struct{ bigPct, keepPct float64 }

// shapes are the starts that are tried: whole copies only, few or many; the big tenants spread; all spread.
func shapes() []shape {
	return []shape{{100, 50}, {100, 35}, {50, 35}, {50, 50}, {0, 50}}
}

const (
	// A start is tried with rehearsalLoad times the past's rates for so many seconds, at least, or for rehearsalStays times as long as a mean answer takes.
	leastRehearsalNs = 40_000_000_000
	mostRehearsalNs  = 240_000_000_000
	rehearsalStays   = 1.5
	rehearsalLoad    = 1.05
	// rehearsalRuns bounds what one trial costs.
	rehearsalRuns = 1_000_000
)

// chooseShape tries each shape on requests as the past suggests them and keeps the one that keeps most requests within SLA; of equal ones the first.
func (p *slice) chooseShape() {
	best, most := shapes()[0], math.Inf(-1)
	lengthNs := p.rehearsalNs()
	requests := p.rehearsal(lengthNs)
	for _, s := range shapes() {
		p.knobs["bigPct"], p.knobs["keepPct"] = s.bigPct, s.keepPct
		st, err := p.lay()
		if err != nil {
			continue
		}
		spec := *p.model()
		spec.Tenants = nil
		for i := range p.c.Tenants {
			spec.Tenants = append(spec.Tenants, whatif.TenantSpec{ID: p.c.Tenants[i].ID, Lanes: st.Lanes[i], Requests: requests[i]})
		}
		sim, err := whatif.New(&spec, whatif.Fast)
		if err != nil {
			continue
		}
		reached := sim.RunWithin(lengthNs, rehearsalRuns)
		if reached < lengthNs/2 {
			continue // too dear to be judged
		}
		if good := p.kept(sim); good > most+0.002 || math.IsInf(most, -1) {
			best, most = s, good
		}
	}
	p.knobs["bigPct"], p.knobs["keepPct"] = best.bigPct, best.keepPct
}

// kept is the share of requests that are within SLA so far: of all, or on average over tenants, whichever is less, as violations are counted.
func (p *slice) kept(sim *whatif.Sim) float64 {
	s := &p.scratch
	sim.Observe(s)
	var all, good, shares, active float64
	for ti := range s.Tenants {
		t := &s.Tenants[ti]
		mine, kept := float64(t.Totals.Finished), float64(t.Totals.Finished-t.Totals.ViolatedRequests)
		count := func(q *whatif.SequenceState) {
			mine++
			if p.worth(s.NowNs, q) >= 0 && (q.FirstNs == 0 || q.FirstNs-q.ArrivalNs <= q.TTFTLimitNs) {
				kept++
			}
		}
		for k := range t.Lanes {
			for i := range t.Lanes[k].Sequences {
				count(&t.Lanes[k].Sequences[i])
			}
		}
		for i := range t.Held {
			count(&t.Held[i])
		}
		if all, good = all+mine, good+kept; mine > 0 {
			shares, active = shares+kept/mine, active+1
		}
	}
	return min(good/max(all, 1), shares/max(active, 1))
}

// rehearsalNs is how long a trial must be to show what answers that take long do to each other.
func (p *slice) rehearsalNs() int64 {
	longest := 0.0
	for i := range p.c.Tenants {
		_, tpot := ruleLimits(&p.c.Tenants[i], 1)
		longest = max(longest, rehearsalStays*p.past.tenant(i).OutputTokens*float64(tpot))
	}
	return int64(min(max(longest, leastRehearsalNs), mostRehearsalNs))
}

// rehearsal makes up requests: gaps as of a Poisson process in bursts as high as the past's, lengths between the past's quantiles.
func (p *slice) rehearsal(lengthNs int64) [][]whatif.Request {
	out := make([][]whatif.Request, len(p.c.Tenants))
	for i := range p.c.Tenants {
		t, past := &p.c.Tenants[i], p.past.tenant(i)
		if past.RequestsPerS <= 0 {
			continue
		}
		r := stream(i)
		rate := past.RequestsPerS * rehearsalLoad / 1e9
		for at := r.exp() / rate; at < float64(lengthNs); at += r.exp() / rate {
			q := whatif.Request{
				ArrivalNs: int64(at), PromptTokens: between(past.PromptQuantiles, past.PromptTokens, r.unit()),
				OutputTokens: between(past.OutputQuantiles, past.OutputTokens, r.unit()),
			}
			q.TTFTLimitNs, q.TPOTLimitNs = ruleLimits(t, q.PromptTokens)
			out[i] = append(out[i], q)
		}
	}
	return out
}

// ruleLimits are those of a tenant without figures of its own: after Splitwise (Patel et al., ISCA 2024), five times the TTFT and twice the TPOT that the
// request has alone, at least 1 s and 50 ms.
func ruleLimits(t *Tenant, promptTokens int) (ttftNs, tpotNs int64) {
	ttftNs, tpotNs = 1_000_000_000, 50_000_000
	if t.AloneTTFTNs != nil && t.AloneTPOTNs != nil {
		ttftNs, tpotNs = max(ttftNs, 5*t.AloneTTFTNs(promptTokens)), max(tpotNs, 2*t.AloneTPOTNs(promptTokens))
	}
	return ttftNs, tpotNs
}

// between is the length at a position, 0 to 1, of a distribution.
func between(quantiles []int, mean, at float64) int {
	if len(quantiles) < 2 {
		return max(1, int(mean))
	}
	x := at * float64(len(quantiles)-1)
	k := min(int(x), len(quantiles)-2)
	return max(1, int(float64(quantiles[k])+(x-float64(k))*float64(quantiles[k+1]-quantiles[k])))
}

// stream is a tenant's own source of numbers that look random and are always the same.
type streamOf struct{ state uint64 }

func stream(tenant int) *streamOf { return &streamOf{uint64(tenant)*0x9e3779b97f4a7c15 + 1} }

// unit is between 0 and 1 (SplitMix64; Steele, Lea and Flood, 2014).
func (s *streamOf) unit() float64 {
	s.state += 0x9e3779b97f4a7c15
	x := s.state
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float64((x^x>>31)>>11) / (1 << 53)
}

// exp is exponentially distributed with mean 1.
func (s *streamOf) exp() float64 { return -math.Log(1 - s.unit()) }
