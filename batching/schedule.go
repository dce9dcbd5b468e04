package batching

import (
	"fmt"
	"slices"
)

// Schedule fills step with what to compute next and returns true, or returns false when there is nothing to compute now. First every running
// sequence gets its tokens, in order of rank, as long as the budget of MaxBatchTokens lasts; where the pool runs dry the sequence of the highest
// rank is preempted. Then waiting requests are admitted, unless something was preempted.
func (s *Scheduler) Schedule(nowNs int64, step *Step) bool {
	step.Items, step.Preempted, step.Tokens = step.Items[:0], append(step.Preempted[:0], s.pushed...), 0
	if len(s.flight) >= s.config.InFlight {
		return false
	}
	s.pushed = s.pushed[:0]
	prompts := false
	if s.config.Separate == 0 {
		s.form(nowNs, step, anyWork, s.config.MaxBatchTokens)
	} else {
		prompts = s.formSeparate(nowNs, step)
	}
	if len(step.Items) == 0 {
		s.pushed = append(s.pushed, step.Preempted...)
		s.checkInvariants()
		return false
	}
	s.stepID++
	step.ID = s.stepID
	s.flight = append(s.flight, step.ID)
	if prompts {
		s.prefills = append(s.prefills, step.ID)
	}
	s.checkInvariants()
	return true
}

// work says what a step may hold.
type work uint8

const (
	anyWork work = iota
	decodeWork
	promptWork
)

// form fills a step with one kind of work, running sequences first.
func (s *Scheduler) form(nowNs int64, step *Step, kind work, items int) {
	preempted := len(step.Preempted)
	s.scheduleRunning(nowNs, step, kind, items)
	if kind != decodeWork && len(step.Preempted) == preempted && s.waiting.len() > 0 {
		s.scheduleWaiting(nowNs, step)
	}
}

// formSeparate fills a step with decodes, or with prompts if there are none or enough steps of decodes are in flight. It says whether it is one of prompts.
func (s *Scheduler) formSeparate(nowNs int64, step *Step) bool {
	if len(s.flight)-len(s.prefills) < min(s.config.MicroBatches, s.config.InFlight-s.config.Separate) {
		decoding := 0
		for i := range s.running.len() {
			if q := &s.seqs[s.running.at(i)]; !q.isPrompt() {
				decoding++
			}
		}
		s.form(nowNs, step, decodeWork, (decoding+s.config.MicroBatches-1)/s.config.MicroBatches)
		if len(step.Items) > 0 {
			return false
		}
	}
	if len(s.prefills) >= s.config.Separate {
		return false
	}
	s.form(nowNs, step, promptWork, s.config.MaxBatchTokens)
	return true
}

// isPrompt says whether a sequence has more to compute than its newest token.
func (q *sequence) isPrompt() bool { return q.computed < q.prompt || q.tokens+q.pending-q.computed > 1 }

func (s *Scheduler) scheduleRunning(nowNs int64, step *Step, kind work, items int) {
	for i := 0; i < s.running.len() && step.Tokens < s.config.MaxBatchTokens && len(step.Items) < items; i++ {
		slot := s.running.at(i)
		q := &s.seqs[slot]
		if kind != anyWork && q.isPrompt() != (kind == promptWork) {
			continue
		}
		n := s.wanted(q)
		if n = min(n, s.config.MaxBatchTokens-step.Tokens); n <= 0 {
			continue
		}
		need := 0
		if end := int(q.computed) + n; end > int(q.held)*s.config.BlockTokens {
			need = s.pagesFor(end) - int(q.held)
		}
		for need > s.pool.available() {
			victim, ok := s.victim(i)
			if !ok {
				need = -1
				break
			}
			v := s.running.at(victim)
			s.preempt(nowNs, victim, step)
			if v == slot {
				return // nothing of a higher rank is left, so nobody behind it runs either
			}
			if victim < i {
				i--
			}
		}
		if need >= 0 {
			s.place(slot, n, need, 0, step)
		}
	}
}

// wanted returns how many tokens of a running sequence may be scheduled now, the budget aside.
func (s *Scheduler) wanted(q *sequence) int {
	if q.paused || q.tokens+q.pending >= q.limit {
		return 0
	}
	switch s.config.Overlap {
	case OverlapNone:
		if q.inFlight > 0 {
			return 0
		}
	case OverlapPrefill:
		if q.pending > 0 {
			return 0
		}
	}
	return min(int(q.tokens+q.pending-q.computed), s.config.MaxChunkTokens)
}

// victim returns the position of the running sequence to preempt for the one at position i: a paused one if there is any, else the last. Pages that a
// step in flight uses can only be taken when steps run strictly one after the other, and so the sequences of this step come before i.
func (s *Scheduler) victim(i int) (int, bool) {
	if s.paused > 0 {
		for j := s.running.len() - 1; j >= 0; j-- {
			if q := &s.seqs[s.running.at(j)]; q.paused && q.inFlight == 0 {
				return j, true
			}
		}
	}
	last := s.running.len() - 1
	for j := last; j > i; j-- {
		if q := &s.seqs[s.running.at(j)]; q.inFlight == 0 || s.config.Overlap == OverlapAll {
			return j, true
		}
	}
	// It gives way itself only when nobody of a higher rank is left; those in flight can be preempted once their step completes.
	return i, i == last
}

// preempt takes the pages of the running sequence at a position and lets it wait, to be recomputed.
func (s *Scheduler) preempt(nowNs int64, position int, step *Step) {
	slot := s.running.at(position)
	q := &s.seqs[slot]
	s.running.removeAt(position)
	s.releasePages(q)
	q.computed, q.landed, q.state, q.waitNs = 0, 0, stateWaiting, nowNs
	if s.config.Order == OrderStrict {
		s.fronted--
		q.rank.seq = s.fronted
	}
	s.waiting.insert(s.seqs, slot)
	s.stats.Preemptions++
	step.Preempted = append(step.Preempted, q.id)
}

func (s *Scheduler) scheduleWaiting(nowNs int64, step *Step) {
	tries := s.config.LookAhead
	if s.config.Order == OrderStrict {
		tries = 1
	}
	for i := 0; i < s.waiting.len() && tries > 0; {
		if step.Tokens >= s.config.MaxBatchTokens || s.running.len()+s.arriving >= s.config.MaxSequences {
			return
		}
		slot := s.waiting.at(i)
		q := &s.seqs[slot]
		if q.paused || q.pending > 0 {
			i++ // a token that is still in flight would be computed twice
			continue
		}
		if s.admit(i, slot, step) {
			continue
		}
		if s.config.Order == OrderAged && nowNs-q.waitNs >= s.config.AgeNs {
			// It has waited long enough: what becomes free is kept for it, and who isn't read by a client makes room.
			if !s.evictPaused(nowNs, step) {
				return
			}
			i = s.waiting.search(s.seqs, q.rank)
			continue
		}
		tries--
		i++
	}
}

// evictPaused preempts one paused sequence, if there is any.
func (s *Scheduler) evictPaused(nowNs int64, step *Step) bool {
	if s.paused == 0 {
		return false
	}
	for j := s.running.len() - 1; j >= 0; j-- {
		if q := &s.seqs[s.running.at(j)]; q.paused && q.inFlight == 0 {
			s.preempt(nowNs, j, step)
			return true
		}
	}
	return false
}

// admit moves the waiting sequence at a position into the running ones if its pages can be had, finding as much of its prefix as it can in the cache.
func (s *Scheduler) admit(position int, slot int32, step *Step) bool {
	q := &s.seqs[slot]
	hits, n, need, ok := s.fits(q, s.config.MaxBatchTokens-step.Tokens)
	if !ok {
		return false
	}
	cached := hits * s.config.BlockTokens
	s.waiting.removeAt(position)
	q.state = stateRunning
	if s.config.Order == OrderStrict {
		s.arrived++
		q.rank.seq = s.arrived // who was preempted runs behind everybody else
	}
	s.running.insert(s.seqs, slot)
	if !s.config.CountOnly {
		q.pages = s.newTable()
	}
	for i := range hits {
		page := s.pool.find(q.blocks[i])
		s.pool.share(page)
		q.pages = append(q.pages, page)
	}
	q.computed, q.landed, q.held, q.sealed = int32(cached), 0, int32(hits), int32(hits)
	if !q.counted {
		q.counted = true
		s.stats.PromptTokens += int64(q.prompt)
		s.stats.CachedTokens += int64(min(cached, int(q.prompt)))
	}
	s.place(slot, n, need, cached, step)
	return true
}

// fits says whether a waiting sequence could be admitted into a budget of tokens now: with how many pages from the cache, how many tokens and how many
// new pages.
func (s *Scheduler) fits(q *sequence, budget int) (hits, n, need int, ok bool) {
	hits, idle := s.findPrefix(q)
	cached := hits * s.config.BlockTokens
	n = min(int(q.tokens)-cached, s.config.MaxChunkTokens, budget)
	need = s.pagesFor(cached+n) - hits
	whole := need
	if s.config.AdmitWhole {
		whole = s.pagesFor(int(q.tokens)) - hits
	}
	if s.running.len() > 0 {
		whole += s.config.Watermark
	}
	// Pages of the prefix that nobody holds leave the free ones as well.
	return hits, n, need, whole+idle <= s.pool.available()
}

// findPrefix returns how many leading pages are in the cache, and how many of these nobody holds. The last token is always computed, since its logits
// are wanted.
func (s *Scheduler) findPrefix(q *sequence) (hits, idle int) {
	if !s.config.PrefixReuse {
		return 0, 0
	}
	limit := min((int(q.tokens)-1)/s.config.BlockTokens, len(q.blocks))
	for hits < limit && q.blocks[hits] != (BlockHash{}) {
		page := s.pool.find(q.blocks[hits])
		if page < 0 {
			break
		}
		if s.pool.refs[page] == 0 {
			idle++
		}
		hits++
	}
	return hits, idle
}

func (s *Scheduler) newTable() []int32 {
	if n := len(s.tables); n > 0 {
		t := s.tables[n-1]
		s.tables = s.tables[:n-1]
		return t
	}
	return make([]int32, 0, 16)
}

// place adds n tokens of a running sequence to the step, with `need` new pages.
func (s *Scheduler) place(slot int32, n, need, cached int, step *Step) {
	q := &s.seqs[slot]
	if need > 0 {
		s.grow(q, need)
	}
	sample := q.computed+int32(n) == q.tokens+q.pending
	it := step.item()
	it.ID, it.Start, it.Tokens, it.Sample, it.Cached, it.Blocks, it.slot = q.id, int(q.computed), n, sample, cached, q.pages, slot
	step.Tokens += n
	q.computed += int32(n)
	q.inFlight++
	s.airborne++
	if sample {
		q.pending++
	}
	if (q.sealed+1)*int32(s.config.BlockTokens) <= q.computed {
		s.seal(q, min(q.computed, q.tokens))
	}
}

// grow gives a sequence more pages; the caller has checked that they are available.
func (s *Scheduler) grow(q *sequence, pages int) {
	q.held += int32(pages)
	if s.config.CountOnly {
		s.pool.free -= int32(pages)
		return
	}
	for range pages {
		q.pages = append(q.pages, s.pool.take())
	}
}

// seal offers full pages up to a position to the prefix cache, as far as their hashes are known. Pages are shared from the moment they are scheduled:
// a later row of the same step, or a later step, reads them after they were written.
func (s *Scheduler) seal(q *sequence, upTo int32) {
	if !s.config.PrefixReuse || upTo < (q.sealed+1)*int32(s.config.BlockTokens) {
		return
	}
	full := min(upTo/int32(s.config.BlockTokens), int32(len(q.blocks)), int32(len(q.pages)))
	for ; q.sealed < full; q.sealed++ {
		if h := q.blocks[q.sealed]; h != (BlockHash{}) {
			s.pool.remember(q.pages[q.sealed], h)
		}
	}
}

// Complete says that a step's tokens were computed and, where Sample is set, one token sampled. Steps complete in the order they were scheduled, those of
// Config.Separate in any.
func (s *Scheduler) Complete(step *Step) error {
	at := slices.Index(s.flight, step.ID)
	if at < 0 || at > 0 && s.config.Separate == 0 {
		return fmt.Errorf("%w, or not the first of them: %d", ErrStep, step.ID)
	}
	s.flight = append(s.flight[:at], s.flight[at+1:]...)
	if k := slices.Index(s.prefills, step.ID); k >= 0 {
		s.prefills = append(s.prefills[:k], s.prefills[k+1:]...)
	}
	s.airborne -= len(step.Items)
	for i := range step.Items {
		it := &step.Items[i]
		q := &s.seqs[it.slot]
		q.inFlight--
		q.landed = min(q.computed, max(q.landed, int32(it.Start+it.Tokens)))
		if it.Sample {
			q.pending--
			q.tokens++
		}
		if q.state == stateLeaving && q.inFlight == 0 {
			s.drop(it.slot)
		} else if it.Sample && q.state == stateRunning && (q.sealed+1)*int32(s.config.BlockTokens) <= q.computed-q.pending {
			s.seal(q, q.computed-q.pending)
		}
	}
	s.checkInvariants()
	return nil
}
