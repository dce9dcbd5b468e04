package planner

import (
	"slices"

	"slicescheduler/whatif"
)

// model is what the planner believes of the world: devices, links, costs, and its own routing.
func (p *slice) model() *whatif.Spec {
	if p.spec != nil {
		return p.spec
	}
	p.spec = &whatif.Spec{Links: p.c.Links, Catalog: p.c.Costs, Router: p, Order: p.order()}
	for i := range p.c.Devices {
		p.spec.Devices = append(p.spec.Devices, whatif.DeviceSpec{ID: p.c.Devices[i].ID, MemoryBytes: p.c.Devices[i].MemoryBytes})
	}
	for i := range p.c.Tenants {
		p.spec.Tenants = append(p.spec.Tenants, whatif.TenantSpec{ID: p.c.Tenants[i].ID})
	}
	return p.spec
}

// forecast is one look into the future: the state without changes, from which candidates fork.
type forecast struct {
	p       *slice
	start   *whatif.Sim
	untilNs int64
	base    float64 // good tokens at untilNs without changes
	runs    int     // that one look may take
}

const (
	// horizonNs is how far a forecast looks at most, leastHorizonNs what it must reach to be of use.
	horizonNs      = 2_000_000_000
	leastHorizonNs = 60_000_000
)

// look forecasts the state without changes, within the budget that is left for each of so many candidates and itself. It returns nil when the budget doesn't
// reach far enough to tell anything.
func (p *slice) look(s *whatif.State, candidates int) *forecast {
	f := &forecast{p: p, runs: p.knobs.Int("steps") / (candidates + 1)}
	g := whatif.Guess{OutputTokens: p.guessOutput, Future: p.future(s)}
	sim, err := whatif.Resume(p.model(), s, g, whatif.Fast)
	if err != nil {
		return nil // the state is of several moments; the next one will do
	}
	f.start = sim
	base := sim.Fork()
	f.untilNs = base.RunWithin(s.NowNs+horizonNs, f.runs)
	if f.untilNs < s.NowNs+leastHorizonNs {
		return nil
	}
	f.base = p.good(base)
	return f
}

// try returns how many more good tokens an action brings, and whether memory stays safe at every moment.
func (f *forecast) try(actions ...whatif.Action) (float64, bool) {
	sim := f.start.Fork()
	for _, a := range actions {
		if sim.Apply(a) != nil {
			return 0, false
		}
	}
	sim.RunWithin(f.untilNs, 4*f.runs)
	if sim.Now() < f.untilNs {
		return 0, false
	}
	if sh := sim.Forecast().Shortage; sh != nil {
		return 0, false
	}
	return f.p.good(sim) - f.base, true
}

// better says whether a gain is worth a change: by how much of the forecast's good tokens it must be better than none, so that plans don't thrash, is a knob.
func (f *forecast) better(gain float64) bool { return gain > f.p.knobs["gainPct"]/100*max(f.base, 1) }

// good counts the tokens of finished requests within SLA, and of the others as far as they are in time: a first token that came in time or still may, and
// answers that aren't behind.
func (p *slice) good(sim *whatif.Sim) float64 {
	s := &p.scratch
	sim.Observe(s)
	sum := 0.0
	for ti := range s.Tenants {
		t := &s.Tenants[ti]
		sum += float64(t.Totals.GoodTokens)
		for k := range t.Lanes {
			for i := range t.Lanes[k].Sequences {
				sum += p.worth(s.NowNs, &t.Lanes[k].Sequences[i])
			}
		}
		for i := range t.Held {
			sum += p.worth(s.NowNs, &t.Held[i])
		}
	}
	return sum
}

// worth is what a live sequence counts. One that is late counts nothing, and the later it is the less.
func (p *slice) worth(now int64, q *whatif.SequenceState) float64 {
	late := int64(0)
	switch {
	case q.FirstNs == 0 && q.TTFTLimitNs > 0:
		late = now - q.ArrivalNs - q.TTFTLimitNs
	case q.FirstNs > 0:
		if q.FirstNs-q.ArrivalNs > q.TTFTLimitNs && q.TTFTLimitNs > 0 {
			return 0 // nothing can mend it
		}
		if q.TPOTLimitNs > 0 {
			late = now - q.FirstNs - q.TPOTLimitNs*int64(q.Tokens-q.PromptTokens)
		}
	}
	if late > 0 {
		return -lateTokens * float64(late) / 1e9
	}
	return float64(q.ComputedTokens)
}

// lateTokens is what a second of being late is worth, in tokens: enough to tell two late futures apart.
const lateTokens = 50

// guessOutput is the mean length of those past answers that are longer than this one is so far.
func (p *slice) guessOutput(tenant int, q *whatif.SequenceState) int {
	have := q.Tokens - q.PromptTokens
	past := p.past.tenant(tenant)
	sum, n := 0, 0
	for _, v := range past.OutputQuantiles {
		if v > have {
			sum, n = sum+v, n+1
		}
	}
	if n > 0 {
		return sum / n
	}
	return have + max(16, have/4, int(past.OutputTokens)/4)
}

// future are the requests that are expected, evenly, at each tenant's present rate.
func (p *slice) future(s *whatif.State) [][]whatif.Request {
	out := make([][]whatif.Request, len(s.Tenants))
	for ti := range s.Tenants {
		gap := 1e9 / max(p.rate[ti], 1e-9)
		past := p.past.tenant(ti)
		prompt, output := max(1, int(past.PromptTokens)), max(1, int(past.OutputTokens))
		ttft, tpot := p.limits(ti, prompt)
		for at := gap / 2; at < horizonNs; at += gap {
			out[ti] = append(out[ti], whatif.Request{
				ArrivalNs: s.NowNs + int64(at), PromptTokens: prompt, OutputTokens: output, TTFTLimitNs: ttft, TPOTLimitNs: tpot,
			})
		}
	}
	return out
}

// limits are those of a tenant's requests of this length as they were last seen; 0 where none was.
func (p *slice) limits(tenant, promptTokens int) (ttftNs, tpotNs int64) {
	return p.seen[tenant][0], p.seen[tenant][1]
}

// order is how devices' queues are served.
func (p *slice) order() whatif.QueueOrder {
	if p.knobs["urgent"] > 0 {
		return whatif.OrderUrgent
	}
	return whatif.OrderSlack
}

// soon is an action as if its weights were loaded at once: a forecast is too short for a load, and what a lane brings once it serves is what counts.
func soon(actions []whatif.Action) []whatif.Action {
	out := slices.Clone(actions)
	for i := range out {
		switch a := out[i].(type) {
		case whatif.AddLane:
			a.LoadNs = 0
			out[i] = a
		case whatif.Reshape:
			a.Moves = slices.Clone(a.Moves)
			for k := range a.Moves {
				a.Moves[k].LoadNs = 0
			}
			out[i] = a
		}
	}
	return out
}
