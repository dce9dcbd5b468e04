package planner

import (
	"fmt"
	"math"
	"slices"

	"slicescheduler/batching"
	"slicescheduler/gmg"
	"slicescheduler/whatif"
)

// mux is MuxServe. Devices are cut into units, and tenants are given to units, the one with the greatest demand for compute first, each to the unit that can
// bear it best; of all ways to cut, the one with the most to spare is taken. Within a unit a tenant lies over all of its devices. On each device one step of
// prompts runs at a time, beside steps of decodes that get the compute that is left. KV memory is one pool a unit, of which each tenant has a quota that moves
// every 8 s from those that use little of theirs to those that use nearly all.
//
// In the original a unit's devices share each layer (tensor parallelism). Over host memory that would cost more than it brings, so layers lie in equal runs
// behind each other, and each device takes its next prompt as soon as it has passed one on. Two steps of decodes at a time would have to share a memory
// bandwidth that one uses up nearly alone, so one gets all that prompts leave.
type mux struct {
	base
	c     *Cluster
	units []muxUnit
	least []int // by tenant: pages that its longest request needs
	cuts  map[[2]int][]gmg.Range
}

// muxUnit is a mesh of devices and who is served there.
type muxUnit struct {
	devices []int
	tenants []muxTenant
	compute float64 // share of its time that past demand takes
	kv      float64 // bytes of KV that past requests held at a time
	free    float64 // bytes beside weights
}

type muxTenant struct {
	tenant, quota int
	pageBytes     int64 // on the device where a page takes most
	pages         int   // the most that it could hold
	floor         int   // of its quota: half of the first one, and what its longest request needs
	micro         int   // steps of decodes in flight
}

// quotaPeriodNs is MuxServe's.
const quotaPeriodNs = 8_000_000_000

// Usage of a quota from which a tenant gets more, and below which it gives some away.
const (
	quotaFull  = 0.9
	quotaSpare = 0.6
)

func muxEntry() entry {
	return entry{
		name: "mux",
		knobs: []knob{
			budget(1024, 4096),
			{name: "mesh", otherwise: 0, low: 0, high: 64, tries: []float64{0, 2, 4, 8}},
			{name: "tenths", otherwise: 7, low: 3, high: 7},
			{name: "robin", otherwise: 0, low: 0, high: 1},
		},
		make: func(k Knobs) Policy { return &mux{base: base{"mux", k}} },
	}
}

// PeriodNs implements Policy.
func (p *mux) PeriodNs() int64 { return quotaPeriodNs }

// Place implements Policy.
func (p *mux) Place(c *Cluster, past *Past) (*Start, error) {
	p.c, p.cuts = c, map[[2]int][]gmg.Range{}
	for i := range c.Tenants {
		p.least = append(p.least, (longestTokens(&c.Tenants[i], past.tenant(i))+blockTokens-1)/blockTokens)
	}
	if p.units = p.partition(past); p.units == nil {
		return nil, fmt.Errorf("%w: no way to cut %d devices into units holds all tenants", ErrNoRoom, len(c.Devices))
	}
	start := &Start{Lanes: make([][]whatif.LaneSpec, len(c.Tenants)), Order: whatif.OrderSlack}
	sharing := whatif.MuxServe(p.knobs.Int("tenths"), p.knobs["robin"] > 0)
	for i := range c.Devices {
		start.Devices = append(start.Devices, whatif.DeviceSpec{ID: c.Devices[i].ID, MemoryBytes: c.Devices[i].MemoryBytes, Sharing: sharing})
	}
	for i := range c.Devices {
		start.Devices = append(start.Devices, whatif.DeviceSpec{ID: c.Devices[i].ID + "/decode", PartOf: i + 1})
	}
	for u := range p.units {
		if err := p.lay(start, &p.units[u], past); err != nil {
			return nil, err
		}
	}
	return start, nil
}

// partition tries all ways to cut the devices into units of 1, 2, 4 .. devices, or of `mesh` where that is set, and returns the best.
func (p *mux) partition(past *Past) []muxUnit {
	n := len(p.c.Devices)
	if mesh := p.knobs.Int("mesh"); mesh > 0 {
		return p.fill(deviceGroups(n, min(mesh, n)), past)
	}
	var best []muxUnit
	least := math.Inf(1)
	var cut func(groups [][]int, at, largest int)
	cut = func(groups [][]int, at, largest int) {
		if at == n {
			if units := p.fill(groups, past); units != nil {
				if v := strain(units); v < least {
					best, least = units, v
				}
			}
			return
		}
		for size := largest; size >= 1; size /= 2 {
			if at+size > n {
				continue
			}
			group := make([]int, size)
			for k := range group {
				group[k] = at + k
			}
			cut(append(slices.Clone(groups), group), at+size, size)
		}
	}
	largest := 1
	for 2*largest <= min(n, 8) {
		largest *= 2
	}
	cut(nil, 0, largest)
	return best
}

// strain is how hard pressed the unit is that is pressed hardest, by compute or by KV memory.
func strain(units []muxUnit) float64 {
	most := 0.0
	for i := range units {
		most = max(most, units[i].strain())
	}
	return most
}

func (u *muxUnit) strain() float64 {
	if u.free <= 0 {
		return math.Inf(1)
	}
	return max(u.compute, u.kv/u.free)
}

// busyStay is how much longer requests stay on a busy device than alone, about.
const busyStay = 2

// fill gives tenants to units, or returns nil where one fits nowhere.
func (p *mux) fill(groups [][]int, past *Past) []muxUnit {
	demand := demands(p.c, past, 0)
	units := make([]muxUnit, len(groups))
	room := NewRoom(p.c)
	for u := range units {
		units[u].devices = groups[u]
		for _, d := range groups[u] {
			units[u].free += float64(room.Free[d])
		}
	}
	for _, i := range byDemand(demand) {
		t := &p.c.Tenants[i]
		best, least := -1, math.Inf(1)
		for u := range units {
			k := len(units[u].devices)
			if k > len(t.Graph.Stages) || room.Pages(i, p.turned(&units[u]), p.runs(i, k)) < p.least[i] {
				continue
			}
			after := units[u].with(t, past.tenant(i), demand[i])
			if v := after.strain(); v < least {
				best, least = u, v
			}
		}
		if best < 0 {
			return nil
		}
		u := &units[best]
		lane := p.c.SharedLane(i, p.turned(u), p.runs(i, len(u.devices)), 1, Steps{})
		if room.Take(i, &lane) != nil {
			return nil
		}
		*u = u.with(t, past.tenant(i), demand[i])
		u.tenants = append(u.tenants, muxTenant{tenant: i})
	}
	return units
}

// with is the unit with another tenant's demand.
func (u *muxUnit) with(t *Tenant, past *TenantPast, demand float64) muxUnit {
	after := *u
	after.compute += demand / float64(len(u.devices))
	after.kv += busyStay * kvDemand(t, past)
	after.free -= float64(t.Graph.WeightBytes(t.Graph.Whole()))
	return after
}

// runs are a tenant's stages cut for so many devices.
func (p *mux) runs(tenant, devices int) []gmg.Range {
	key := [2]int{tenant, devices}
	if _, ok := p.cuts[key]; !ok {
		p.cuts[key] = EqualRuns(p.c.Tenants[tenant].Graph, devices, 1)
	}
	return p.cuts[key]
}

// turned are a unit's devices in the order in which its next tenant lies over them: each begins at another one.
func (p *mux) turned(u *muxUnit) []int {
	at := len(u.tenants) % len(u.devices)
	return append(slices.Clone(u.devices[at:]), u.devices[:at]...)
}

// lay makes the lanes of a unit's tenants and gives them their first quotas: what the longest request needs, and of the rest half evenly, half by the KV that
// past requests held.
func (p *mux) lay(start *Start, u *muxUnit, past *Past) error {
	tenants := u.tenants
	u.tenants = nil
	free := NewRoom(p.c)
	lanes := make([]whatif.LaneSpec, len(tenants))
	sum, demand := 0.0, demands(p.c, past, 0)
	for k, m := range tenants {
		t := &p.c.Tenants[m.tenant]
		devices := p.turned(u)
		u.tenants = append(u.tenants, m)
		lanes[k] = p.c.SharedLane(m.tenant, devices, p.runs(m.tenant, len(devices)), 1, Steps{BudgetTokens: p.knobs.Int("budget")})
		if err := free.Take(m.tenant, &lanes[k]); err != nil {
			return err
		}
		sum += kvDemand(t, past.tenant(m.tenant))
	}
	pool := int64(math.MaxInt64)
	for _, d := range u.devices {
		pool = min(pool, free.Free[d])
	}
	left := pool
	for k := range tenants {
		m := &u.tenants[k]
		t := &p.c.Tenants[m.tenant]
		m.pages = batching.MaxKVBlocks
		for _, sl := range lanes[k].Ranks[0].Slices {
			m.pageBytes = max(m.pageBytes, pageBytes(t, sl.Stages))
			m.pages = min(m.pages, pagesIn(t, sl.Stages, free.Free[sl.Device]))
		}
		m.quota = min(p.least[m.tenant], m.pages)
		left -= int64(m.quota) * m.pageBytes
	}
	for k := range tenants {
		m := &u.tenants[k]
		share := 1 / float64(len(tenants))
		if sum > 0 {
			share = (share + kvDemand(&p.c.Tenants[m.tenant], past.tenant(m.tenant))/sum) / 2
		}
		if m.pageBytes > 0 {
			m.quota = min(m.pages, m.quota+int(share*float64(max(left, 0))/float64(m.pageBytes)))
		}
		m.floor = max(p.least[m.tenant], m.quota/2)
		m.micro = microBatches(0, demand[m.tenant], u.compute*float64(len(u.devices)), len(u.devices))
		if m.quota < 1 {
			return fmt.Errorf("%w: the weights leave no memory for the KV of tenant %s", ErrNoRoom, p.c.Tenants[m.tenant].ID)
		}
		start.Lanes[m.tenant] = []whatif.LaneSpec{p.finish(lanes[k], m)}
	}
	return nil
}

// finish sets a lane's pool and what may be in flight: a step of prompts for each device, and one of decodes.
func (p *mux) finish(l whatif.LaneSpec, m *muxTenant) whatif.LaneSpec {
	b := &l.Batching
	b.KVBlocks, l.QuotaBlocks, b.Watermark = m.pages, m.quota, m.pages/100
	b.Separate = min(len(l.Ranks[0].Slices), batching.MaxInFlight/2)
	b.MicroBatches = m.micro
	b.MaxSequences *= len(l.Ranks[0].Slices) // as many as on copies
	b.InFlight, b.Overlap = b.Separate+b.MicroBatches, batching.OverlapPrefill
	return l
}

// Route implements Policy.
func (p *mux) Route(a *whatif.Arrival) int { return firstLane(a) }

// Plan moves quotas within each unit.
func (p *mux) Plan(s *whatif.State) []Decision {
	var out []Decision
	for i := range p.units {
		out = append(out, p.shift(s, &p.units[i])...)
	}
	return out
}

// shift gives more to those that use quotaFull or more of their quota, or want more than it with what waits, and takes it from those that neither hold nor
// want quotaSpare of theirs. Who has a request that its whole quota doesn't hold gets what that needs in any case.
func (p *mux) shift(s *whatif.State, u *muxUnit) []Decision {
	n := len(u.tenants)
	before, want := make([]int, n), make([]int, n)
	var wanted, spare int64
	for k := range u.tenants {
		m := &u.tenants[k]
		l := &s.Tenants[m.tenant].Lanes[0]
		used := int(l.Load.ContextTokens) / blockTokens
		waiting, longest := waitingPages(l)
		before[k], want[k] = m.quota, used+waiting
		m.quota = min(m.pages, max(m.quota, longest))
		switch target := min(m.pages, int(float64(want[k])/quotaSpare)); {
		case float64(used) >= quotaFull*float64(m.quota) || want[k] > m.quota:
			want[k] = max(target, m.quota)
			wanted += int64(want[k]-m.quota) * m.pageBytes
		default:
			want[k] = min(m.quota, max(target, m.floor))
			spare += int64(m.quota-want[k]) * m.pageBytes
		}
	}
	part := 0.0
	if wanted > 0 {
		part = min(1, float64(spare)/float64(wanted))
	}
	out := []Decision(nil)
	for k := range u.tenants {
		m := &u.tenants[k]
		if want[k] > m.quota {
			m.quota += int(part * float64(want[k]-m.quota))
		} else if spare > 0 {
			m.quota -= int(math.Ceil(min(1, float64(wanted)/float64(spare)) * float64(m.quota-want[k])))
		}
		if m.quota == before[k] {
			continue
		}
		out = append(out, Decision{
			Action: whatif.SetQuota{Tenant: m.tenant, Pages: m.quota}, Kind: "throttle", Tenant: m.tenant,
			Reason: fmt.Sprintf("it holds or wants %d pages beside a quota of %d, which becomes %d", want[k], before[k], m.quota),
		})
	}
	return out
}

// waitingPages is how many pages the requests that wait in a lane need together, and the longest.
func waitingPages(l *whatif.LaneState) (sum, longest int) {
	for i := range l.Sequences {
		if q := &l.Sequences[i]; !q.Running {
			n := (q.Tokens + blockTokens) / blockTokens // with the next token
			sum, longest = sum+n, max(longest, n)
		}
	}
	return sum, longest
}
