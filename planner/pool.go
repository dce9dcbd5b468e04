package planner

import (
	"cmp"
	"fmt"
	"slices"

	"slicescheduler/whatif"
)

// pool is a bound: every device holds every tenant's weights for free and has the KV memory that static has there. A sequence runs on one device at a time
// at its normal speed, joins the device with the least work and migrates for free.
type pool struct {
	base
	queue  queueing
	homes  int
	active [][]int // by device: sequences of each tenant that ran there when it was last looked at
	step   []int   // by tenant: what reading its weights costs, in tokens of prompts
}

// poolPeriodNs is how often sequences are moved.
const poolPeriodNs = 20_000_000

func poolEntry() entry {
	return entry{
		name:  "pool",
		knobs: []knob{budget(1024, 2048, 4096), {name: "affinity", otherwise: 1, low: 0, high: 1, tries: []float64{0, 1}}},
		make:  func(k Knobs) Policy { return &pool{base: base{"pool", k}} },
	}
}

// PeriodNs implements Policy.
func (p *pool) PeriodNs() int64 { return poolPeriodNs }

// Place implements Policy.
func (p *pool) Place(c *Cluster, past *Past) (*Start, error) {
	if _, err := homeKV(c, past); err != nil {
		return nil, err
	}
	p.queue, p.homes = newQueueing(past), len(c.Devices)
	room := NewRoom(c)
	for i := range c.Tenants {
		room.Free[c.Tenants[i].Home] -= weightBytesOf(c, i)
	}
	start := &Start{Lanes: make([][]whatif.LaneSpec, len(c.Tenants)), Order: whatif.OrderSlack}
	for d := range c.Devices {
		start.Devices = append(start.Devices, whatif.DeviceSpec{ID: c.Devices[d].ID, MemoryBytes: max(room.Free[d], 1)})
		p.active = append(p.active, make([]int, len(c.Tenants)))
	}
	for i := range c.Tenants {
		t := &c.Tenants[i]
		p.step = append(p.step, stepTokens(t))
		for d := range c.Devices {
			pages := pagesIn(t, t.Graph.Whole(), room.Free[d])
			if pages < 1 {
				continue
			}
			l := c.SharedLane(i, []int{d}, nil, pages, Steps{BudgetTokens: p.knobs.Int("budget")})
			l.FreeWeights = true
			start.Lanes[i] = append(start.Lanes[i], l)
		}
	}
	return start, nil
}

// stepTokens is what a step of decodes costs a device before the first of its sequences, counted in tokens of a prompt.
func stepTokens(t *Tenant) int {
	if t.AloneTTFTNs == nil || t.AloneTPOTNs == nil {
		return 0
	}
	const prompt = 1024
	perToken := max(1, t.AloneTTFTNs(prompt)/prompt)
	return int(t.AloneTPOTNs(1) / perToken)
}

// Route implements Policy.
func (p *pool) Route(a *whatif.Arrival) int {
	return leastBy(a, func(l *whatif.LaneLoad) float64 {
		work := p.queue.work(l)
		if l.Running == 0 && l.Waiting == 0 {
			work += int(p.knobs["affinity"] * float64(p.step[a.Tenant]))
		}
		return float64(work)
	})
}

// Plan moves sequences from the device that has the most to the one that has the fewest, one by one, until they are even.
func (p *pool) Plan(s *whatif.State) []Decision {
	running := make([]int, p.homes)
	for _, row := range p.active {
		clear(row)
	}
	for i := range s.Tenants {
		for k := range s.Tenants[i].Lanes {
			l := &s.Tenants[i].Lanes[k]
			running[l.Load.Device] += l.Load.Running
			p.active[l.Load.Device][i] += l.Load.Running
		}
	}
	var out []Decision
	taken := map[[2]int]bool{}
	for range 4 * p.homes {
		from, to := 0, 0
		for d := range running {
			if running[d] > running[from] {
				from = d
			}
			if running[d] < running[to] {
				to = d
			}
		}
		if running[from]-running[to] < 2 {
			break
		}
		m, ok := p.pick(s, from, to, taken)
		if !ok {
			break
		}
		taken[[2]int{m.Tenant, m.Request}] = true
		running[from]--
		running[to]++
		out = append(out, Decision{Action: m, Kind: "migrate", Tenant: m.Tenant, Reason: fmt.Sprintf("device %d runs %d sequences, device %d runs %d", from, running[from]+1, to, running[to]-1)})
	}
	return out
}

// pick is a sequence that runs on one device and may go to another: of a tenant that runs at the other already, if there is one, and the shortest.
func (p *pool) pick(s *whatif.State, from, to int, taken map[[2]int]bool) (whatif.MigrateSequence, bool) {
	type candidate struct {
		m      whatif.MigrateSequence
		here   int
		tokens int
	}
	var best []candidate
	for i := range s.Tenants {
		a, b := laneOn(&s.Tenants[i], from), laneOn(&s.Tenants[i], to)
		if a < 0 || b < 0 {
			continue
		}
		for _, q := range s.Tenants[i].Lanes[a].Sequences {
			if !q.Running || q.FirstNs == 0 || q.Migrating || taken[[2]int{i, q.Request}] {
				continue
			}
			here := 1
			if p.active[to][i] > 0 {
				here = 0
			}
			best = append(best, candidate{whatif.MigrateSequence{Tenant: i, Request: q.Request, From: a, To: b, Free: true}, here, q.Tokens})
		}
	}
	if len(best) == 0 {
		return whatif.MigrateSequence{}, false
	}
	slices.SortStableFunc(best, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.here, b.here), cmp.Compare(a.tokens, b.tokens)) })
	return best[0].m, true
}

// laneOn is a tenant's serving lane that begins on a device, or -1.
func laneOn(t *whatif.TenantState, device int) int {
	return slices.IndexFunc(t.Lanes, func(l whatif.LaneState) bool { return l.Phase == whatif.LaneServing && l.Load.Device == device })
}
