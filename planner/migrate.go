package planner

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"slicescheduler/whatif"
)

// migrate is Llumnix: instances are whole copies, and the freeness of one is what it has free, less what the request at the head of its queue wants, over
// how many it runs. Requests go to the freest instance of their model; every 50 ms the shortest running sequence of the least free moves to the freest, live;
// every 10 s a model whose instances are too full gets another one, if need be in the place of one that is hardly used.
//
// In the original an instance has a device to itself. Here several may share one, with its KV memory, and count each other's work: more than it claims.
type migrate struct {
	base
	c        *Cluster
	demand   []float64
	scaledNs int64
}

// Figures of Llumnix.
const (
	migratePeriodNs = 50_000_000
	migrateStopNs   = 25_000_000
	scalePeriodNs   = 10_000_000_000
	instanceStartNs = 20_000_000_000
	// minFreenessGap keeps sequences from going to and fro.
	minFreenessGap = 5
)

func migrateEntry() entry {
	return entry{
		name: "migrate",
		knobs: []knob{
			budget(1024, 4096),
			{name: "keep", otherwise: 0.3, low: 0, high: 0.95, tries: []float64{0.15, 0.4}},
			{name: "out", otherwise: 20, low: 0, high: 1e9, tries: []float64{20, 200}},
			{name: "low", otherwise: 10, low: 0, high: 1e9},
		},
		make: func(k Knobs) Policy { return &migrate{base: base{"migrate", k}} },
	}
}

// PeriodNs implements Policy.
func (p *migrate) PeriodNs() int64 { return migratePeriodNs }

// Place implements Policy.
func (p *migrate) Place(c *Cluster, past *Past) (*Start, error) {
	p.c, p.demand = c, demands(c, past, 0.5)
	copies, room, err := placeCopies(c, p.demand, p.knobs["keep"])
	if err != nil {
		return nil, err
	}
	return &Start{Lanes: copyLanes(c, copies, room, p.steps()), Order: whatif.OrderSlack}, nil
}

func (p *migrate) steps() Steps { return stepsBy(p.knobs) }

// Route implements Policy: the freest instance. What waits anywhere on the device is wanted of it too.
func (p *migrate) Route(a *whatif.Arrival) int {
	return leastBy(a, func(l *whatif.LaneLoad) float64 { return -freeness(l, l.DevicePending+a.PromptTokens) })
}

// freeness is how many pages an instance has for each sequence that its device runs, when `wanted` tokens have found room.
func freeness(l *whatif.LaneLoad, wanted int) float64 {
	pages := (wanted + blockTokens - 1) / blockTokens
	return float64(l.FreeBlocks-pages) / float64(l.DeviceRunning+1)
}

// stateFreeness is an instance's with the request at the head of its queue; one that is to go is as full as can be.
func stateFreeness(l *whatif.LaneState) float64 {
	if l.Phase == whatif.LaneDraining {
		return math.Inf(-1)
	}
	head := 0
	for i := range l.Sequences {
		if q := &l.Sequences[i]; !q.Running {
			head = q.Tokens
			break
		}
	}
	return freeness(&l.Load, head)
}

// Plan implements Policy.
func (p *migrate) Plan(s *whatif.State) []Decision {
	var out []Decision
	for i := range s.Tenants {
		if d, ok := p.move(s, i); ok {
			out = append(out, d)
		}
	}
	if s.NowNs-p.scaledNs >= scalePeriodNs {
		p.scaledNs = s.NowNs
		out = append(out, p.scale(s)...)
	}
	return out
}

// move is the migration that a tenant's instances want most.
func (p *migrate) move(s *whatif.State, tenant int) (Decision, bool) {
	lanes := s.Tenants[tenant].Lanes
	from, to := -1, -1
	var least, most float64
	for k := range lanes {
		l := &lanes[k]
		f := stateFreeness(l)
		if (l.Phase == whatif.LaneServing || l.Phase == whatif.LaneDraining) && movable(l) >= 0 && (from < 0 || f < least) {
			from, least = k, f
		}
		if l.Phase == whatif.LaneServing && (to < 0 || f > most) {
			to, most = k, f
		}
	}
	if from < 0 || to < 0 || from == to || least >= p.knobs["out"] || most < 2*least || most-least < minFreenessGap {
		return Decision{}, false
	}
	q := &lanes[from].Sequences[movable(&lanes[from])]
	if lanes[to].Load.FreeBlocks*blockTokens < 2*q.Tokens {
		return Decision{}, false
	}
	return Decision{
		Action: whatif.MigrateSequence{Tenant: tenant, Request: q.Request, From: from, To: to, StopNs: migrateStopNs}, Kind: "migrate", Tenant: tenant,
		Reason: fmt.Sprintf("instance %d has a freeness of %.1f, instance %d of %.1f", from, least, to, most),
	}, true
}

// movable is the shortest running sequence that has its first token and isn't moving, or -1.
func movable(l *whatif.LaneState) int {
	best := -1
	for i := range l.Sequences {
		q := &l.Sequences[i]
		if q.Running && !q.Migrating && q.FirstNs > 0 && (best < 0 || q.Tokens < l.Sequences[best].Tokens) {
			best = i
		}
	}
	return best
}

// scale adds an instance for each model whose instances are too full on the average, the fullest first. Where there is no room, an instance goes that another
// model can spare, and the room is used next time.
func (p *migrate) scale(s *whatif.State) []Decision {
	mean := make([]float64, len(s.Tenants))
	for i := range s.Tenants {
		mean[i] = meanFreeness(&s.Tenants[i])
	}
	order := make([]int, len(mean))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(mean[a], mean[b]) })
	room := RoomNow(p.c, s)
	var out []Decision
	for _, i := range order {
		if mean[i] >= p.knobs["low"] || loading(&s.Tenants[i]) {
			continue
		}
		if d := p.deviceForInstance(s, room, i); d >= 0 {
			t := &p.c.Tenants[i]
			pages := pagesIn(t, t.Graph.Whole(), p.c.Devices[d].MemoryBytes-weightBytesOf(p.c, i))
			lane := p.c.SharedLane(i, []int{d}, nil, pages, p.steps())
			room.Free[d] -= weightBytesOf(p.c, i)
			out = append(out, Decision{
				Action: whatif.AddLane{Tenant: i, Lane: lane, LoadNs: instanceStartNs}, Kind: "replicate", Tenant: i,
				Reason: fmt.Sprintf("its instances have a mean freeness of %.1f, device %s has room", mean[i], p.c.Devices[d].ID),
			})
			continue
		}
		if d, ok := p.spare(s, mean, i); ok {
			return append(out, d)
		}
	}
	return out
}

func meanFreeness(t *whatif.TenantState) float64 {
	sum, n := 0.0, 0
	for k := range t.Lanes {
		if l := &t.Lanes[k]; l.Phase == whatif.LaneServing {
			sum, n = sum+stateFreeness(l), n+1
		}
	}
	if n == 0 {
		return math.Inf(1)
	}
	return sum / float64(n)
}

// deviceForInstance is the device with the most free memory that has none of a tenant's instances and keeps its share for KV, or -1.
func (p *migrate) deviceForInstance(s *whatif.State, room *Room, tenant int) int {
	best := -1
	for d := range p.c.Devices {
		has := slices.ContainsFunc(s.Tenants[tenant].Lanes, func(l whatif.LaneState) bool { return l.Phase != whatif.LaneGone && l.Load.Device == d })
		pool := room.Free[d] + s.Devices[d].KVBytes - weightBytesOf(p.c, tenant)
		if has || room.Free[d] < weightBytesOf(p.c, tenant) || float64(pool) < p.knobs["keep"]*float64(p.c.Devices[d].MemoryBytes) {
			continue
		}
		if best < 0 || room.Free[d] > room.Free[best] {
			best = d
		}
	}
	return best
}

// spare takes away the least used instance of the freest model that has several, if that model is much freer than the one that wants room.
func (p *migrate) spare(s *whatif.State, mean []float64, wants int) (Decision, bool) {
	best := -1
	for i := range mean {
		n := 0
		for k := range s.Tenants[i].Lanes {
			if s.Tenants[i].Lanes[k].Phase == whatif.LaneServing {
				n++
			}
		}
		if i != wants && n > 1 && mean[i] > 2*p.knobs["low"] && (best < 0 || mean[i] > mean[best]) {
			best = i
		}
	}
	if best < 0 {
		return Decision{}, false
	}
	lanes := s.Tenants[best].Lanes
	least := -1
	for k := range lanes {
		has := slices.ContainsFunc(s.Tenants[wants].Lanes, func(l whatif.LaneState) bool {
			return l.Phase != whatif.LaneGone && l.Load.Device == lanes[k].Load.Device
		})
		if lanes[k].Phase == whatif.LaneServing && !has && (least < 0 || lanes[k].Load.Running < lanes[least].Load.Running) {
			least = k
		}
	}
	if least < 0 {
		return Decision{}, false
	}
	return Decision{
		Action: whatif.RemoveLane{Tenant: best, Lane: least}, Kind: "evict", Tenant: best,
		Reason: fmt.Sprintf("its instances have a mean freeness of %.1f, and tenant %s with %.1f wants room", mean[best], p.c.Tenants[wants].ID, mean[wants]),
	}, true
}
