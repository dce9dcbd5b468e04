package planner

import "slicescheduler/whatif"

// replicas is what a platform team does by hand: whole extra copies of the tenants with the greatest past demand per copy, wherever memory allows. A
// request joins the copy where it has the least before it; the tenants of a device share its KV memory and step by least slack.
type replicas struct {
	base
	pace pacer
}

func replicasEntry() entry {
	return entry{
		name: "replicas",
		knobs: []knob{
			budget(1024, 4096),
			{name: "keep", otherwise: 0.3, low: 0, high: 0.95, tries: []float64{0.15, 0.4}},
			{name: "burst", otherwise: 0.5, low: 0, high: 1},
			{name: "pace", otherwise: joinPace, low: 0, high: 1000, tries: []float64{5, joinPace}},
		},
		make: func(k Knobs) Policy { return &replicas{base: base{"replicas", k}} },
	}
}

// Place implements Policy.
func (p *replicas) Place(c *Cluster, past *Past) (*Start, error) {
	p.pace = newPacer(c, past, p.knobs["pace"])
	copies, room, err := placeCopies(c, demands(c, past, p.knobs["burst"]), p.knobs["keep"])
	if err != nil {
		return nil, err
	}
	return &Start{Lanes: copyLanes(c, copies, room, stepsBy(p.knobs)), Order: whatif.OrderSlack}, nil
}

// Route implements Policy.
func (p *replicas) Route(a *whatif.Arrival) int { return p.pace.shortest(a) }

// lookPeriodNs is how often a policy that only routes looks at what runs where.
const lookPeriodNs = 100_000_000

// PeriodNs implements Policy.
func (p *replicas) PeriodNs() int64 { return lookPeriodNs }

// Plan implements Policy. Nothing is done after the start.
func (p *replicas) Plan(s *whatif.State) []Decision {
	p.pace.note(s)
	return nil
}

// placeCopies lays one copy of each tenant on its home device, then gives the tenant with the greatest demand per copy another one, on the device with the
// least demand of those that keep the share `keep` of their memory for KV, until no copy fits. It returns the devices of each tenant's copies and what is
// left for KV.
func placeCopies(c *Cluster, demand []float64, keep float64) ([][]int, *Room, error) {
	if _, err := homeKV(c, nil); err != nil {
		return nil, nil, err
	}
	room := NewRoom(c)
	copies, open := make([][]int, len(c.Tenants)), make([]bool, len(c.Tenants))
	for i := range c.Tenants {
		copies[i], open[i] = []int{c.Tenants[i].Home}, true
		room.Free[c.Tenants[i].Home] -= weightBytesOf(c, i)
	}
	for {
		best := -1
		for i := range copies {
			if open[i] && (best < 0 || demand[i]*float64(len(copies[best])) > demand[best]*float64(len(copies[i]))) {
				best = i
			}
		}
		if best < 0 {
			return copies, room, nil
		}
		d := deviceForCopy(c, room, copies, demand, best, keep)
		if d < 0 {
			open[best] = false
			continue
		}
		copies[best] = append(copies[best], d)
		room.Free[d] -= weightBytesOf(c, best)
	}
}

func weightBytesOf(c *Cluster, tenant int) int64 {
	g := c.Tenants[tenant].Graph
	return g.WeightBytes(g.Whole())
}

// deviceForCopy is the device on which a tenant gets another copy, or -1.
func deviceForCopy(c *Cluster, room *Room, copies [][]int, demand []float64, tenant int, keep float64) int {
	load, has := make([]float64, len(c.Devices)), make([]bool, len(c.Devices))
	for i, on := range copies {
		for _, d := range on {
			load[d] += demand[i] / float64(len(on))
			has[d] = has[d] || i == tenant
		}
	}
	best := -1
	for d := range c.Devices {
		left := room.Free[d] - weightBytesOf(c, tenant)
		if has[d] || left < int64(keep*float64(c.Devices[d].MemoryBytes)) || left < pageBytes(&c.Tenants[tenant], c.Tenants[tenant].Graph.Whole()) {
			continue
		}
		if best < 0 || load[d] < load[best] || load[d] == load[best] && room.Free[d] > room.Free[best] {
			best = d
		}
	}
	return best
}

// copyLanes makes whole lanes on the devices of each tenant's copies, which share what is left of each device's memory for KV.
func copyLanes(c *Cluster, copies [][]int, room *Room, s Steps) [][]whatif.LaneSpec {
	lanes := make([][]whatif.LaneSpec, len(copies))
	for i, on := range copies {
		t := &c.Tenants[i]
		for _, d := range on {
			lanes[i] = append(lanes[i], c.SharedLane(i, []int{d}, nil, pagesIn(t, t.Graph.Whole(), room.Free[d]), s))
		}
	}
	return lanes
}
