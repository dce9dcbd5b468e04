package planner

import (
	"fmt"

	"slicescheduler/whatif"
)

// static is one container for each tenant on its home device, with vLLM's continuous batching. Containers that share a home split the memory that their
// weights leave by past demand. Nothing moves and nothing is lent.
type static struct{ base }

func staticEntry() entry {
	return entry{name: "static", knobs: []knob{budget(512, 1024, 2048, 4096, 8192)}, make: func(k Knobs) Policy { return &static{base{"static", k}} }}
}

// Place implements Policy.
func (p *static) Place(c *Cluster, past *Past) (*Start, error) {
	lanes, err := homeLanes(c, past, stepsBy(p.knobs))
	if err != nil {
		return nil, err
	}
	return &Start{Lanes: lanes, Order: whatif.OrderSlack}, nil
}

// Route implements Policy.
func (p *static) Route(a *whatif.Arrival) int { return firstLane(a) }

// Plan implements Policy.
func (p *static) Plan(*whatif.State) []Decision { return nil }

// firstLane is the only choice of a tenant with one lane.
func firstLane(a *whatif.Arrival) int {
	if len(a.Lanes) == 0 {
		return -1
	}
	return a.Lanes[0].Lane
}

// homeLanes gives every tenant a lane on its home device, which has the memory that the weights there leave, split by homeShares.
func homeLanes(c *Cluster, past *Past, s Steps) ([][]whatif.LaneSpec, error) {
	kv, err := homeKV(c, past)
	if err != nil {
		return nil, err
	}
	lanes := make([][]whatif.LaneSpec, len(c.Tenants))
	for i := range c.Tenants {
		t := &c.Tenants[i]
		lanes[i] = []whatif.LaneSpec{c.Lane(i, []int{t.Home}, nil, pagesIn(t, t.Graph.Whole(), kv[i]), s)}
	}
	return lanes, nil
}

// homeKV is the bytes of KV that each tenant has on its home device. First each gets what its longest request needs, then half of the rest goes out
// evenly and half by the KV that past requests held.
func homeKV(c *Cluster, past *Past) ([]int64, error) {
	free := NewRoom(c).Free
	kv, demand := make([]int64, len(c.Tenants)), make([]float64, len(c.Tenants))
	sum, guests := make([]float64, len(c.Devices)), make([]int, len(c.Devices))
	for i := range c.Tenants {
		t := &c.Tenants[i]
		if t.Home < 0 || t.Home >= len(c.Devices) {
			return nil, fmt.Errorf("%w: tenant %s has no home device", ErrDemand, t.ID)
		}
		free[t.Home] -= t.Graph.WeightBytes(t.Graph.Whole())
		demand[i] = kvDemand(t, past.tenant(i))
		sum[t.Home] += demand[i]
		guests[t.Home]++
	}
	for i := range c.Tenants {
		t := &c.Tenants[i]
		share := max(free[t.Home], 0) / int64(guests[t.Home])
		page := pageBytes(t, t.Graph.Whole())
		pages := (longestTokens(t, past.tenant(i)) + blockTokens - 1) / blockTokens
		kv[i] = min(share, int64(pages)*page)
		if share < page {
			return nil, fmt.Errorf("%w: on device %s the weights leave %d bytes for the KV of %d tenants", ErrNoRoom, c.Devices[t.Home].ID, free[t.Home], guests[t.Home])
		}
	}
	left := free
	for i := range c.Tenants {
		left[c.Tenants[i].Home] -= kv[i]
	}
	for i := range c.Tenants {
		home := c.Tenants[i].Home
		even := 1 / float64(guests[home])
		share := even
		if sum[home] > 0 {
			share = demand[i] / sum[home]
		}
		kv[i] += int64(float64(left[home]) * (even + share) / 2)
	}
	return kv, nil
}

// kvDemand is about how many bytes of KV a tenant's past requests held at a time: how many come, how long each stays, and what it holds meanwhile.
func kvDemand(t *Tenant, p *TenantPast) float64 {
	context := p.PromptTokens + p.OutputTokens/2
	return p.RequestsPerS * staySeconds(t, p) * context * float64(t.Graph.KVBytesPerToken(t.Graph.Whole()))
}

// staySeconds is what a tenant's mean request takes alone on its idle home device.
func staySeconds(t *Tenant, p *TenantPast) float64 {
	prompt, output := p.PromptTokens, p.OutputTokens
	if t.AloneTTFTNs == nil || t.AloneTPOTNs == nil {
		return output + 1
	}
	return (float64(t.AloneTTFTNs(int(prompt))) + output*float64(t.AloneTPOTNs(int(prompt+output/2)))) / 1e9
}
