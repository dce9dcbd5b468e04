package gmg

// Merge takes in other nodes' facts. Facts that are known, superseded or of a dead incarnation change nothing, so deltas may come twice and in any order.
// Malformed facts and spans are an error before anything is taken in.
func (s *Store) Merge(d Delta) (Merged, error) {
	for i := range d.Facts {
		if err := d.Facts[i].Validate(); err != nil {
			return Merged{}, err
		}
	}
	for _, span := range d.Spans {
		if err := span.Validate(); err != nil {
			return Merged{}, err
		}
	}
	var m Merged
	if life, reborn := s.ownLife(d); reborn {
		if err := s.Reincarnate(life + 1); err != nil {
			return Merged{}, err
		}
		m.Reincarnated = true
	}
	changed := make(map[Key]struct{})
	for i := range d.Facts {
		f := d.Facts[i]
		s.raise(f.Version.Owner, f.Version.Incarnation, changed)
		if s.take(&f) {
			changed[f.Key] = struct{}{}
		}
	}
	for _, span := range d.Spans {
		s.raise(span.Owner, span.Incarnation, changed)
		if gap, open := s.advance(span); open {
			m.Gaps = append(m.Gaps, gap)
		}
	}
	m.Changed = sortedKeys(changed)
	for _, k := range m.Changed {
		mine, ok := s.facts.get(register{k, s.self})
		if ok && !mine.Deleted && visible(&s.facts, k) != mine {
			m.Lost = append(m.Lost, k)
		}
	}
	s.checkInvariants()
	return m, nil
}

// ownLife returns the highest incarnation of this node in a delta, and whether it is one that this store didn't write.
func (s *Store) ownLife(d Delta) (incarnation uint64, reborn bool) {
	see := func(p Point) {
		if (Point{s.incarnation, s.seq}).Before(p) {
			incarnation, reborn = max(incarnation, p.Incarnation), true
		}
	}
	for i := range d.Facts {
		if v := d.Facts[i].Version; v.Owner == s.self {
			see(Point{v.Incarnation, v.Seq})
		}
	}
	for _, span := range d.Spans {
		if span.Owner == s.self {
			see(Point{span.Incarnation, span.Through})
		}
	}
	return incarnation, reborn
}

// take stores another node's fact if it counts and is news.
func (s *Store) take(f *Fact) bool {
	shared := f.Key.Kind.Shared()
	if shared {
		s.clock.Observe(f.Stamp)
	} else if p, _ := s.vector.get(f.Version.Owner); f.Version.Incarnation < p.Incarnation {
		return false
	}
	old, ok := s.facts.get(registerOf(f))
	if ok && !f.supersedes(old) {
		return false
	}
	s.replace(f)
	return !ok || !shared || f.Stamp != old.Stamp
}

// advance moves the owner's point to a span's end if the span joins what is known, else returns the gap.
func (s *Store) advance(span Span) (Gap, bool) {
	have, _ := s.vector.get(span.Owner)
	if span.Incarnation < have.Incarnation || span.Through <= have.Seq {
		return Gap{}, false
	}
	if span.After > have.Seq {
		return Gap{Owner: span.Owner, Have: have, After: Point{span.Incarnation, span.After}}, true
	}
	s.vector.put(span.Owner, Point{span.Incarnation, span.Through})
	s.snapshot = nil
	return Gap{}, false
}

// visible returns the fact of a key that counts, which may be a tombstone, or nil.
func visible(facts *tree[register, *Fact], key Key) *Fact {
	var best *Fact
	facts.ascend(register{key: key}, func(r register, f *Fact) bool {
		if r.key != key {
			return false
		}
		if best == nil || f.outranks(best) {
			best = f
		}
		return true
	})
	return best
}
