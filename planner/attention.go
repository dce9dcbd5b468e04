package planner

import (
	"cmp"
	"fmt"
	"slices"

	"slicescheduler/whatif"
)

// attention is Weaver: every tenant has one lane on its home device, and devices that are hot lend the attention of some of their decodes, those with the
// longest contexts, to cold devices, which hold these sequences' KV for it. Nothing else moves. Lanes take KV from what their device has free at each
// moment, so that cold devices have memory to lend.
type attention struct {
	base
	c      *Cluster
	busyNs []int64 // of each device with home work, when it was last looked at
	seenNs int64
	load   []float64 // of each device: the share of its time that home work takes, smoothed
	loans  []loan
	costs  []attentionCost // by tenant
}

// attentionCost is what borrowing depends on.
type attentionCost struct {
	tokenNs  float64 // attention over one token of context, all layers, in a step of decodes
	layers   float64
	rowBytes float64 // of one row's queries, keys and values there and its result back, in one layer
	output   float64 // tokens of an answer, mean
	stepNs   float64 // a step with as much of a mean prompt as the budget allows
}

// loan is a helper's part in a tenant's lane.
type loan struct {
	tenant, helper, percent int
	bytes                   int64
	sinceNs                 int64
}

// attentionPeriodNs is how often loans are looked at.
const attentionPeriodNs = 1_000_000_000

// A loan begins where it shortens steps by at least minGain, and lasts minLoanNs: KV that moves there and back again all the time costs more than it brings.
const (
	minGain    = 0.15
	minLoanNs  = 10_000_000_000
	loadMemory = 0.8 // how much of a device's load is what it was a second ago
)

func attentionEntry() entry {
	return entry{
		name: "attention",
		knobs: []knob{
			budget(512, 2048),
			{name: "percent", otherwise: 50, low: 1, high: 100, tries: []float64{33, 66}},
			{name: "helpers", otherwise: 2, low: 1, high: 16, tries: []float64{1, 2}},
			{name: "hot", otherwise: 0.5, low: 0, high: 1},
			{name: "lend", otherwise: 0.5, low: 0, high: 1},
		},
		make: func(k Knobs) Policy { return &attention{base: base{"attention", k}} },
	}
}

// PeriodNs implements Policy.
func (p *attention) PeriodNs() int64 { return attentionPeriodNs }

// Place implements Policy.
func (p *attention) Place(c *Cluster, past *Past) (*Start, error) {
	p.c, p.busyNs, p.load = c, make([]int64, len(c.Devices)), make([]float64, len(c.Devices))
	for i := range c.Tenants {
		p.costs = append(p.costs, p.costOf(&c.Tenants[i], past.tenant(i)))
	}
	if _, err := homeKV(c, past); err != nil {
		return nil, err
	}
	room := NewRoom(c)
	homes := make([][]int, len(c.Tenants))
	for i := range c.Tenants {
		homes[i] = []int{c.Tenants[i].Home}
		room.Free[c.Tenants[i].Home] -= weightBytesOf(c, i)
	}
	return &Start{Lanes: copyLanes(c, homes, room, stepsBy(p.knobs)), Order: whatif.OrderSlack}, nil
}

// Route implements Policy.
func (p *attention) Route(a *whatif.Arrival) int { return firstLane(a) }

// Plan ends loans to devices that cooled down or by devices that heated up, and gives each hot device as many cold helpers as the knob says.
func (p *attention) Plan(s *whatif.State) []Decision {
	busy := p.busy(s)
	cold := func(helper, home int) bool { return busy[helper] < busy[home]/2 && busy[helper] < p.knobs["hot"] }
	var out []Decision
	p.loans = slices.DeleteFunc(p.loans, func(l loan) bool {
		home := p.c.Tenants[l.tenant].Home
		// The device keeps lending until it is clearly too busy, so that a loan isn't given and taken back every second.
		if busy[home] > p.knobs["hot"]*0.7 && busy[l.helper] < busy[home]*0.75 && p.gainNs(s, l.tenant, l.helper, l.percent, busy[l.helper]) > 0 || s.NowNs < l.sinceNs+minLoanNs {
			return false
		}
		out = append(out, p.decide(l, 0, 0, fmt.Sprintf("device %s is busy for %.0f %% of the time, its helper %s for %.0f %%",
			p.c.Devices[home].ID, busy[home]*100, p.c.Devices[l.helper].ID, busy[l.helper]*100)))
		return true
	})
	free := RoomNow(p.c, s).Free
	for _, i := range p.hottest(s, busy) {
		home := p.c.Tenants[i].Home
		helpers := p.helpersFor(i, busy, cold)
		for _, h := range helpers {
			percent := p.knobs.Int("percent") / len(helpers)
			if p.gainNs(s, i, h, percent, busy[h]) < minGain*float64(s.Tenants[i].Lanes[0].Load.StepNs) {
				continue
			}
			l := loan{tenant: i, helper: h, percent: percent, sinceNs: s.NowNs}
			at := slices.IndexFunc(p.loans, func(o loan) bool { return o.tenant == i && o.helper == h })
			if at >= 0 {
				l = p.loans[at]
			}
			bytes := p.kvBytes(s, i, percent, l.bytes, free[h])
			if bytes == 0 || at >= 0 && l.percent == percent && bytes <= l.bytes {
				continue
			}
			free[h] -= bytes - l.bytes
			l.percent, l.bytes = percent, bytes
			if at >= 0 {
				p.loans[at] = l
			} else {
				p.loans = append(p.loans, l)
			}
			out = append(out, p.decide(l, percent, bytes, fmt.Sprintf("device %s is busy for %.0f %% of the time, %s for %.0f %%",
				p.c.Devices[home].ID, busy[home]*100, p.c.Devices[h].ID, busy[h]*100)))
		}
	}
	return out
}

func (p *attention) decide(l loan, percent int, bytes int64, why string) Decision {
	return Decision{
		Action: whatif.BorrowAttention{Tenant: l.tenant, Helper: l.helper, Percent: percent, KVBytes: bytes}, Kind: "borrow-attention", Tenant: l.tenant, Reason: why,
	}
}

// busy is the share of its time that each device spends on home work, lately.
func (p *attention) busy(s *whatif.State) []float64 {
	for d := range p.load {
		ns := s.Devices[d].BusyNs - s.Devices[d].BorrowedNs
		if s.NowNs > p.seenNs {
			p.load[d] = loadMemory*p.load[d] + (1-loadMemory)*float64(ns-p.busyNs[d])/float64(s.NowNs-p.seenNs)
		}
		p.busyNs[d] = ns
	}
	p.seenNs = s.NowNs
	return p.load
}

// hottest lists the tenants on hot devices with sequences that run, the hottest first, and of those that share a device the one with most context.
func (p *attention) hottest(s *whatif.State, busy []float64) []int {
	var out []int
	context := func(i int) int64 { return s.Tenants[i].Lanes[0].Load.ContextTokens }
	for i := range p.c.Tenants {
		if len(s.Tenants[i].Lanes) > 0 && busy[p.c.Tenants[i].Home] >= p.knobs["hot"] && context(i) > 0 {
			out = append(out, i)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int {
		return cmp.Or(cmp.Compare(busy[p.c.Tenants[b].Home], busy[p.c.Tenants[a].Home]), cmp.Compare(context(b), context(a)))
	})
	return out
}

// helpersFor are the helpers that a tenant has, and the coldest devices in the places that are left; a device helps one tenant. Those of the same host come
// first.
func (p *attention) helpersFor(tenant int, busy []float64, cold func(helper, home int) bool) []int {
	home := p.c.Tenants[tenant].Home
	var out, more []int
	for d := range p.c.Devices {
		at := slices.IndexFunc(p.loans, func(l loan) bool { return l.helper == d })
		switch {
		case at >= 0 && p.loans[at].tenant == tenant:
			out = append(out, d)
		case at < 0 && d != home && cold(d, home):
			more = append(more, d)
		}
	}
	far := func(d int) int {
		if p.c.Devices[d].Host == p.c.Devices[home].Host {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(more, func(a, b int) int { return cmp.Or(cmp.Compare(far(a), far(b)), cmp.Compare(busy[a], busy[b])) })
	for len(out) < p.knobs.Int("helpers") && len(more) > 0 {
		out, more = append(out, more[0]), more[1:]
	}
	return out
}

// kvBytes is what a helper should hold for a share of a tenant's sequences: with half of it to grow, and no more than the part of its memory that it lends.
// It never shrinks, for what is there stays there.
func (p *attention) kvBytes(s *whatif.State, tenant, percent int, has, free int64) int64 {
	g := p.c.Tenants[tenant].Graph
	want := s.Tenants[tenant].Lanes[0].Load.ContextTokens * int64(percent) / 100 * 3 / 2 * g.KVBytesPerToken(g.Whole())
	return max(has, min(want, int64(p.knobs["lend"]*float64(has+free))))
}

func (p *attention) costOf(t *Tenant, past *TenantPast) attentionCost {
	const probe = 4096
	k := attentionCost{layers: float64(t.Graph.Layers), rowBytes: activationRow * float64(t.Graph.Hidden), output: max(1, past.OutputTokens)}
	k.stepNs = paceOf(t, past).prompt * min(p.knobs["budget"], past.PromptTokens)
	if t.AloneTPOTNs != nil {
		k.tokenNs = float64(t.AloneTPOTNs(probe)-t.AloneTPOTNs(1)) / probe
	}
	return k
}

// activationRow is what a row of queries, keys, values and results takes for each column of the residual stream: two bytes each, keys and values being a
// fraction of the queries.
const activationRow = 6

// gainNs is about what a step of a tenant's decodes is shortened by when a helper takes a share of its attention: the lane's own part and the helper's run at
// the same time, layer by layer, the helper's with its way there and back. What home work the helper has comes first, and the step waits for it, half of a step
// on the average; and each answer's KV moves there once.
func (p *attention) gainNs(s *whatif.State, tenant, helper, percent int, busy float64) float64 {
	k := &p.costs[tenant]
	l := &s.Tenants[tenant].Lanes[0].Load
	share := float64(percent) / 100
	whole := float64(l.ContextTokens) * k.tokenNs
	way, move := 0.0, 0.0
	for i := range p.c.Links {
		if e := &p.c.Links[i]; e.From == p.c.Tenants[tenant].Home && e.To == helper {
			way = 2*float64(e.LatencyNs) + share*float64(l.Running)*k.rowBytes/e.BandwidthBytesPerS*1e9
			g := p.c.Tenants[tenant].Graph
			move = share * float64(l.ContextTokens) * float64(g.KVBytesPerToken(g.Whole())) / e.BandwidthBytesPerS * 1e9 / k.output
			break
		}
	}
	waits := 0.0
	for i := range s.Tenants {
		for n := range s.Tenants[i].Lanes {
			if o := &s.Tenants[i].Lanes[n]; o.Load.Device == helper {
				waits = max(waits, float64(o.Load.StepNs), p.costs[i].stepNs)
			}
		}
	}
	return whole - max((1-share)*whole, share*whole+k.layers*way) - move - busy*waits/2
}
