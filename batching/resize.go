package batching

import "fmt"

// Resize changes the pool to kvBlocks pages. Growing always succeeds. Shrinking gives up the pages from kvBlocks on: their cached content is dropped and
// running sequences that hold one are preempted, to be reported by the next Schedule; it needs all steps completed (ErrStep). Requests that no longer
// fit anywhere are returned; they wait for ever unless the caller cancels them.
func (s *Scheduler) Resize(nowNs int64, kvBlocks int) (stranded []SeqID, err error) {
	c := s.config
	c.KVBlocks = kvBlocks
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if kvBlocks < s.config.KVBlocks {
		if len(s.flight) > 0 {
			return nil, fmt.Errorf("%w: %d steps are in flight, complete them before the pool shrinks", ErrStep, len(s.flight))
		}
		s.vacate(nowNs, int32(kvBlocks))
	}
	s.pool.resize(int32(kvBlocks), s.config.CountOnly)
	s.config.KVBlocks = kvBlocks
	s.Each(func(p Progress) {
		if s.pagesFor(int(s.seqs[s.slotOf[p.ID]].limit)-1) > kvBlocks {
			stranded = append(stranded, p.ID)
		}
	})
	s.checkInvariants()
	return stranded, nil
}

// vacate preempts running sequences, the last first, until no page from `from` on is held.
func (s *Scheduler) vacate(nowNs int64, from int32) {
	step := Step{Preempted: s.pushed}
	for j := s.running.len() - 1; j >= 0; j-- {
		q := &s.seqs[s.running.at(j)]
		hit := s.config.CountOnly && s.pool.size-s.pool.free > from
		for _, page := range q.pages {
			hit = hit || page >= from
		}
		if hit {
			s.preempt(nowNs, j, &step)
		}
	}
	s.pushed = step.Preempted
}

// resize rebuilds the lists for another number of pages, keeping the order of the free ones; pages that go must not be held.
func (p *pagePool) resize(pages int32, countOnly bool) {
	if countOnly {
		p.free += pages - p.size
		p.size = pages
		return
	}
	o := *p
	n := newPagePool(int(pages), p.table != nil, p.oneList)
	for l := range int32(numLists) {
		head := n.size + l
		n.next[head], n.prev[head] = head, head
	}
	n.free = 0
	copy(n.refs, o.refs)
	for page := range min(o.size, n.size) {
		if o.isCached(page) {
			n.remember(page, o.hashes[page])
		}
	}
	for l := range int32(numLists) {
		for page := o.next[o.size+l]; page < o.size; page = o.next[page] {
			if page < n.size {
				n.append(int(l), page)
				n.count(page)
			}
		}
	}
	for page := o.size; page < n.size; page++ {
		n.append(listPlain, page)
		n.count(page)
	}
	*p = n
}

func (p *pagePool) count(page int32) {
	if p.isCached(page) {
		p.cached++
	} else {
		p.free++
	}
}

// CopyFrom makes s equal to o, reusing s's memory; the two share nothing that changes afterwards. Forks of a simulation use it.
func (s *Scheduler) CopyFrom(o *Scheduler) {
	s.config = o.config
	if s.slotOf == nil {
		s.slotOf = make(map[SeqID]int32, len(o.slotOf))
	}
	clear(s.slotOf)
	for id, slot := range o.slotOf {
		s.slotOf[id] = slot
	}
	for i := range s.seqs {
		if t := s.seqs[i].pages; t != nil {
			s.tables = append(s.tables, t[:0])
		}
	}
	s.seqs = append(s.seqs[:0], o.seqs...)
	for i := range s.seqs {
		q := &s.seqs[i]
		q.ownHash = false
		if q.pages != nil {
			q.pages = append(s.newTable(), q.pages...)
		}
	}
	for i := range o.seqs {
		if o.seqs[i].ownHash { // the next SealBlock of either copies; copies of an unchanging scheduler may be made at the same time
			o.seqs[i].ownHash = false
		}
	}
	s.spare, s.pushed, s.flight = append(s.spare[:0], o.spare...), append(s.pushed[:0], o.pushed...), append(s.flight[:0], o.flight...)
	s.prefills = append(s.prefills[:0], o.prefills...)
	s.waiting.copyFrom(&o.waiting)
	s.running.copyFrom(&o.running)
	s.pool.copyFrom(&o.pool)
	s.pinned, s.arriving, s.ceiling = append(s.pinned[:0], o.pinned...), o.arriving, o.ceiling
	s.stepID, s.arrived, s.fronted, s.paused, s.airborne, s.stats = o.stepID, o.arrived, o.fronted, o.paused, o.airborne, o.stats
}

// Adopt takes in a sequence whose KV is already in the pool, as after a migration or when a forecast starts from a running state: it has `tokens` tokens
// of prompt and answer, all but the last of them computed, and decodes next. ErrQueueFull when its pages or a place among the running ones are missing.
func (s *Scheduler) Adopt(r Request, tokens int) error { return s.AdoptAt(r, tokens, tokens-1) }

// AdoptAt is Adopt for a sequence of whose tokens `computed` are in the pool, which may still be amid its prompt.
func (s *Scheduler) AdoptAt(r Request, tokens, computed int) error {
	if err := s.Fits(r.PromptTokens, r.MaxTokens); err != nil {
		return err
	}
	if tokens < r.PromptTokens || tokens > r.PromptTokens+r.MaxTokens {
		return fmt.Errorf("%w: %d tokens of %d prompt and at most %d answer tokens", ErrRequest, tokens, r.PromptTokens, r.MaxTokens)
	}
	if computed < 0 || computed >= tokens {
		return fmt.Errorf("%w: %d of %d tokens computed", ErrRequest, computed, tokens)
	}
	if _, ok := s.slotOf[r.ID]; ok {
		return fmt.Errorf("%w: %d", ErrDuplicate, r.ID)
	}
	need := s.pagesFor(computed)
	if s.running.len()+s.arriving >= s.config.MaxSequences || need > s.pool.available() {
		return fmt.Errorf("%w: %d sequences run, %d pages of %d needed are free", ErrQueueFull, s.running.len(), s.pool.available(), need)
	}
	slot := s.enter(r)
	q := &s.seqs[slot]
	q.tokens, q.computed, q.state, q.counted = int32(tokens), int32(computed), stateRunning, true
	if !s.config.CountOnly {
		q.pages = s.newTable()
	}
	s.grow(q, need)
	s.running.insert(s.seqs, slot)
	s.seal(q, q.computed)
	s.checkInvariants()
	return nil
}
