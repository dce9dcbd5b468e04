package planner

import (
	"cmp"
	"math"
	"slices"

	"slicescheduler/gmg"
	"slicescheduler/whatif"
)

// slice is the planner of this project. At the start tenants whose copies are dear lie spread, layer runs over a group of devices, and the others have as
// many whole copies as demand and memory suggest, in the shape that a rehearsal with made-up requests finds best; all memory beside weights is one pool on each device. Requests go where their first token is predicted
// to come first, and every step may be interrupted between operators by one that is wanted earlier. From then on Plan searches for improvements.
type slice struct {
	base
	c    *Cluster
	past *Past
	cost []tenantCost
	search
}

// tenantCost is what a tenant's work takes on its home device, about.
type tenantCost struct {
	prefillNs float64 // a prompt token
	decodeNs  float64 // an answer token in a batch of decodeBatch
	load      float64 // devices that its past demand keeps busy
	weights   int64
}

// decodeBatch is the batch that demand is reckoned with: a step of decodes reads the weights once for all of them.
const decodeBatch = 16

func sliceEntry() entry {
	onOff := func(name string) knob { return knob{name: name, otherwise: 1, low: 0, high: 1} }
	return entry{
		name: "slice",
		knobs: []knob{
			{name: "budget", otherwise: 4096, low: 16, high: 1 << 20},
			{name: "group", otherwise: 8, low: 0, high: 1024},
			{name: "bigPct", otherwise: auto, low: auto, high: 100, tries: []float64{0, 50, 100}},
			{name: "depth", otherwise: 0, low: 0, high: 16},
			{name: "prompts", otherwise: 8, low: 1, high: 16},
			{name: "keepPct", otherwise: 35, low: 1, high: 95, tries: []float64{35, 50}},
			{name: "periodMs", otherwise: 100, low: 0, high: 60_000},
			{name: "gainPct", otherwise: 0.02, low: 0, high: 100},
			{name: "steps", otherwise: 1000, low: 0, high: 1e9},
			onOff("urgent"), onOff("migrate"), onOff("replicate"), onOff("evict"), onOff("predict"), onOff("spread"), {name: "separate", otherwise: 0, low: 0, high: 1},
		},
		make: func(k Knobs) Policy { return &slice{base: base{"slice", k}} },
	}
}

// PeriodNs implements Policy.
func (p *slice) PeriodNs() int64 { return int64(p.knobs["periodMs"] * 1e6) }

// Place implements Policy.
func (p *slice) Place(c *Cluster, past *Past) (*Start, error) {
	p.c, p.past = c, past
	p.reckon()
	if p.knobs["bigPct"] == auto {
		p.chooseShape()
	}
	return p.lay()
}

// lay places all tenants.
func (p *slice) lay() (*Start, error) {
	c := p.c
	st := &Start{Lanes: make([][]whatif.LaneSpec, len(c.Tenants)), Order: p.order()}
	room := NewRoom(c)
	busy := make([]float64, len(c.Devices))
	if err := p.placeSpread(st, room, busy); err != nil {
		return nil, err
	}
	if err := p.placeHomes(st, room, busy); err != nil {
		return nil, err
	}
	p.placeCopies(st, room, busy)
	return st, nil
}

// reckon estimates what tenants' work takes.
func (p *slice) reckon() {
	p.cost = make([]tenantCost, len(p.c.Tenants))
	for i := range p.c.Tenants {
		t, d := &p.c.Tenants[i], p.past.tenant(i)
		k := &p.cost[i]
		k.weights = t.Graph.WeightBytes(t.Graph.Whole())
		prompt := max(1, int(d.PromptTokens))
		k.prefillNs, k.decodeNs = 1e5, 1e6
		if t.AloneTTFTNs != nil && t.AloneTPOTNs != nil {
			k.prefillNs = float64(t.AloneTTFTNs(2*prefillProbe)-t.AloneTTFTNs(prefillProbe)) / prefillProbe
			k.decodeNs = float64(t.AloneTPOTNs(prompt+int(d.OutputTokens/2))) / decodeBatch
		}
		k.load = d.RequestsPerS * (d.PromptTokens*k.prefillNs + d.OutputTokens*k.decodeNs) / 1e9
	}
}

// prefillProbe is a prompt long enough to show what a token of it takes.
const prefillProbe = 1024

// spreads says whether a tenant's lanes are spread: its copies are dear on these devices.
func (p *slice) spreads(tenant int) bool {
	least := int64(math.MaxInt64)
	for i := range p.c.Devices {
		least = min(least, p.c.Devices[i].MemoryBytes)
	}
	return p.group() > 1 && p.group() <= len(p.c.Tenants[tenant].Graph.Stages) && float64(p.cost[tenant].weights)*100 >= p.knobs["bigPct"]*float64(least)
}

// group is how many devices a spread lane lies on.
func (p *slice) group() int { return min(p.knobs.Int("group"), len(p.c.Devices)) }

// byLoad lists tenants, the busiest first.
func (p *slice) byLoad() []int {
	order := make([]int, len(p.c.Tenants))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.cost[b].load, p.cost[a].load) })
	return order
}

// placeSpread lays spread tenants over groups of devices, each over the group with the least to do for its memory.
func (p *slice) placeSpread(st *Start, room *Room, busy []float64) error {
	k := p.group()
	if k < 2 {
		return nil
	}
	groups := len(p.c.Devices) / k
	for _, tenant := range p.byLoad() {
		if !p.spreads(tenant) {
			continue
		}
		best, least := -1, math.Inf(1)
		var lane whatif.LaneSpec
		for g := range groups {
			devices := p.devicesOf(g, tenant)
			l := p.lane(tenant, devices)
			if room.Clone().Take(tenant, &l) != nil {
				continue
			}
			sum := 0.0
			for _, d := range devices {
				sum += busy[d]
			}
			if sum < least {
				best, least, lane = g, sum, l
			}
		}
		if best < 0 {
			continue // a copy at home, then
		}
		if err := room.Take(tenant, &lane); err != nil {
			return err
		}
		for _, s := range lane.Ranks[0].Slices {
			busy[s.Device] += p.cost[tenant].load / float64(k)
		}
		st.Lanes[tenant] = append(st.Lanes[tenant], lane)
	}
	return nil
}

// devicesOf lists a group's devices, each tenant beginning at another one so that embeddings and heads are spread as well.
func (p *slice) devicesOf(group, tenant int) []int {
	k := p.group()
	out := make([]int, k)
	for i := range out {
		out[i] = group*k + (i+tenant)%k
	}
	return out
}

// lane is a tenant's lane over devices.
func (p *slice) lane(tenant int, devices []int) whatif.LaneSpec {
	s := Steps{BudgetTokens: p.knobs.Int("budget")}
	t := &p.c.Tenants[tenant]
	var runs []gmg.Range
	if len(devices) > 1 {
		runs = EqualRuns(t.Graph, len(devices), headLayers)
	}
	l := p.c.SharedLane(tenant, devices, runs, p.poolPages(t), s)
	b := &l.Batching
	b.Watermark = watermarkPages
	if len(devices) > 1 {
		b.Separate, b.MicroBatches = p.knobs.Int("prompts"), p.depth()
		b.InFlight = b.Separate + b.MicroBatches
	} else if p.knobs["separate"] > 0 {
		b.Separate, b.InFlight = 1, 2
		b.Overlap = overlapPrompts
	}
	return l
}

// depth is into how many steps a spread lane's decodes are cut. Where all lanes are spread they fill each other's gaps, and one step reads the weights once;
// beside copies two keep a lane's devices busier.
func (p *slice) depth() int {
	switch {
	case p.knobs["depth"] > 0:
		return p.knobs.Int("depth")
	case p.allSpread():
		return 1
	}
	return 2
}

// allSpread says whether no tenant has whole copies.
func (p *slice) allSpread() bool {
	for i := range p.c.Tenants {
		if !p.spreads(i) {
			return false
		}
	}
	return true
}

// headLayers is how many layers the head is worth when layers are shared out: it is read for every step of decodes.
const headLayers = 2

// placeHomes gives every tenant without a lane one copy: at home if there is room, else on the freest device.
func (p *slice) placeHomes(st *Start, room *Room, busy []float64) error {
	for _, tenant := range p.byLoad() {
		if len(st.Lanes[tenant]) > 0 {
			continue
		}
		l := p.lane(tenant, []int{p.c.Tenants[tenant].Home})
		d := p.c.Tenants[tenant].Home
		if err := room.Take(tenant, &l); err != nil {
			d = p.freest(room)
			l = p.lane(tenant, []int{d})
			if err := room.Take(tenant, &l); err != nil {
				return err
			}
		}
		busy[d] += p.cost[tenant].load
		st.Lanes[tenant] = append(st.Lanes[tenant], l)
	}
	return nil
}

func (p *slice) freest(room *Room) int {
	best := 0
	for d := range room.Free {
		if room.Free[d] > room.Free[best] {
			best = d
		}
	}
	return best
}

// placeCopies adds copies of the tenants with the most demand per copy, on the least busy devices that keep enough for KV.
func (p *slice) placeCopies(st *Start, room *Room, busy []float64) {
	stuck := make([]bool, len(p.c.Tenants))
	for {
		tenant, most := -1, 0.0
		for i := range p.c.Tenants {
			if n := float64(len(st.Lanes[i])); !stuck[i] && !p.spreads(i) && p.cost[i].load/n > most {
				tenant, most = i, p.cost[i].load/n
			}
		}
		if tenant < 0 || most < minCopyLoad {
			return
		}
		d := p.homeForCopy(tenant, st.Lanes[tenant], room, busy)
		if d < 0 {
			stuck[tenant] = true
			continue
		}
		l := p.lane(tenant, []int{d})
		if room.Take(tenant, &l) != nil {
			stuck[tenant] = true
			continue
		}
		before, n := p.cost[tenant].load, float64(len(st.Lanes[tenant]))
		for i := range st.Lanes[tenant] {
			busy[st.Lanes[tenant][i].Ranks[0].Slices[0].Device] -= before/n - before/(n+1)
		}
		busy[d] += before / (n + 1)
		st.Lanes[tenant] = append(st.Lanes[tenant], l)
	}
}

// minCopyLoad is the share of a device that a copy must have to do to be worth its memory.
const minCopyLoad = 0.02

// homeForCopy is the least busy device that has room for one more copy beside the memory kept for KV and doesn't hold one yet; -1: none.
func (p *slice) homeForCopy(tenant int, lanes []whatif.LaneSpec, room *Room, busy []float64) int {
	best := -1
	for d := range p.c.Devices {
		holds := slices.ContainsFunc(lanes, func(l whatif.LaneSpec) bool {
			return slices.ContainsFunc(l.Ranks[0].Slices, func(s whatif.SliceSpec) bool { return s.Device == d })
		})
		keep := int64(p.knobs["keepPct"] / 100 * float64(p.c.Devices[d].MemoryBytes))
		if holds || room.Free[d]-p.cost[tenant].weights < keep {
			continue
		}
		if best < 0 || busy[d] < busy[best] {
			best = d
		}
	}
	return best
}
