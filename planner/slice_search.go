package planner

import (
	"fmt"

	"slicescheduler/whatif"
)

// search is the state of the plan search between two calls.
type search struct {
	lastNs   int64
	arrived  []int64          // by tenant, at lastNs
	rate     []float64        // requests per second of each tenant, smoothed
	busyNs   []int64          // by device, at lastNs
	busy     []float64        // share of time of each device, smoothed
	restNs   []int64          // by tenant: no other lane before
	rests    map[[2]int]int64 // by tenant and lane: no other shape before
	spec     *whatif.Spec
	scratch  whatif.State
	searches int        // that asked for a forecast
	seen     [][2]int64 // by tenant: limits of TTFT and TPOT that its requests had
}

const (
	// rateWindowNs and busyWindowNs are how far back smoothed figures remember.
	rateWindowNs = 10e9
	busyWindowNs = 2e9
	// restLaneNs is how long a tenant that got a lane waits for the next one, so that plans don't thrash.
	restLaneNs = 1_000_000_000
)

// candidate is a change that might help.
type candidate struct {
	actions []whatif.Action
	kind    string
	tenant  int
	reason  string
	taken   func() // notes that it was chosen
}

// Plan implements Policy. Migrations, which cost next to nothing, follow from the state; everything else is a candidate that is tried on a forecast, and the
// best one is taken if it is clearly better than no change. What a search costs is bounded by the knob steps.
func (p *slice) Plan(s *whatif.State) []Decision {
	p.follow(s)
	var out []Decision
	if p.knobs["migrate"] > 0 {
		out = p.balance(s, out)
	}
	list := p.grow(s, nil)
	if p.knobs["spread"] > 0 {
		list = p.reshape(s, list)
	}
	if len(list) > maxCandidates {
		list = list[:maxCandidates]
	}
	if len(list) == 0 {
		return out
	}
	if p.knobs["steps"] == 0 { // nothing is forecast: the first candidate is believed
		return p.take(&list[0], 0, 0, out)
	}
	p.searches++
	f := p.look(s, len(list))
	if f == nil {
		return out
	}
	best, most := -1, 0.0
	for i := range list {
		if gain, ok := f.try(soon(list[i].actions)...); ok && gain > most {
			best, most = i, gain
		}
	}
	if best < 0 || !f.better(most) {
		return out
	}
	return p.take(&list[best], most, f.untilNs-s.NowNs, out)
}

// maxCandidates is how many changes are tried in one search.
const maxCandidates = 4

// take makes decisions of a candidate.
func (p *slice) take(c *candidate, gain float64, horizonNs int64, out []Decision) []Decision {
	c.taken()
	for _, a := range c.actions {
		d := Decision{Action: a, Kind: c.kind, Tenant: c.tenant, Reason: c.reason, GoodTokens: gain, HorizonNs: horizonNs}
		if r, ok := a.(whatif.RemoveLane); ok {
			d.Kind, d.Tenant = "evict", r.Tenant
		}
		out = append(out, d)
	}
	return out
}

// follow keeps the smoothed figures.
func (p *slice) follow(s *whatif.State) {
	if p.arrived == nil {
		p.rests = map[[2]int]int64{}
		p.arrived, p.rate, p.restNs = make([]int64, len(s.Tenants)), make([]float64, len(s.Tenants)), make([]int64, len(s.Tenants))
		p.seen = make([][2]int64, len(s.Tenants))
		p.busyNs, p.busy = make([]int64, len(s.Devices)), make([]float64, len(s.Devices))
		for i := range p.rate {
			p.rate[i] = p.past.tenant(i).RequestsPerS
		}
		p.lastNs = s.NowNs
	}
	dt := float64(s.NowNs - p.lastNs)
	if dt <= 0 {
		return
	}
	w := min(1, dt/rateWindowNs)
	for i := range s.Tenants {
		now := float64(s.Tenants[i].Arrived-p.arrived[i]) / dt * 1e9
		p.rate[i] += w * (now - p.rate[i])
		p.arrived[i] = s.Tenants[i].Arrived
		for k := range s.Tenants[i].Lanes {
			if q := s.Tenants[i].Lanes[k].Sequences; len(q) > 0 {
				p.seen[i] = [2]int64{q[0].TTFTLimitNs, q[0].TPOTLimitNs}
			}
		}
	}
	w = min(1, dt/busyWindowNs)
	for d := range s.Devices {
		p.busy[d] += w * (float64(s.Devices[d].BusyNs-p.busyNs[d])/dt - p.busy[d])
		p.busyNs[d] = s.Devices[d].BusyNs
	}
	p.lastNs = s.NowNs
}

// pace is how a lane's decodes stand against what its sequences need: 1 is just in time.
func pace(l *whatif.LaneState) float64 {
	for i := range l.Sequences {
		if q := &l.Sequences[i]; q.TPOTLimitNs > 0 {
			return float64(l.Load.StepNs) / float64(q.TPOTLimitNs)
		}
	}
	return 0
}

// rested is when a lane may change its shape again.
func (p *slice) rested(tenant, lane int) int64 { return p.rests[[2]int{tenant, lane}] }

// movesATime is how many sequences of a tenant may be on their way at once.
const movesATime = 4

// balance moves sequences of a tenant from a lane that is short of pages or of time to one that has both.
func (p *slice) balance(s *whatif.State, out []Decision) []Decision {
	for ti := range s.Tenants {
		t := &s.Tenants[ti]
		if len(t.Lanes) < 2 {
			continue
		}
		from, to, why := -1, -1, ""
		worst, bestFree := 0.0, 0.0
		moving := 0
		for k := range t.Lanes {
			l := &t.Lanes[k]
			if l.Phase != whatif.LaneServing {
				continue
			}
			for i := range l.Sequences {
				if l.Sequences[i].Migrating {
					moving++
				}
			}
			free := freeShare(l)
			short := 0.0
			reason := ""
			if l.Load.Waiting > 0 && free < 0.05 {
				short, reason = 2-free, "has no pages for requests that wait"
			} else if x := pace(l); x > 0.95 {
				short, reason = x, fmt.Sprintf("takes %.0f %% of the time that its answers have for a token", 100*x)
			}
			if short > worst && l.Load.Running > 1 {
				worst, from, why = short, k, reason
			}
			if room := free * (1 - min(1, pace(l))) / float64(1+l.Load.Waiting); room > bestFree && free > 0.25 && pace(l) < 0.6 {
				bestFree, to = room, k
			}
		}
		if from < 0 || to < 0 || from == to || moving >= movesATime {
			continue
		}
		if q := p.toMove(&t.Lanes[from], &t.Lanes[to]); q != nil {
			out = append(out, Decision{
				Action: whatif.MigrateSequence{Tenant: ti, Request: q.Request, From: from, To: to}, Kind: "migrate", Tenant: ti,
				Reason: fmt.Sprintf("lane %d %s; lane %d has %.0f %% of its pages free", from, why, to, 100*freeShare(&t.Lanes[to])),
			})
		}
	}
	return out
}

// freeShare is how much of a lane's pages are free.
func freeShare(l *whatif.LaneState) float64 {
	if l.Load.KVBlocks == 0 {
		return 0
	}
	return float64(l.Load.FreeBlocks) / float64(l.Load.KVBlocks)
}

// toMove is the sequence whose answer has been going on for the shortest time: what it holds is little, and what it will need is much.
func (p *slice) toMove(from, to *whatif.LaneState) *whatif.SequenceState {
	var best *whatif.SequenceState
	for i := range from.Sequences {
		q := &from.Sequences[i]
		if !q.Running || q.Migrating || q.FirstNs == 0 || q.Tokens/blockTokens > to.Load.FreeBlocks/2 {
			continue
		}
		if best == nil || q.Tokens < best.Tokens {
			best = q
		}
	}
	return best
}

// grow would give the tenant under the most pressure another lane where memory is free, or where a lane that idles can go.
func (p *slice) grow(s *whatif.State, out []candidate) []candidate {
	if p.knobs["replicate"] == 0 {
		return out
	}
	ti, most := -1, leastPressure
	for i := range s.Tenants {
		if x := p.pressure(&s.Tenants[i], i); x > most && s.NowNs >= p.restNs[i] && !loading(&s.Tenants[i]) {
			ti, most = i, x
		}
	}
	if ti < 0 {
		return out
	}
	d, victim := p.room(s, ti)
	if d < 0 || victim.lane >= 0 && p.knobs["evict"] == 0 {
		return out
	}
	load := int64(float64(p.cost[ti].weights) / p.c.Devices[d].LoadBytesPerS * 1e9)
	c := candidate{
		kind: "replicate", tenant: ti, taken: func() { p.restNs[ti] = s.NowNs + restLaneNs },
		reason: fmt.Sprintf("its next request would wait for %.0f %% of what it may; %s is %.0f %% busy", 100*most, p.c.Devices[d].ID, 100*p.busy[d]),
	}
	if victim.lane >= 0 {
		c.actions = append(c.actions, whatif.RemoveLane{Tenant: victim.tenant, Lane: victim.lane})
		c.reason += fmt.Sprintf("; lane %d of %s idles there and goes", victim.lane, p.c.Tenants[victim.tenant].ID)
	}
	c.actions = append(c.actions, whatif.AddLane{Tenant: ti, Lane: p.lane(ti, []int{d}), LoadNs: load})
	return append(out, c)
}

// leastPressure is the share of a TTFT limit that a tenant's next request must be predicted to wait before another lane is thought of.
const leastPressure = 0.5

// reshape would spread a lane whose requests wait for pages over its device's neighbours, live.
func (p *slice) reshape(s *whatif.State, out []candidate) []candidate {
	for ti := range s.Tenants {
		t := &s.Tenants[ti]
		for k := range t.Lanes {
			l := &t.Lanes[k]
			if l.Phase != whatif.LaneServing || l.Load.Devices > 1 || l.Load.Waiting == 0 || freeShare(l) > 0.05 || s.NowNs < p.rested(ti, k) {
				continue
			}
			devices := p.neighbours(l.Load.Device, len(p.c.Tenants[ti].Graph.Stages), ti)
			if len(devices) < 2 {
				continue
			}
			to := p.lane(ti, devices)
			load := int64(float64(p.cost[ti].weights) / float64(len(devices)) / p.c.Devices[devices[0]].LoadBytesPerS * 1e9)
			out = append(out, candidate{
				actions: []whatif.Action{whatif.Reshape{Moves: []whatif.MoveLane{{Tenant: ti, Lane: k, To: to, LoadNs: load}}}}, kind: "spread", tenant: ti,
				reason: fmt.Sprintf("%d requests of lane %d wait for pages on %s; over %d devices it has those of all", l.Load.Waiting, k, p.c.Devices[l.Load.Device].ID, len(devices)),
				taken:  func() { p.rests[[2]int{ti, k}] = s.NowNs + restLaneNs },
			})
		}
	}
	return out
}

// neighbours are the devices that a lane on one device could be spread over: the block of spreadOver that it belongs to.
func (p *slice) neighbours(device, stages, tenant int) []int {
	k := min(spreadOver, len(p.c.Devices), stages)
	first := min(device/k*k, len(p.c.Devices)-k)
	out := make([]int, k)
	for i := range out {
		out[i] = first + (i+tenant)%k
	}
	return out
}

// spreadOver is how many devices a lane is spread over at run time.
const spreadOver = 8

func loading(t *whatif.TenantState) bool {
	for k := range t.Lanes {
		if t.Lanes[k].Phase == whatif.LaneLoading {
			return true
		}
	}
	return false
}

// pressure is the predicted time to first token of one more mean request on the tenant's best lane, as a share of its limit; 0 when nothing waits.
func (p *slice) pressure(t *whatif.TenantState, tenant int) float64 {
	a := whatif.Arrival{Tenant: tenant, PromptTokens: int(p.past.tenant(tenant).PromptTokens)}
	busy := len(t.Held) > 0
	for k := range t.Lanes {
		l := &t.Lanes[k]
		busy = busy || l.Load.Waiting > 0
		if l.Phase == whatif.LaneServing {
			a.Lanes = append(a.Lanes, l.Load)
		}
		for i := range l.Sequences {
			a.TTFTLimitNs, a.TPOTLimitNs = l.Sequences[i].TTFTLimitNs, l.Sequences[i].TPOTLimitNs
		}
	}
	if !busy || a.TTFTLimitNs == 0 {
		return 0
	}
	least := 1e18
	for i := range a.Lanes {
		least = min(least, p.predict(&a, &a.Lanes[i]))
	}
	return least / float64(a.TTFTLimitNs)
}

// laneRef names a lane; lane -1 is none.
type laneRef struct{ tenant, lane int }

// room finds the least busy device for one more lane, with memory that is free or that an idle lane, not its tenant's last, would free.
func (p *slice) room(s *whatif.State, tenant int) (int, laneRef) {
	best, victim := -1, laneRef{-1, -1}
	for d := range s.Devices {
		if holds(&s.Tenants[tenant], d) || best >= 0 && p.busy[d] >= p.busy[best] || p.busy[d] > 0.8 {
			continue
		}
		need := p.cost[tenant].weights + int64(minKVShare*float64(p.c.Devices[d].MemoryBytes))
		if s.Devices[d].FreeBytes >= need {
			best, victim = d, laneRef{-1, -1}
			continue
		}
		if v := p.idleLane(s, tenant, d, need-s.Devices[d].FreeBytes); v.lane >= 0 {
			best, victim = d, v
		}
	}
	return best, victim
}

// minKVShare is the share of a device that a new lane must find free beside its weights.
const minKVShare = 0.08

func holds(t *whatif.TenantState, d int) bool {
	for k := range t.Lanes {
		if l := &t.Lanes[k]; l.Phase != whatif.LaneGone {
			for _, sl := range l.Spec.Ranks[0].Slices {
				if sl.Device == d {
					return true
				}
			}
		}
	}
	return false
}

// idleLane is a lane on a device that has nothing to do, isn't its tenant's last, and would free enough.
func (p *slice) idleLane(s *whatif.State, but, d int, bytes int64) laneRef {
	for ti := range s.Tenants {
		t := &s.Tenants[ti]
		if ti == but || serving(t) < 2 || p.cost[ti].weights < bytes {
			continue
		}
		for k := range t.Lanes {
			l := &t.Lanes[k]
			if l.Phase == whatif.LaneServing && len(l.Sequences) == 0 && l.Load.Devices == 1 && l.Load.Device == d {
				return laneRef{ti, k}
			}
		}
	}
	return laneRef{-1, -1}
}

func serving(t *whatif.TenantState) int {
	n := 0
	for k := range t.Lanes {
		if t.Lanes[k].Phase == whatif.LaneServing {
			n++
		}
	}
	return n
}
