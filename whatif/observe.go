package whatif

import (
	"slicescheduler/batching"
	"slicescheduler/gmg"
)

// Observe fills in what can be seen of the world now, reusing the memory of `into`. Lanes' specifications are shared and must not be changed.
func (s *Sim) Observe(into *State) {
	into.NowNs = s.now
	into.Devices = resize(into.Devices, len(s.spec.Devices))
	into.Tenants = resize(into.Tenants, len(s.spec.Tenants))
	for _, w := range s.islands {
		for di := range w.devices {
			d := &w.devices[di]
			out := &into.Devices[d.id]
			*out = DeviceState{
				FreeBytes: d.ledger.Free(), WeightBytes: d.ledger.Held[gmg.MemWeights], KVBytes: d.ledger.Held[gmg.MemKV],
				BusyNs: d.busyNs, BorrowedNs: d.borrowedNs, QueueNs: w.queueNs(d),
			}
			if d.busy {
				out.BusyNs += w.now - d.current.startNs
			}
		}
		w.sumDevices()
		for ti := range w.tenants {
			w.observeTenant(&w.tenants[ti], &into.Tenants[w.tenants[ti].id])
		}
	}
}

// resize returns a slice of n elements with the memory of those that were there.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return append(s[:cap(s)], make([]T, n-cap(s))...)
	}
	return s[:n]
}

func (w *island) observeTenant(t *tenant, out *TenantState) {
	out.Arrived, out.Finished, out.Totals, out.MaxSequences = t.totals.Arrived, t.totals.Finished, t.totals, t.throttle
	out.Held = out.Held[:0]
	for _, q := range t.held {
		out.Held = append(out.Held, t.unstarted(q))
	}
	out.Lanes = resize(out.Lanes, len(t.lanes))
	for i, li := range t.lanes {
		l := &w.lanes[li]
		o := &out.Lanes[i]
		o.Spec, o.Phase, o.ReadyNs, o.Sequences, o.Helpers = l.spec, l.phase(), l.readyNs, o.Sequences[:0], l.observeHelpers(o.Helpers[:0])
		if o.Phase == LaneGone {
			o.Load = LaneLoad{}
			continue
		}
		o.Load = w.loadOf(l)
		w.deviceLoad(&o.Load)
		for r, s := range l.ranks {
			s.Each(func(p batching.Progress) { o.Sequences = append(o.Sequences, t.observe(&l.live[r][s.SlotOf(p.ID)], p)) })
			for _, q := range l.inbox[r] {
				o.Sequences = append(o.Sequences, t.unstarted(q))
			}
		}
	}
}

func (l *lane) phase() LanePhase {
	switch l.state {
	case laneLoading:
		return LaneLoading
	case laneDraining:
		return LaneDraining
	case laneGone:
		return LaneGone
	}
	return LaneServing
}

// observe is a sequence without its length.
func (t *tenant) observe(q *liveRequest, p batching.Progress) SequenceState {
	ttft, tpot := t.limits(q)
	return SequenceState{
		Request: int(p.ID), PromptTokens: p.PromptTokens, Tokens: p.Tokens, ComputedTokens: p.ComputedTokens,
		ArrivalNs: q.arrival, FirstNs: q.first, TTFTLimitNs: ttft, TPOTLimitNs: tpot, Priority: t.priority(q), Running: p.Running, Migrating: q.migrating,
	}
}

func (t *tenant) unstarted(request int32) SequenceState {
	r := &t.spec.Requests[request]
	ttft, tpot := t.limits(&liveRequest{request: request})
	return SequenceState{
		Request: int(request), PromptTokens: r.PromptTokens, Tokens: r.PromptTokens, ArrivalNs: r.ArrivalNs,
		TTFTLimitNs: ttft, TPOTLimitNs: tpot, Priority: r.Priority,
	}
}

func (t *tenant) priority(q *liveRequest) int {
	if q.request < 0 {
		return 0
	}
	return t.spec.Requests[q.request].Priority
}
