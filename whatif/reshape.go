package whatif

import (
	"fmt"
	"slices"

	"slicescheduler/batching"
)

// reshape is several lanes that change their shape together.
type reshape struct {
	from, to []int32 // lanes
	waiting  bool    // loaded: it waits until no step of the old lanes is in flight
	done     bool
}

func (a Reshape) apply(s *Sim) error {
	if len(a.Moves) == 0 {
		return fmt.Errorf("%w: a reshape needs lanes to move", ErrSpec)
	}
	lanes := make([]*LaneSpec, len(a.Moves))
	var loadNs int64
	for i, m := range a.Moves {
		if m.Tenant < 0 || m.Tenant >= len(s.ofTenant) {
			return fmt.Errorf("%w: no tenant %d", ErrSpec, m.Tenant)
		}
		if err := s.spec.validateLane(&m.To); err != nil {
			return err
		}
		if s.spec.Devices[m.To.Ranks[0].Slices[0].Device].Swap != nil {
			return fmt.Errorf("%w: a lane whose weights are swapped can't be reshaped", ErrSpec)
		}
		l, err := s.spec.resolve(m.Tenant, &m.To)
		if err != nil {
			return err
		}
		lanes[i], loadNs = l, max(loadNs, m.LoadNs)
	}
	into := int(s.ofTenant[a.Moves[0].Tenant])
	for i, m := range a.Moves {
		s.join(into, int(s.ofTenant[m.Tenant]))
		for _, d := range devicesOf(lanes[i]) {
			s.join(into, int(s.ofDevice[d]))
		}
	}
	w := s.own(into)
	s.touched[into] = true
	r := reshape{}
	for _, m := range a.Moves {
		t := &w.tenants[w.tenantAt(m.Tenant)]
		if m.Lane < 0 || m.Lane >= len(t.lanes) || !w.lanes[t.lanes[m.Lane]].serves() || slices.Contains(r.from, t.lanes[m.Lane]) {
			return fmt.Errorf("%w: tenant %d has no lane %d that serves and could be moved", ErrSpec, m.Tenant, m.Lane)
		}
		r.from = append(r.from, t.lanes[m.Lane])
	}
	if err := w.fitsAfter(&r, lanes); err != nil {
		return err
	}
	for i, m := range a.Moves {
		li, err := w.addLane(lanes[i], w.tenantAt(m.Tenant))
		if err != nil {
			return err
		}
		w.lanes[li].state, w.lanes[li].readyNs = laneLoading, w.now+loadNs
		r.to = append(r.to, li)
	}
	w.reshapes = append(w.reshapes, r)
	w.at(w.now+loadNs, eventReshape, int32(len(w.reshapes)-1), 0)
	return nil
}

// fitsAfter checks that weights and reserved pools fit when the old lanes are gone.
func (w *island) fitsAfter(r *reshape, lanes []*LaneSpec) error {
	need := make([]int64, len(w.devices))
	for _, li := range r.from {
		l := &w.lanes[li]
		for k := range l.spec.Ranks[0].Slices {
			sl := &l.spec.Ranks[0].Slices[k]
			need[w.deviceAt(sl.Device)] -= l.weightBytes(sl) + sl.KVBytes
		}
		for _, p := range l.shared {
			need[w.deviceAt(p.device)] -= int64(l.charged) * p.bytes
		}
	}
	for _, spec := range lanes {
		for k := range spec.Ranks[0].Slices {
			sl := &spec.Ranks[0].Slices[k]
			need[w.deviceAt(sl.Device)] += sl.Program.weightBytes + sl.KVBytes
		}
	}
	for i := range w.devices {
		if d := &w.devices[i]; d.accounted && need[i] > d.ledger.Free() {
			return fmt.Errorf("%w: %s lacks %d bytes after the move", ErrMemory, w.spec.Devices[d.id].ID, need[i]-d.ledger.Free())
		}
	}
	return nil
}

// reshape stops the old lanes once the new ones are loaded.
func (w *island) reshape(at int32) {
	r := &w.reshapes[at]
	for _, li := range r.from {
		if !w.lanes[li].serves() {
			w.giveUp(r)
			return
		}
	}
	r.waiting = true
	for _, li := range r.from {
		w.lanes[li].moving = true
	}
	w.tryReshape(at)
}

// giveUp leaves everything as it was.
func (w *island) giveUp(r *reshape) {
	r.done = true
	for _, li := range r.to {
		w.lanes[li].state = laneGone
	}
	for _, li := range r.from {
		if l := &w.lanes[li]; l.moving {
			l.moving = false
			w.pump(li)
		}
	}
}

// quiet is called when no step of a moving lane is in flight any more.
func (w *island) quiet(li int32) {
	for i := range w.reshapes {
		if r := &w.reshapes[i]; r.waiting && !r.done && slices.Contains(r.from, li) {
			w.tryReshape(int32(i))
			return
		}
	}
}

// tryReshape takes all sequences from the old lanes into the new ones, if all old ones are quiet. Those whose KV doesn't fit are computed again.
func (w *island) tryReshape(at int32) {
	r := &w.reshapes[at]
	for _, li := range r.from {
		if w.lanes[li].flying > 0 {
			return
		}
	}
	lanes := make([]*LaneSpec, len(r.to))
	for i, li := range r.to {
		lanes[i] = w.lanes[li].spec
	}
	if w.fitsAfter(r, lanes) != nil {
		w.giveUp(r) // others took the memory while the weights came
		return
	}
	r.done = true
	taken := make([][]parked, len(r.from))
	for i, li := range r.from {
		taken[i] = w.emptyLane(li)
		w.charge(&w.lanes[li])
		w.lanes[li].moving = false
		w.retire(li)
	}
	for i, li := range r.to {
		l := &w.lanes[li]
		if w.reserve(li) != nil {
			panic("whatif: a reshape was checked and doesn't fit") // fitsAfter looked at the same ledgers
		}
		l.state = laneReady
		w.sendShape(w.lanes[r.from[i]].spec, l.spec, taken[i])
		for _, p := range taken[i] {
			w.unpark(li, p)
		}
		t := &w.tenants[l.tenant]
		t.scores = t.scores[:0]
	}
	for _, li := range r.to {
		w.pump(li)
		t := &w.tenants[w.lanes[li].tenant]
		held := t.held
		t.held = nil
		for _, q := range held {
			w.route(w.lanes[li].tenant, q)
		}
	}
}

// parked is a sequence between two lanes.
type parked struct {
	live     liveRequest
	progress batching.Progress
	inbox    bool
}

// emptyLane takes all sequences out of a quiet lane.
func (w *island) emptyLane(li int32) []parked {
	l := &w.lanes[li]
	var out []parked
	s := l.ranks[0]
	s.Each(func(p batching.Progress) { out = append(out, parked{live: l.live[0][s.SlotOf(p.ID)], progress: p}) })
	for _, p := range out {
		_ = s.Cancel(p.progress.ID) // it is there
	}
	for _, q := range l.inbox[0] {
		out = append(out, parked{live: liveRequest{request: q}, inbox: true})
	}
	l.inbox[0], l.pending = l.inbox[0][:0], 0
	return out
}

// sendShape charges the links with the KV that moved; it went layer by layer while the old lanes served, so nobody waits for it.
func (w *island) sendShape(from, to *LaneSpec, taken []parked) {
	tokens := 0
	for _, p := range taken {
		tokens += p.progress.ComputedTokens
	}
	w.sendKV(from, to, tokens)
}

// unpark lets a sequence go on in a new lane.
func (w *island) unpark(li int32, p parked) {
	l := &w.lanes[li]
	if p.inbox {
		w.receive(li, 0, p.live.request)
		return
	}
	q := &p.live
	r := batching.Request{ID: p.progress.ID, PromptTokens: int(q.prompt), MaxTokens: int(q.output), ArrivalNs: q.arrival}
	if q.request >= 0 {
		r.Priority = w.tenants[l.tenant].spec.Requests[q.request].Priority
	}
	w.offer(l)
	if p.progress.ComputedTokens > 0 && l.ranks[0].AdoptAt(r, p.progress.Tokens, p.progress.ComputedTokens) == nil {
		w.charge(l)
		l.pending += int64(q.todo)
	} else if l.ranks[0].AddBack(r, p.progress.Tokens) == nil {
		q.todo = int32(p.progress.Tokens)
		l.pending += int64(q.todo)
	} else {
		w.tenants[l.tenant].refuse(q.request, w.now)
		return
	}
	l.setLive(0, l.ranks[0].SlotOf(r.ID), *q)
}

// absorbMoves takes over another island's migrations and reshapes.
func (w *island) absorbMoves(o *island, lanes, tenants int32) {
	moves := int32(len(w.moves))
	for _, m := range o.moves {
		m.from, m.to, m.tenant = m.from+lanes, m.to+lanes, m.tenant+tenants
		w.moves = append(w.moves, m)
	}
	for _, i := range o.idleMoves {
		w.idleMoves = append(w.idleMoves, i+moves)
	}
	for _, r := range o.reshapes {
		r.from, r.to = slices.Clone(r.from), slices.Clone(r.to)
		for i := range r.from {
			r.from[i], r.to[i] = r.from[i]+lanes, r.to[i]+lanes
		}
		w.reshapes = append(w.reshapes, r)
	}
}
