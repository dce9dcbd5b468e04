package batching

// Steady returns how many more steps, at most limit, would each hold exactly the running sequences with one token each, so that a simulator can jump over
// them: everything decodes, nothing can be admitted, no sequence reaches its last token and the pool lasts. It is meant to be called while as many
// steps are in flight as ever are.
func (s *Scheduler) Steady(limit int) int {
	n := s.running.len()
	if n == 0 || s.config.Separate > 0 || len(s.flight) == 0 || len(s.pushed) > 0 || s.paused > 0 || s.airborne != n*len(s.flight) || n > s.config.MaxBatchTokens {
		return 0
	}
	for i := range n {
		q := &s.seqs[s.running.at(i)]
		known := q.tokens + q.pending
		if int(q.inFlight) != len(s.flight) || int(q.pending) != len(s.flight) || known-q.computed != 1 {
			return 0
		}
		limit = min(limit, int(q.limit-known))
	}
	for limit > 0 && s.pagesAfter(limit) > s.pool.available() {
		limit /= 2
	}
	if limit <= 0 || n < s.config.MaxSequences && n < s.config.MaxBatchTokens && !s.shut(limit) {
		return 0
	}
	return limit
}

// shut says whether no waiting request can be admitted during the next steps. Pages only become fewer meanwhile, so who can't be placed now can't be
// later, unless a page that is filled meanwhile is the one that its prefix lacks.
func (s *Scheduler) shut(steps int) bool {
	tries := s.config.LookAhead
	if s.config.Order == OrderStrict {
		tries = 1
	}
	for i := 0; i < s.waiting.len() && i < tries; i++ {
		q := &s.seqs[s.waiting.at(i)]
		hits, _, _, ok := s.fits(q, s.config.MaxBatchTokens-s.running.len())
		if ok || q.pending > 0 || s.willSeal(q, hits, steps) {
			return false
		}
	}
	return true
}

// willSeal says whether a running sequence fills the page that a waiting one would find next in the cache.
func (s *Scheduler) willSeal(waiting *sequence, hits, steps int) bool {
	if !s.config.PrefixReuse || hits >= len(waiting.blocks) || waiting.blocks[hits] == (BlockHash{}) {
		return false
	}
	for i := range s.running.len() {
		q := &s.seqs[s.running.at(i)]
		last := min((int(q.computed)+steps)/s.config.BlockTokens, len(q.blocks)-1)
		for k := int(q.sealed); k <= last; k++ {
			if q.blocks[k] == waiting.blocks[hits] {
				return true
			}
		}
	}
	return false
}

// pagesAfter returns the new pages that k more tokens of every running sequence need.
func (s *Scheduler) pagesAfter(k int) int {
	need := 0
	for i := range s.running.len() {
		q := &s.seqs[s.running.at(i)]
		need += s.pagesFor(int(q.computed)+k) - int(q.held)
	}
	return need
}

// Leap does what k times Complete of the oldest step and Schedule of a new one would do, for k up to what Steady returned. The steps in flight, which
// must hold single tokens only, are given
// in order and become the ones that are in flight k steps later.
func (s *Scheduler) Leap(k int, steps ...*Step) {
	n := s.running.len()
	if s.config.CountOnly {
		for i := range n {
			q := &s.seqs[s.running.at(i)]
			q.tokens, q.computed = q.tokens+int32(k), q.computed+int32(k)
			s.grow(q, s.pagesFor(int(q.computed))-int(q.held))
		}
	} else {
		for range k {
			s.leapOne(n)
		}
	}
	s.stepID += uint64(k)
	for i := range s.flight {
		s.flight[i] += uint64(k)
	}
	for _, step := range steps {
		step.ID += uint64(k)
		step.Preempted = step.Preempted[:0]
		for i := range step.Items {
			it := &step.Items[i]
			it.Start += k
			it.Cached = 0
			it.Blocks = s.seqs[it.slot].pages[:min(len(s.seqs[it.slot].pages), s.pagesFor(it.Start+1))]
		}
	}
	s.checkInvariants()
}

// leapOne is one step of Leap in the order in which Complete and Schedule touch the pool.
func (s *Scheduler) leapOne(n int) {
	page := int32(s.config.BlockTokens)
	for i := range n {
		q := &s.seqs[s.running.at(i)]
		q.tokens++
		if (q.computed-q.pending+1)/page > q.sealed {
			s.seal(q, q.computed-q.pending+1)
		}
	}
	for i := range n {
		q := &s.seqs[s.running.at(i)]
		if q.computed++; q.computed > q.held*page {
			s.grow(q, 1)
		}
		if q.computed/page > q.sealed {
			s.seal(q, min(q.computed, q.tokens))
		}
	}
}

// Slot returns a small number that no other live sequence has, for callers that keep arrays of their own.
func (it *Item) Slot() int { return int(it.slot) }

// SlotOf returns the slot of a live sequence, or -1.
func (s *Scheduler) SlotOf(id SeqID) int {
	if slot, ok := s.slotOf[id]; ok {
		return int(slot)
	}
	return -1
}
