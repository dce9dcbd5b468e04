package planner

import (
	"fmt"
	"slices"

	"slicescheduler/gmg"
	"slicescheduler/whatif"
)

// oracle is a bound looser than pool: one device as fast as all of the cluster's together, which holds one copy of each model, and KV in all the memory that
// is left.
type oracle struct{ base }

func oracleEntry() entry {
	return entry{name: "oracle", knobs: []knob{budget(2048, 8192, 32768), separate(0, 0, 1)}, make: func(k Knobs) Policy { return &oracle{base{"oracle", k}} }}
}

// Reshape implements Reshaper.
func (p *oracle) Reshape(c *Cluster) *Cluster {
	n := len(c.Devices)
	if n == 0 {
		return c
	}
	all := Device{ID: fmt.Sprintf("%d devices in one", n), Kind: c.Devices[0].Kind}
	for i := range c.Devices {
		all.MemoryBytes += c.Devices[i].MemoryBytes
		all.LoadBytesPerS += c.Devices[i].LoadBytesPerS
	}
	homes := make([]int, len(c.Tenants))
	out := &Cluster{Devices: []Device{all}, Tenants: slices.Clone(c.Tenants), Engine: func(int) *whatif.EngineKind { return c.Engine(0).Faster(n) }}
	for i := range out.Tenants {
		t := &out.Tenants[i]
		homes[i], t.Home = t.Home, 0
		t.MaxSequences *= n
	}
	if c.Costs != nil {
		out.Costs = &fasterCatalog{costs: c.Costs, homes: homes, times: n, programs: map[programKey]*whatif.Program{}}
	}
	return out
}

// fasterCatalog has the costs of each tenant's home device, divided.
type fasterCatalog struct {
	costs    whatif.Catalog
	homes    []int
	times    int
	programs map[programKey]*whatif.Program
}

type programKey struct {
	tenant int
	stages gmg.Range
}

// Program implements whatif.Catalog.
func (f *fasterCatalog) Program(tenant, _ int, stages gmg.Range) (*whatif.Program, error) {
	key := programKey{tenant, stages}
	if p, ok := f.programs[key]; ok {
		return p, nil
	}
	p, err := f.costs.Program(tenant, f.homes[tenant], stages)
	if err != nil {
		return nil, err
	}
	f.programs[key] = p.Faster(f.times)
	return f.programs[key], nil
}

// Place implements Policy.
func (p *oracle) Place(c *Cluster, _ *Past) (*Start, error) {
	if len(c.Devices) != 1 {
		return nil, fmt.Errorf("%w: oracle has one device, this cluster %d: call Reshape first", ErrDemand, len(c.Devices))
	}
	room := NewRoom(c)
	for i := range c.Tenants {
		room.Free[0] -= weightBytesOf(c, i)
	}
	start := &Start{Order: whatif.OrderSlack}
	for i := range c.Tenants {
		t := &c.Tenants[i]
		pages := pagesIn(t, t.Graph.Whole(), room.Free[0])
		if pages < 1 {
			return nil, fmt.Errorf("%w: the weights of all tenants leave %d bytes for KV", ErrNoRoom, room.Free[0])
		}
		start.Lanes = append(start.Lanes, []whatif.LaneSpec{c.SharedLane(i, []int{0}, nil, pages, stepsBy(p.knobs))})
	}
	return start, nil
}

// Route implements Policy.
func (p *oracle) Route(a *whatif.Arrival) int { return firstLane(a) }

// Plan implements Policy.
func (p *oracle) Plan(*whatif.State) []Decision { return nil }
