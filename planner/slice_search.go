package planner

import (
	"fmt"

	"slicescheduler/whatif"
)

// search is the state of the plan search between two calls.
type search struct {
	lastNs  int64
	arrived []int64          // by tenant, at lastNs
	rate    []float64        // requests per second of each tenant, smoothed
	busyNs  []int64          // by device, at lastNs
	busy    []float64        // share of time of each device, smoothed
	idle    []int64          // by tenant: when it was last seen to have work
	restNs  []int64          // by tenant: no other lane before
	rests   map[[2]int]int64 // by tenant and lane: no other cut before
	spec    *whatif.Spec
	scratch whatif.State
}

const (
	// rateWindowNs and busyWindowNs are how far back smoothed figures remember.
	rateWindowNs = 10e9
	busyWindowNs = 2e9
	// restLaneNs is how long a tenant that got a lane waits for the next one, so that plans don't thrash.
	restLaneNs = 1_000_000_000
	// idleLaneNs is how long a lane must have had nothing to do before its memory may go to another tenant.
	idleLaneNs = 3_000_000_000
)

// Plan implements Policy.
func (p *slice) Plan(s *whatif.State) []Decision {
	p.follow(s)
	var out []Decision
	if p.knobs["batches"] > 0 {
		out = p.rebatch(s, out)
	}
	if p.knobs["migrate"] > 0 {
		out = p.balance(s, out)
	}
	if p.knobs["replicate"] > 0 {
		out = p.grow(s, out)
	}
	return out
}

// follow keeps the smoothed figures.
func (p *slice) follow(s *whatif.State) {
	if p.arrived == nil {
		p.rests = map[[2]int]int64{}
		p.arrived, p.rate, p.restNs = make([]int64, len(s.Tenants)), make([]float64, len(s.Tenants)), make([]int64, len(s.Tenants))
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

// rebatch cuts the decodes of spread lanes into more steps where they are late, as shorter steps follow each other over the devices, and into fewer where
// there is time, as every step reads the weights anew.
func (p *slice) rebatch(s *whatif.State, out []Decision) []Decision {
	for ti := range s.Tenants {
		for k := range s.Tenants[ti].Lanes {
			l := &s.Tenants[ti].Lanes[k]
			c := l.Spec.Batching
			if l.Phase != whatif.LaneServing || c.Separate == 0 || l.Load.Devices < 2 {
				continue
			}
			n, x := c.MicroBatches, pace(l)
			switch {
			case x > latePace && p.busiest(l) < idleBusy && n < c.InFlight-c.Separate && l.Load.Running > 2*n:
				n++
			case (x < earlyPace || p.busiest(l) > fullBusy) && n > 1:
				n--
			default:
				continue
			}
			if s.NowNs < p.rested(ti, k) {
				continue
			}
			p.rests[[2]int{ti, k}] = s.NowNs + restBatchesNs
			out = append(out, Decision{
				Action: whatif.SetBatches{Tenant: ti, Lane: k, MicroBatches: n}, Kind: "rebatch", Tenant: ti,
				Reason: fmt.Sprintf("steps of lane %d take %.0f %% of the time that its answers have for a token", k, 100*x),
			})
		}
	}
	return out
}

// busiest is how busy the busiest device of a lane is.
func (p *slice) busiest(l *whatif.LaneState) float64 {
	most := 0.0
	for _, sl := range l.Spec.Ranks[0].Slices {
		most = max(most, p.busy[sl.Device])
	}
	return most
}

// rested is when a lane may be cut anew.
func (p *slice) rested(tenant, lane int) int64 { return p.rests[[2]int{tenant, lane}] }

const (
	latePace      = 0.85
	earlyPace     = 0.45
	idleBusy      = 0.7
	fullBusy      = 0.9
	restBatchesNs = 1_000_000_000
)

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

// grow gives the tenant under the most pressure another lane where memory is free, or where a lane that idles can go.
func (p *slice) grow(s *whatif.State, out []Decision) []Decision {
	ti, most := -1, 0.5
	for i := range s.Tenants {
		if x := p.pressure(&s.Tenants[i], i); x > most && s.NowNs >= p.restNs[i] && !loading(&s.Tenants[i]) {
			ti, most = i, x
		}
	}
	if ti < 0 {
		return out
	}
	d, victim := p.room(s, ti)
	if d < 0 {
		return out
	}
	p.restNs[ti] = s.NowNs + restLaneNs
	if victim.lane >= 0 {
		if p.knobs["evict"] == 0 {
			return out
		}
		out = append(out, Decision{
			Action: whatif.RemoveLane{Tenant: victim.tenant, Lane: victim.lane}, Kind: "evict", Tenant: victim.tenant,
			Reason: fmt.Sprintf("lane %d idles on %s, where tenant %s needs the memory", victim.lane, p.c.Devices[d].ID, p.c.Tenants[ti].ID),
		})
	}
	load := int64(float64(p.cost[ti].weights) / p.c.Devices[d].LoadBytesPerS * 1e9)
	return append(out, Decision{
		Action: whatif.AddLane{Tenant: ti, Lane: p.lane(ti, []int{d}), LoadNs: load}, Kind: "replicate", Tenant: ti,
		Reason: fmt.Sprintf("its requests are forecast to wait for %.0f %% of what they may; %s is %.0f %% busy", 100*most, p.c.Devices[d].ID, 100*p.busy[d]),
	})
}

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
