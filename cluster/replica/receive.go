package replica

import (
	"fmt"
	"slices"

	"slicescheduler/gmg"
)

// Receive takes in a message. Only a delta has effects; an error is a delta with facts that no store takes, of which nothing was taken.
func (r *Replica) Receive(from gmg.NodeID, m Message, nowNs int64) (Effects, error) {
	if from == r.self {
		return Effects{}, nil
	}
	r.noteLink(from, &m, nowNs)
	switch m.Kind {
	case KindDelta:
		return r.merge(from, &m, nowNs)
	case KindSync:
		r.answerSync(from, &m)
	case KindWant:
		r.answerWant(from, &m)
	case KindConfirm:
		if at := r.point(from); at.Incarnation == m.Point.Incarnation && at.Seq >= m.Point.Seq {
			r.send(from, Message{Kind: KindKept, Point: at})
		} else {
			r.send(from, Message{Kind: KindWant, Vector: gmg.Vector{from: at}})
		}
	case KindKept:
		if old := r.kept[from]; old.Before(m.Point) {
			r.kept[from] = m.Point
		}
	default:
		return Effects{}, fmt.Errorf("%w: kind %d", ErrMessage, m.Kind)
	}
	return Effects{}, nil
}

// noteLink keeps track of who is linked with this node in the tree.
func (r *Replica) noteLink(from gmg.NodeID, m *Message, nowNs int64) {
	if m.has(flagChild) {
		r.children[from] = nowNs + childNs
		if m.Kind == KindWant {
			r.send(from, Message{Kind: KindWant, Flags: flagParent})
		}
	}
	if m.has(flagParent) && from == r.parent {
		r.linked, r.tries, r.linkAtNs = true, 0, nowNs+refreshNs
	}
}

func (r *Replica) merge(from gmg.NodeID, m *Message, nowNs int64) (Effects, error) {
	before := r.store.Snapshot()
	merged, err := r.store.Merge(m.Delta)
	if err != nil {
		return Effects{}, fmt.Errorf("delta from %s: %w", from, err)
	}
	news := len(merged.Changed) > 0 || len(merged.Gaps) > 0 || merged.Reincarnated || isReminder(&m.Delta)
	for _, s := range m.Delta.Spans {
		news = news || before.Point(s.Owner).Before(gmg.Point{Incarnation: s.Incarnation, Seq: s.Through})
	}
	for _, g := range merged.Gaps {
		r.noteGap(from, g, nowNs)
	}
	for owner, g := range r.gaps {
		if !r.point(owner).Before(g.after) {
			delete(r.gaps, owner)
		}
	}
	if news && m.Hops < maxHops {
		r.enqueue(queued{delta: m.Delta, except: from, hops: m.Hops + 1}, nowNs)
	}
	r.Wrote(nowNs) // a reincarnation has rewritten this node's facts
	e := Effects{Changed: merged.Changed, Lost: merged.Lost, Reincarnated: merged.Reincarnated}
	for i := range m.Delta.Facts {
		if f := &m.Delta.Facts[i]; f.Key.Kind.Shared() {
			e.Shared = append(e.Shared, *f)
		}
	}
	return e, nil
}

// isReminder says whether a delta tells where histories end; it is passed on although it changes nothing here, since the next node may have missed the end.
func isReminder(d *gmg.Delta) bool {
	return len(d.Facts) == 0 && slices.ContainsFunc(d.Spans, func(s gmg.Span) bool { return s.After == s.Through && s.After > 0 })
}

func (r *Replica) noteGap(from gmg.NodeID, g gmg.Gap, nowNs int64) {
	old := r.gaps[g.Owner]
	if old == nil {
		r.gaps[g.Owner] = &gap{after: g.After, from: from, dueNs: nowNs + gapNs}
	} else if old.after.Before(g.After) {
		old.after, old.from = g.After, from
	}
}

// ask tries to have a hole filled: by whom the delta came from, then the owner, then anybody.
func (r *Replica) ask(owner gmg.NodeID, g *gap, nowNs int64) {
	if !r.point(owner).Before(g.after) || len(r.members) == 0 {
		delete(r.gaps, owner)
		return
	}
	to := r.members[r.rng.IntN(len(r.members))]
	switch {
	case g.tries == 0 && r.alive(g.from):
		to = g.from
	case g.tries <= 1 && r.alive(owner):
		to = owner
	}
	r.send(to, Message{Kind: KindWant, Vector: gmg.Vector{owner: r.point(owner)}})
	g.dueNs = nowNs + min(gapMaxNs, int64(50_000_000)<<min(g.tries, 6))
	g.tries++
}

// answerSync sends what the other lacks, and asks for what it has more of.
func (r *Replica) answerSync(from gmg.NodeID, m *Message) {
	s := r.store.Snapshot()
	mine := s.Vector()
	ahead, behind, differ := false, false, m.Digest != s.Digest()
	for owner, p := range mine {
		ahead = ahead || m.Vector[owner].Before(p)
	}
	for owner, p := range m.Vector {
		behind = behind || mine[owner].Before(p)
	}
	if ahead || differ {
		d := s.DeltaSince(m.Vector)
		if d.Empty() && !behind {
			d = s.DeltaSince(nil) // equal histories with unlike facts
		}
		if !d.Empty() {
			r.send(from, Message{Kind: KindDelta, Delta: d})
		}
	}
	var flags uint8
	if m.has(flagChild) {
		flags = flagParent
	}
	if m.has(flagReply) && (behind || differ) {
		r.send(from, Message{Kind: KindSync, Vector: mine, Digest: s.Digest(), Flags: flags})
	} else if flags != 0 {
		r.send(from, Message{Kind: KindWant, Flags: flags})
	}
}

// answerWant sends what the other lacks of the owners that it names.
func (r *Replica) answerWant(from gmg.NodeID, m *Message) {
	if len(m.Vector) == 0 {
		return
	}
	s := r.store.Snapshot()
	v := s.Vector()
	for owner, p := range m.Vector {
		if _, known := v[owner]; known {
			v[owner] = p
		}
	}
	d := s.DeltaSince(v)
	d.Facts = slices.DeleteFunc(d.Facts, func(f gmg.Fact) bool {
		_, asked := m.Vector[f.Version.Owner]
		return !asked
	})
	if !d.Empty() {
		r.send(from, Message{Kind: KindDelta, Delta: d})
	}
}

// Confirm begins to ask all members whether they keep this node's facts as they are now; Confirmed tells the answer.
func (r *Replica) Confirm(nowNs int64) (seq uint64) {
	r.confirming = r.point(r.self).Seq
	r.flush() // what is asked about goes first
	r.askKept(nowNs)
	return r.confirming
}

// Confirmed says whether all members keep this node's facts up to a sequence number of its present incarnation. A member that dies is waited for no longer, one that
// comes is.
func (r *Replica) Confirmed(seq uint64) bool {
	want := gmg.Point{Incarnation: r.store.Incarnation(), Seq: seq}
	return !slices.ContainsFunc(r.members, func(n gmg.NodeID) bool { return r.kept[n].Before(want) })
}

func (r *Replica) askKept(nowNs int64) {
	r.confirmNs = never
	if r.Confirmed(r.confirming) {
		return
	}
	want := gmg.Point{Incarnation: r.store.Incarnation(), Seq: r.confirming}
	for _, n := range r.members {
		if r.kept[n].Before(want) {
			r.send(n, Message{Kind: KindConfirm, Point: want})
		}
	}
	r.confirmNs = nowNs + confirmNs
}
