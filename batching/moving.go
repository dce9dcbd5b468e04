package batching

import "fmt"

// This file is what moving KV needs of a scheduler: pages that stay while they are copied, and sequences that hold pages before they run.

// Pages returns the page table of a sequence, nil while it holds no pages. It is lent until the next call that changes the scheduler.
func (s *Scheduler) Pages(id SeqID) []int32 {
	slot, err := s.lookup(id)
	if err != nil {
		return nil
	}
	return s.seqs[slot].pages
}

// LandedTokens returns how many leading tokens of a sequence are known to be in its pages, because a step of its own has completed there: 0 before. What lies
// before them never changes.
func (s *Scheduler) LandedTokens(id SeqID) int {
	slot, err := s.lookup(id)
	if err != nil {
		return 0
	}
	return int(s.seqs[slot].landed)
}

// CachedPages appends the pages that nobody holds but whose content can be reused.
func (s *Scheduler) CachedPages(pages []int32) []int32 {
	p := &s.pool
	for l := range int32(numLists) {
		for page := p.next[p.size+l]; page < p.size; page = p.next[page] {
			if p.isCached(page) {
				pages = append(pages, page)
			}
		}
	}
	return pages
}

// Pin keeps pages that are held, or free with content, from being given to others until Unpin: somebody reads them outside of steps. The pages of running
// sequences go on being written by these.
func (s *Scheduler) Pin(pages []int32) {
	for _, page := range pages {
		s.pool.share(page)
		s.pinned = append(s.pinned, page)
	}
	s.checkInvariants()
}

// Unpin undoes a Pin of the same pages.
func (s *Scheduler) Unpin(pages []int32) {
	for _, page := range pages {
		for i, p := range s.pinned {
			if p == page {
				last := len(s.pinned) - 1
				s.pinned[i], s.pinned = s.pinned[last], s.pinned[:last]
				s.pool.release(page)
				break
			}
		}
	}
	s.checkInvariants()
}

// Expect takes in a sequence that is on its way from another scheduler, with pages for its first `tokens` tokens: it holds them and a place among the
// running ones, and isn't scheduled until Land. It returns how many leading pages have the right content already. ErrQueueFull when pages or a place are
// missing. Cancel gives all back.
func (s *Scheduler) Expect(r Request, tokens int) (cached int, err error) {
	if err := s.Fits(r.PromptTokens, r.MaxTokens); err != nil {
		return 0, err
	}
	if _, ok := s.slotOf[r.ID]; ok {
		return 0, fmt.Errorf("%w: %d", ErrDuplicate, r.ID)
	}
	if s.config.CountOnly {
		return 0, fmt.Errorf("%w: pages that are only counted have no content", ErrConfig)
	}
	probe := sequence{tokens: int32(tokens), blocks: r.Blocks}
	hits, idle := s.findPrefix(&probe)
	need := s.pagesFor(tokens) - hits
	if s.running.len()+s.arriving >= s.config.MaxSequences || need+idle > s.pool.available() {
		return 0, fmt.Errorf("%w: %d sequences run, %d pages of %d needed are free", ErrQueueFull, s.running.len()+s.arriving, s.pool.available(), need+idle)
	}
	slot := s.enter(r)
	q := &s.seqs[slot]
	q.state, q.counted = stateArriving, true
	q.pages = s.newTable()
	for i := range hits {
		page := s.pool.find(q.blocks[i])
		s.pool.share(page)
		q.pages = append(q.pages, page)
	}
	q.held, q.sealed = int32(hits), int32(hits)
	s.grow(q, need)
	s.arriving++
	s.checkInvariants()
	return hits, nil
}

// Widen gives an expected sequence pages for its first `tokens` tokens.
func (s *Scheduler) Widen(id SeqID, tokens int) error {
	q, err := s.expected(id)
	if err != nil {
		return err
	}
	need := s.pagesFor(tokens) - int(q.held)
	if need > s.pool.available() {
		return fmt.Errorf("%w: %d pages of %d needed are free", ErrQueueFull, s.pool.available(), need)
	}
	if need > 0 {
		s.grow(q, need)
	}
	s.checkInvariants()
	return nil
}

// Land lets an expected sequence run: it has `tokens` tokens of prompt and answer, all but the last of them in its pages, and decodes next.
func (s *Scheduler) Land(id SeqID, tokens int) error {
	q, err := s.expected(id)
	if err != nil {
		return err
	}
	if tokens < 1 || int32(tokens) >= q.limit || s.pagesFor(tokens-1) > int(q.held) {
		return fmt.Errorf("%w: %d tokens of at most %d in %d pages", ErrRequest, tokens, q.limit-1, q.held)
	}
	q.tokens, q.computed, q.state = int32(tokens), int32(tokens-1), stateRunning
	s.arriving--
	s.running.insert(s.seqs, s.slotOf[id])
	s.seal(q, q.computed)
	s.checkInvariants()
	return nil
}

func (s *Scheduler) expected(id SeqID) (*sequence, error) {
	slot, err := s.lookup(id)
	if err != nil {
		return nil, err
	}
	q := &s.seqs[slot]
	if q.state != stateArriving {
		return nil, fmt.Errorf("%w: %d isn't expected", ErrUnknown, id)
	}
	return q, nil
}

// SetPipeline changes how many steps may be in flight and how they overlap. It needs all steps completed (ErrStep).
func (s *Scheduler) SetPipeline(inFlight int, overlap Overlap) error {
	c := s.config
	c.InFlight, c.Overlap = inFlight, overlap
	if err := c.Validate(); err != nil {
		return err
	}
	if len(s.flight) > 0 {
		return fmt.Errorf("%w: %d steps are in flight, complete them before the pipeline changes", ErrStep, len(s.flight))
	}
	s.config = c.withDefaults()
	return nil
}
