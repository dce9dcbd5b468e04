package planner

import (
	"fmt"
	"math"
	"slices"

	"slicescheduler/whatif"
)

// swapping is Aegaeon: some devices run prompts, the others decodes, and every model may run on any of them, for its weights are brought in over the host link
// when its turn comes, between two tokens. Prompts go by groups of one model, decodes take turns in weighted round-robin, with the quotas of the paper. A model
// that is in memory already needs no loading, and KV goes to the host with the model that goes.
type swapping struct {
	base
	c        *Cluster
	pace     pacer
	prefills int // the first devices run prompts
	turns    map[[2]int]int64
	recent   [][]int // by device that runs prompts: tenants, the one that came last first
}

// Figures of Aegaeon.
const (
	turnPeriodNs = 200_000_000
	maxTurnNs    = 4e9 // QMAX
	leastAlpha   = 0.5
	groupSize    = 8  // prompts of one model that go together
	hiddenPct    = 50 // of a load, by fetching ahead
)

func switchEntry() entry {
	return entry{
		name: "switch",
		knobs: []knob{
			budget(),
			{name: "prefill", otherwise: 0.4, low: 0, high: 0.9, tries: []float64{0.25, 0.4, 0.55}},
			{name: "stay", otherwise: 100, low: 0, high: 1e6, tries: []float64{40, 150}},
			{name: "span", otherwise: 8, low: 1, high: 1024},
		},
		make: func(k Knobs) Policy { return &swapping{base: base{"switch", k}} },
	}
}

// PeriodNs implements Policy.
func (p *swapping) PeriodNs() int64 { return turnPeriodNs }

// Place implements Policy.
func (p *swapping) Place(c *Cluster, past *Past) (*Start, error) {
	p.c, p.pace, p.turns = c, newPacer(c, past, joinPace), map[[2]int]int64{}
	n := len(c.Devices)
	p.prefills = p.poolSize(past)
	start := &Start{Lanes: make([][]whatif.LaneSpec, len(c.Tenants)), Order: whatif.OrderSlack}
	for d := range c.Devices {
		start.Devices = append(start.Devices, whatif.DeviceSpec{ID: c.Devices[d].ID, MemoryBytes: c.Devices[d].MemoryBytes, Swap: &whatif.Swap{
			BytesPerS: c.Devices[d].LoadBytesPerS, HiddenPct: hiddenPct, RoundRobin: d >= p.prefills,
		}})
	}
	p.recent = make([][]int, p.prefills)
	for at, i := range byDemand(demands(c, past, 0)) {
		for k := range min(p.prefills, p.knobs.Int("span")) {
			start.Lanes[i] = p.append(start.Lanes[i], i, (at+k)%p.prefills, true, past)
		}
		decodes := n - p.prefills
		for k := range min(decodes, p.knobs.Int("span")) {
			start.Lanes[i] = p.append(start.Lanes[i], i, p.prefills+(at+k)%decodes, false, past)
		}
		if !p.complete(start.Lanes[i]) {
			return nil, fmt.Errorf("%w: tenant %s fits on no device of both pools", ErrNoRoom, c.Tenants[i].ID)
		}
	}
	p.settleIn(start)
	return start, nil
}

// poolSize is how many devices run prompts: as the knob says, or as many as past prompts keep busy of what prompts and decodes do. One device runs both.
func (p *swapping) poolSize(past *Past) int {
	n := len(p.c.Devices)
	if n < 2 {
		return 0
	}
	share := p.knobs["prefill"]
	if share == 0 {
		prompts, all := 0.0, 0.0
		for i := range p.c.Tenants {
			d, t := past.tenant(i), &p.pace.tenants[i]
			work := d.RequestsPerS * d.PromptTokens * t.prompt
			prompts += work
			all += work + d.RequestsPerS*d.OutputTokens*(t.weights/guessedBatch+t.sequence)
		}
		if all > 0 {
			share = prompts / all
		}
	}
	return min(n-1, max(1, int(math.Round(share*float64(n)))))
}

// append adds a lane on a device to others, if it fits there by itself with the KV of its longest request.
func (p *swapping) append(lanes []whatif.LaneSpec, tenant, device int, prefill bool, past *Past) []whatif.LaneSpec {
	t := &p.c.Tenants[tenant]
	pages := NewRoom(p.c).Pages(tenant, []int{device}, nil)
	if pages*blockTokens < longestTokens(t, past.tenant(tenant)) {
		return lanes
	}
	l := p.c.Lane(tenant, []int{device}, nil, pages, Steps{BudgetTokens: p.knobs.Int("budget")})
	l.Ranks[0].Slices[0].KVBytes = 0 // weights and KV come and go together
	l.Prefill = prefill
	if prefill {
		l.TurnNs = int64(groupSize * past.tenant(tenant).PromptTokens * p.pace.tenants[tenant].prompt)
	}
	return append(lanes, l)
}

// complete says whether a tenant has lanes for both kinds of work.
func (p *swapping) complete(lanes []whatif.LaneSpec) bool {
	prompts := slices.ContainsFunc(lanes, func(l whatif.LaneSpec) bool { return l.Prefill })
	decodes := slices.ContainsFunc(lanes, func(l whatif.LaneSpec) bool { return !l.Prefill })
	return decodes && (prompts || p.prefills == 0)
}

// settleIn lists which models are in the memory of the devices that run prompts at the start: as many as fit, in order.
func (p *swapping) settleIn(start *Start) {
	for d := range p.recent {
		left := p.c.Devices[d].MemoryBytes
		for i := range start.Lanes {
			on := slices.ContainsFunc(start.Lanes[i], func(l whatif.LaneSpec) bool { return l.Ranks[0].Slices[0].Device == d })
			if w := weightBytesOf(p.c, i); on && w <= left {
				left -= w
				p.recent[d] = append(p.recent[d], i)
			}
		}
	}
}

// resident says whether a model that ran prompts on a device is likely to be there still: with those that came after it, it fits.
func (p *swapping) resident(tenant, device int) bool {
	var sum int64
	for _, i := range p.recent[device] {
		if sum += weightBytesOf(p.c, i); sum > p.room(device) {
			return false
		}
		if i == tenant {
			return true
		}
	}
	return false
}

// Route implements Policy: the device with the least before it. A load comes before a model's first prompt where its weights aren't there, unless prompts of
// this model wait already and their group has room.
func (p *swapping) Route(a *whatif.Arrival) int {
	best, device, least := -1, 0, 0.0
	for i := range a.Lanes {
		l := &a.Lanes[i]
		if l.Prefill != (p.prefills > 0) {
			continue
		}
		v := float64(l.DevicePending) * p.pace.perPrompt
		if p.prefills > 0 && !p.resident(a.Tenant, l.Device) && (l.PendingTokens == 0 || l.Waiting >= groupSize) {
			v += p.loadNs(a.Tenant, l.Device)
		}
		if best < 0 || v < least {
			best, device, least = l.Lane, l.Device, v
		}
	}
	if best >= 0 && p.prefills > 0 {
		rest := slices.DeleteFunc(p.recent[device], func(i int) bool { return i == a.Tenant })
		p.recent[device] = slices.Insert(rest, 0, a.Tenant)
	}
	return best
}

// loadNs is what bringing a model's weights to a device holds up.
func (p *swapping) loadNs(tenant, device int) float64 {
	return float64(weightBytesOf(p.c, tenant)) / p.c.Devices[device].LoadBytesPerS * 1e9 * (100 - hiddenPct) / 100
}

// RouteDecode implements whatif.DecodeRouter: where the model decodes already, unless its pace is too slow there, else where it would disturb least. Where the
// models that run don't fit together, another one costs everybody its load in every round: `stay` is what that counts, in ms of the pace.
func (p *swapping) RouteDecode(a *whatif.Arrival) int {
	return leastBy(a, func(l *whatif.LaneLoad) float64 {
		v := p.pace.delay(a.Tenant, l)
		d := &p.pace.devices[l.Device]
		if d.running[a.Tenant] == 0 && l.Running == 0 && p.weightsOn(l.Device)+weightBytesOf(p.c, a.Tenant) > p.room(l.Device) {
			v += joinPace * p.knobs["stay"] * 1e6
		}
		return v
	})
}

// room is the part of a device's memory that weights may fill without pushing KV out.
func (p *swapping) room(device int) int64 { return p.c.Devices[device].MemoryBytes * 9 / 10 }

// weightsOn are the weights of the models that run on a device.
func (p *swapping) weightsOn(device int) int64 {
	var sum int64
	for i, n := range p.pace.devices[device].running {
		if n > 0 {
			sum += weightBytesOf(p.c, i)
		}
	}
	return sum
}

// Plan sets the turns of the models that decode on each device.
func (p *swapping) Plan(s *whatif.State) []Decision {
	p.pace.note(s)
	var out []Decision
	for d := p.prefills; d < len(p.c.Devices); d++ {
		out = append(out, p.setTurns(s, d)...)
	}
	return out
}

// setTurns gives each model of a device its quota in a round: a model whose steps take t and whose limit is d a token has n = d/t tokens to spare for each
// that it is given, c is what all loads of a round take, and its quota c / (n (alpha - sum 1/n)), where alpha is at least a half and such that no quota exceeds
// QMAX. Models that fit together go step by step.
func (p *swapping) setTurns(s *whatif.State, device int) []Decision {
	type model struct {
		tenant, lane int
		n            float64
	}
	var models []model
	sum, least, loads := 0.0, math.Inf(1), 0.0
	fits := p.weightsOn(device) <= p.room(device)
	for i := range s.Tenants {
		k := laneOn(&s.Tenants[i], device)
		if k < 0 || s.Tenants[i].Lanes[k].Load.Running == 0 {
			continue
		}
		l := &s.Tenants[i].Lanes[k]
		step := float64(l.Load.StepNs)
		if step == 0 {
			step = p.pace.tenants[i].weights + float64(l.Load.Running)*p.pace.tenants[i].sequence
		}
		m := model{i, k, max(1, tokenLimitNs(l)/max(1, step))}
		models = append(models, m)
		sum, least, loads = sum+1/m.n, min(least, m.n), loads+p.loadNs(i, device)
	}
	if fits {
		loads = 0
	}
	var out []Decision
	for _, m := range models {
		alpha := max(loads/(least*maxTurnNs)+sum, leastAlpha)
		turn := int64(0)
		if loads > 0 {
			turn = int64(min(maxTurnNs, loads/(m.n*(alpha-sum))))
		}
		key := [2]int{m.tenant, m.lane}
		if old := p.turns[key]; math.Abs(float64(turn-old)) <= float64(old)/10 {
			continue
		}
		p.turns[key] = turn
		out = append(out, Decision{
			Action: whatif.SetTurn{Tenant: m.tenant, Lane: m.lane, TurnNs: turn}, Kind: "throttle", Tenant: m.tenant,
			Reason: fmt.Sprintf("%d models decode on device %s, whose loads take %.1f ms a round", len(models), p.c.Devices[device].ID, loads/1e6),
		})
	}
	return out
}

// tokenLimitNs is the least time that a running sequence of a lane has for a token.
func tokenLimitNs(l *whatif.LaneState) float64 {
	limit := int64(math.MaxInt64)
	for i := range l.Sequences {
		if q := &l.Sequences[i]; q.Running && q.TPOTLimitNs > 0 {
			limit = min(limit, q.TPOTLimitNs)
		}
	}
	if limit == math.MaxInt64 {
		return defaultTokenNs
	}
	return float64(limit)
}

// defaultTokenNs is the pace that is kept where none was promised.
const defaultTokenNs = 50e6
