package planner

import (
	"cmp"
	"fmt"
	"slices"

	"slicescheduler/whatif"
)

// pool is a bound: every device holds every tenant's weights for free and has the KV memory that static has there. A sequence runs on one device at a time
// at its normal speed, joins the device where it has the least before it and migrates for free. "Least" counts what a device has to read for each tenant
// that runs there: without that the tenants would be strewn over all devices and spoil every one's pace.
type pool struct {
	base
	pace pacer
}

// poolPeriodNs is how often sequences are moved, poolMoves how many times at most.
const (
	poolPeriodNs = 20_000_000
	poolMoves    = 16
)

func poolEntry() entry {
	return entry{
		name: "pool",
		knobs: []knob{
			budgetOf(4096, 1024, 4096, 8192),
			separate(1, 0, 1),
			{name: "pace", otherwise: joinPace, low: 0, high: 1000},
			{name: "migrate", otherwise: 1, low: 0, high: 1},
		},
		make: func(k Knobs) Policy { return &pool{base: base{"pool", k}} },
	}
}

// PeriodNs implements Policy.
func (p *pool) PeriodNs() int64 { return poolPeriodNs }

// Place implements Policy.
func (p *pool) Place(c *Cluster, past *Past) (*Start, error) {
	if _, err := homeKV(c, past); err != nil {
		return nil, err
	}
	p.pace = newPacer(c, past, p.knobs["pace"])
	room := NewRoom(c)
	for i := range c.Tenants {
		room.Free[c.Tenants[i].Home] -= weightBytesOf(c, i)
	}
	start := &Start{Lanes: make([][]whatif.LaneSpec, len(c.Tenants)), Order: whatif.OrderSlack}
	for d := range c.Devices {
		start.Devices = append(start.Devices, whatif.DeviceSpec{ID: c.Devices[d].ID, MemoryBytes: max(room.Free[d], 1)})
	}
	for i := range c.Tenants {
		t := &c.Tenants[i]
		for d := range c.Devices {
			pages := pagesIn(t, t.Graph.Whole(), room.Free[d])
			if pages < 1 {
				continue
			}
			l := c.SharedLane(i, []int{d}, nil, pages, stepsBy(p.knobs))
			l.FreeWeights = true
			start.Lanes[i] = append(start.Lanes[i], l)
		}
	}
	return start, nil
}

// Route implements Policy.
func (p *pool) Route(a *whatif.Arrival) int { return p.pace.shortest(a) }

// Plan moves sequences from the device with the slowest pace to others, as long as that makes the tokens of all sequences together faster.
func (p *pool) Plan(s *whatif.State) []Decision {
	p.pace.note(s)
	if p.knobs["migrate"] == 0 {
		return nil
	}
	taken := map[[2]int]bool{}
	var out []Decision
	for range poolMoves {
		from := 0
		for d := range p.pace.devices {
			if a, b := &p.pace.devices[d], &p.pace.devices[from]; a.weights+a.sum > b.weights+b.sum {
				from = d
			}
		}
		m, ok := p.bestMove(s, from, taken)
		if !ok {
			break
		}
		moved := p.take(s, m, taken)
		if len(moved) == 0 {
			break
		}
		out = append(out, moved...)
		p.pace.add(m.tenant, m.from, -len(moved))
		p.pace.add(m.tenant, m.to, len(moved))
	}
	return out
}

// poolMove is a number of a tenant's sequences that go from one device to another.
type poolMove struct{ tenant, from, to, n int }

// bestMove is what helps most of moving one, half or all of a tenant's sequences from a device to another.
func (p *pool) bestMove(s *whatif.State, from int, taken map[[2]int]bool) (poolMove, bool) {
	var best poolMove
	least := -1e3 // a microsecond of all tokens together
	for i, n := range p.pace.devices[from].running {
		if n == 0 {
			continue
		}
		movable := len(p.movable(s, i, from, taken))
		for to := range p.pace.devices {
			if to == from || laneOn(&s.Tenants[i], to) < 0 {
				continue
			}
			before := p.pace.devices[from].total() + p.pace.devices[to].total()
			for k, m := range [3]int{1, n / 2, n} {
				if k > 0 && m <= 1 || m > movable {
					continue
				}
				p.pace.add(i, from, -m)
				p.pace.add(i, to, m)
				if gain := p.pace.devices[from].total() + p.pace.devices[to].total() - before; gain < least || gain == least && m < best.n {
					best, least = poolMove{i, from, to, m}, gain
				}
				p.pace.add(i, from, m)
				p.pace.add(i, to, -m)
			}
		}
	}
	return best, best.n > 0
}

// movable are a tenant's sequences on a device that may go: they have their first token and aren't on their way.
func (p *pool) movable(s *whatif.State, tenant, device int, taken map[[2]int]bool) []*whatif.SequenceState {
	t := &s.Tenants[tenant]
	a := laneOn(t, device)
	if a < 0 {
		return nil
	}
	var free []*whatif.SequenceState
	for i := range t.Lanes[a].Sequences {
		q := &t.Lanes[a].Sequences[i]
		if q.Running && q.FirstNs > 0 && !q.Migrating && !taken[[2]int{tenant, q.Request}] {
			free = append(free, q)
		}
	}
	return free
}

// take picks the sequences of a move, the shortest first.
func (p *pool) take(s *whatif.State, m poolMove, taken map[[2]int]bool) []Decision {
	t := &s.Tenants[m.tenant]
	a, b := laneOn(t, m.from), laneOn(t, m.to)
	free := p.movable(s, m.tenant, m.from, taken)
	slices.SortStableFunc(free, func(x, y *whatif.SequenceState) int { return cmp.Compare(x.Tokens, y.Tokens) })
	var out []Decision
	for _, q := range free[:min(m.n, len(free))] {
		taken[[2]int{m.tenant, q.Request}] = true
		out = append(out, Decision{
			Action: whatif.MigrateSequence{Tenant: m.tenant, Request: q.Request, From: a, To: b, Free: true}, Kind: "migrate", Tenant: m.tenant,
			Reason: fmt.Sprintf("device %d runs %d sequences, device %d runs %d", m.from, p.pace.devices[m.from].count, m.to, p.pace.devices[m.to].count),
		})
	}
	return out
}

// laneOn is a tenant's serving lane that begins on a device, or -1.
func laneOn(t *whatif.TenantState, device int) int {
	return slices.IndexFunc(t.Lanes, func(l whatif.LaneState) bool { return l.Phase == whatif.LaneServing && l.Load.Device == device })
}
