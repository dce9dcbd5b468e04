package planner

import (
	"fmt"
	"math"

	"slicescheduler/batching"
	"slicescheduler/whatif"
)

// spread is AlpaServe's model parallelism for statistical multiplexing: groups of k devices, tenants assigned to groups by demand, and each tenant's layers in
// equal runs over all devices of its group, which pool their KV memory. Steps of prompts and of decodes are separate, so that several are in flight: as many of
// decodes as `micro` says, or as the tenant's share of its group's demand keeps devices busy.
type spread struct {
	base
	micro []int // by tenant
}

func spreadEntry() entry {
	return entry{
		name: "spread",
		knobs: []knob{
			budgetOf(512, 512, 1024),
			{name: "k", otherwise: 8, low: 1, high: 64, tries: []float64{2, 4, 8}},
			{name: "micro", otherwise: 0, low: 0, high: 16},
			{name: "head", otherwise: 1, low: 0, high: 16},
		},
		make: func(k Knobs) Policy { return &spread{base: base{"spread", k}} },
	}
}

// Place implements Policy.
func (p *spread) Place(c *Cluster, past *Past) (*Start, error) {
	groups := deviceGroups(len(c.Devices), p.knobs.Int("k"))
	demand := demands(c, past, 0)
	room := NewRoom(c)
	load, guests := make([]float64, len(groups)), make([]int, len(groups))
	place, groupOf := make([][]int, len(c.Tenants)), make([]int, len(c.Tenants))
	p.micro = make([]int, len(c.Tenants))
	for _, i := range byDemand(demand) {
		g, devices := p.groupFor(c, room, i, groups, load, guests)
		if g < 0 {
			return nil, fmt.Errorf("%w: tenant %s fits into no group of %d devices", ErrNoRoom, c.Tenants[i].ID, p.knobs.Int("k"))
		}
		lane := p.lane(c, i, devices, 1)
		if err := room.Take(i, &lane); err != nil {
			return nil, err
		}
		place[i] = devices
		load[g] += demand[i] / float64(len(groups[g]))
		guests[g]++
		groupOf[i] = g
	}
	for i := range c.Tenants {
		g := groupOf[i]
		p.micro[i] = microBatches(p.knobs.Int("micro"), demand[i], load[g]*float64(len(groups[g])), len(groups[g]))
	}
	start := &Start{Lanes: make([][]whatif.LaneSpec, len(c.Tenants)), Order: whatif.OrderSlack}
	for i, devices := range place {
		l := p.lane(c, i, devices, 1)
		t := &c.Tenants[i]
		pages := batching.MaxKVBlocks
		for _, sl := range l.Ranks[0].Slices {
			pages = min(pages, pagesIn(t, sl.Stages, room.Free[sl.Device]))
		}
		if pages < 1 {
			return nil, fmt.Errorf("%w: the weights leave no memory for the KV of tenant %s", ErrNoRoom, t.ID)
		}
		start.Lanes[i] = []whatif.LaneSpec{p.lane(c, i, devices, pages)}
	}
	return start, nil
}

// groupFor is the group with the least demand a device that holds a tenant's runs, and its devices in the order of the runs: each tenant begins at another
// one, so that the first and the last run, which differ from the others, don't meet. -1: none.
func (p *spread) groupFor(c *Cluster, room *Room, tenant int, groups [][]int, load []float64, guests []int) (int, []int) {
	best := -1
	var bestDevices []int
	for g, devices := range groups {
		if best >= 0 && load[g] >= load[best] || len(devices) > len(c.Tenants[tenant].Graph.Stages) {
			continue
		}
		at := guests[g] % len(devices)
		turned := append(append([]int(nil), devices[at:]...), devices[:at]...)
		if room.Pages(tenant, turned, EqualRuns(c.Tenants[tenant].Graph, len(devices), p.knobs["head"])) >= 1 {
			best, bestDevices = g, turned
		}
	}
	return best, bestDevices
}

// lane spreads a tenant over devices; its steps of prompts fill the pipeline, its decodes are cut into several steps.
func (p *spread) lane(c *Cluster, tenant int, devices []int, pages int) whatif.LaneSpec {
	n := len(devices)
	micro := max(1, p.micro[tenant])
	runs := EqualRuns(c.Tenants[tenant].Graph, n, p.knobs["head"])
	l := c.SharedLane(tenant, devices, runs, pages, Steps{BudgetTokens: p.knobs.Int("budget")})
	if n > 1 {
		l.Batching.Separate, l.Batching.MicroBatches = min(n, batching.MaxInFlight/2), micro
		l.Batching.InFlight = l.Batching.Separate + l.Batching.MicroBatches
		l.Batching.MaxSequences *= n // as many as on copies
	}
	return l
}

// Route implements Policy.
func (p *spread) Route(a *whatif.Arrival) int { return firstLane(a) }

// Plan implements Policy.
func (p *spread) Plan(*whatif.State) []Decision { return nil }

// deviceGroups cuts n devices into groups of about k neighbours, at least one.
func deviceGroups(n, k int) [][]int {
	count := max(1, n/k)
	groups := make([][]int, count)
	for d := range n {
		g := d * count / n
		groups[g] = append(groups[g], d)
	}
	return groups
}

// microBatches is how many steps of decodes a tenant has in flight on k devices: the number given, or in proportion to its demand of the devices' sum.
func microBatches(given int, demand, sum float64, k int) int {
	if given > 0 || sum <= 0 {
		return max(given, 1)
	}
	return min(max(1, int(math.Round(demand/sum*float64(k)))), batching.MaxInFlight/2)
}
