package whatif

import (
	"cmp"
	"fmt"
	"slices"

	"slicescheduler/batching"
)

// Guess is what a forecast assumes about what nobody knows.
type Guess struct {
	// OutputTokens is how long a sequence's whole answer is thought to be, given how far it is; at least one more token than it has.
	OutputTokens func(tenant int, q *SequenceState) int
	// Future are requests that are thought to come, by tenant and arrival; nil: none.
	Future [][]Request
}

// Resume makes a simulation that goes on from an observed state. Spec gives devices, links, catalog, router and order; its tenants' lanes, requests and
// live sequences are replaced by those of the state. Steps that were in flight start anew, and lanes that are gone keep their numbers.
func Resume(spec *Spec, st *State, g Guess, mode Mode) (*Sim, error) {
	if len(st.Tenants) != len(spec.Tenants) || len(st.Devices) != len(spec.Devices) {
		return nil, fmt.Errorf("%w: a state of %d tenants and %d devices, the specification has %d and %d",
			ErrSpec, len(st.Tenants), len(st.Devices), len(spec.Tenants), len(spec.Devices))
	}
	own := *spec
	own.KeepRecords, own.KeepTimeline = false, false
	own.Tenants = make([]TenantSpec, len(spec.Tenants))
	for ti := range own.Tenants {
		t := &own.Tenants[ti]
		*t = TenantSpec{ID: spec.Tenants[ti].ID, TTFTLimitNs: spec.Tenants[ti].TTFTLimitNs, TPOTLimitNs: spec.Tenants[ti].TPOTLimitNs}
		for k := range st.Tenants[ti].Lanes {
			if l := &st.Tenants[ti].Lanes[k]; l.Phase != LaneGone {
				t.Lanes = append(t.Lanes, *l.Spec) // for the islands
			}
		}
	}
	s := &Sim{spec: &own, mode: mode, now: st.NowNs}
	s.partition()
	for ti := range own.Tenants {
		if err := s.resume(ti, &st.Tenants[ti], g); err != nil {
			return nil, fmt.Errorf("tenant %s: %w", own.Tenants[ti].ID, err)
		}
	}
	for _, w := range s.islands {
		w.now = st.NowNs
	}
	if err := s.resumeLending(st); err != nil {
		return nil, err
	}
	for _, w := range s.islands {
		w.open()
	}
	return s, nil
}

// resume puts a tenant's lanes and sequences back.
func (s *Sim) resume(ti int, st *TenantState, g Guess) error {
	w := s.islands[s.ofTenant[ti]]
	local := w.tenantAt(ti)
	t := &w.tenants[local]
	t.spec.Requests = s.knownRequests(ti, st, g)
	t.next = known(st)
	next := int32(0)
	for k := range st.Lanes {
		if err := w.resumeLane(local, &st.Lanes[k], &next); err != nil {
			return err
		}
	}
	for range st.Held {
		t.held = append(t.held, next)
		next++
	}
	return nil
}

// known is how many requests a state holds.
func known(st *TenantState) int {
	n := len(st.Held)
	for k := range st.Lanes {
		n += len(st.Lanes[k].Sequences)
	}
	return n
}

// knownRequests lists a state's sequences in the order of lanes, then the held ones, then the future.
func (s *Sim) knownRequests(ti int, st *TenantState, g Guess) []Request {
	future := 0
	if g.Future != nil {
		future = len(g.Future[ti])
	}
	out := make([]Request, 0, known(st)+future)
	add := func(q *SequenceState) {
		output := max(g.OutputTokens(ti, q), q.Tokens-q.PromptTokens+1, 1)
		out = append(out, Request{
			ArrivalNs: q.ArrivalNs, PromptTokens: q.PromptTokens, OutputTokens: output, Priority: q.Priority,
			TTFTLimitNs: q.TTFTLimitNs, TPOTLimitNs: q.TPOTLimitNs,
		})
	}
	for k := range st.Lanes {
		for i := range st.Lanes[k].Sequences {
			add(&st.Lanes[k].Sequences[i])
		}
	}
	for i := range st.Held {
		add(&st.Held[i])
	}
	if future > 0 {
		out = append(out, g.Future[ti]...)
		slices.SortStableFunc(out[len(out)-future:], func(a, b Request) int { return cmp.Compare(a.ArrivalNs, b.ArrivalNs) })
	}
	return out
}

// resumeLane makes a lane as it is in the state; next is the index of its first sequence's request.
func (w *island) resumeLane(local int32, st *LaneState, next *int32) error {
	t := &w.tenants[local]
	if st.Phase == LaneGone {
		w.lanes = append(w.lanes, lane{spec: st.Spec, tenant: local, number: len(t.lanes), replaces: -1, state: laneGone})
		t.lanes = append(t.lanes, int32(len(w.lanes)-1))
		return nil
	}
	spec, err := w.spec.resolve(t.id, st.Spec)
	if err != nil {
		return err
	}
	li, err := w.addLane(spec, local)
	if err != nil {
		return err
	}
	l := &w.lanes[li]
	l.coldNs = 0
	if err := w.reserve(li); err != nil {
		return err
	}
	switch st.Phase {
	case LaneLoading:
		l.state, l.readyNs = laneLoading, max(st.ReadyNs, w.now)
		w.at(l.readyNs, eventReady, li, 0)
	case LaneDraining:
		l.state = laneDraining
	}
	for i := range st.Sequences {
		w.resumeSequence(l, &st.Sequences[i], *next)
		*next++
	}
	return nil
}

// resumeSequence puts a sequence where it was; one that finds no room, as the state may be of several moments, waits and is computed again.
func (w *island) resumeSequence(l *lane, q *SequenceState, request int32) {
	r := &w.tenants[l.tenant].spec.Requests[request]
	live := liveRequest{request: request, prompt: int32(r.PromptTokens), output: int32(r.OutputTokens), arrival: q.ArrivalNs, queued: q.ArrivalNs, first: q.FirstNs}
	b := batching.Request{ID: batching.SeqID(request), PromptTokens: r.PromptTokens, MaxTokens: r.OutputTokens, Priority: r.Priority, ArrivalNs: q.ArrivalNs}
	rank := l.ranks[0]
	computed := min(q.ComputedTokens, q.Tokens-1)
	w.offer(l)
	if q.Running && computed > 0 && rank.AdoptAt(b, q.Tokens, computed) == nil {
		live.scheduled = 1
		if q.Tokens-computed > 1 {
			live.todo = int32(q.Tokens - computed)
		}
		w.charge(l)
	} else if rank.AddBack(b, q.Tokens) == nil {
		live.todo = int32(q.Tokens)
	} else {
		w.tenants[l.tenant].refuse(request, w.now)
		return
	}
	l.pending += int64(live.todo)
	l.setLive(0, rank.SlotOf(b.ID), live)
}

// Known is the index among a resumed tenant's requests of one of the state's, or -1. MigrateSequence wants it.
func Known(st *TenantState, request int) int {
	at := 0
	for k := range st.Lanes {
		for i := range st.Lanes[k].Sequences {
			if st.Lanes[k].Sequences[i].Request == request {
				return at
			}
			at++
		}
	}
	for i := range st.Held {
		if st.Held[i].Request == request {
			return at
		}
		at++
	}
	return -1
}
