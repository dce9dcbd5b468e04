//go:build invariants

package batching

import "fmt"

// checkInvariants panics when the books don't balance: free + held + cached pages are the pool, no page is held by more sequences than refer to it, and
// no sequence has computed more than it has tokens or pages for.
//
// Of large pools only one call in 256 is checked.
func (s *Scheduler) checkInvariants() {
	if s.config.KVBlocks > 1024 && (s.stepID+uint64(s.arrived))%256 != 0 {
		return
	}
	held := 0
	var refs []int32
	if !s.config.CountOnly {
		refs = make([]int32, s.config.KVBlocks)
	}
	for i := range s.seqs {
		q := &s.seqs[i]
		if q.state == stateFree {
			continue
		}
		assert(q.state != stateWaiting || q.held == 0, "waiting sequence %d holds %d pages", q.id, q.held)
		assert(q.computed <= q.tokens+q.pending, "sequence %d computed %d of %d+%d tokens", q.id, q.computed, q.tokens, q.pending)
		assert(q.tokens+q.pending <= q.limit, "sequence %d has %d+%d tokens of %d", q.id, q.tokens, q.pending, q.limit)
		assert(int(q.held)*s.config.BlockTokens >= int(q.computed), "sequence %d computed %d tokens in %d pages", q.id, q.computed, q.held)
		assert(s.config.CountOnly || int(q.held) == len(q.pages), "sequence %d holds %d pages, lists %d", q.id, q.held, len(q.pages))
		held += int(q.held)
		for _, page := range q.pages {
			refs[page]++
		}
	}
	p := &s.pool
	if s.config.CountOnly {
		assert(held+int(p.free) == int(p.size), "%d pages held and %d free of %d", held, p.free, p.size)
		return
	}
	owners := append([]int32(nil), refs...)
	for _, page := range s.pinned {
		refs[page]++
	}
	distinct := 0
	for page, n := range refs {
		assert(n == p.refs[page], "page %d has %d owners, counted %d", page, n, p.refs[page])
		if n > 0 {
			distinct++
		}
		if owners[page] > 1 {
			assert(p.isCached(int32(page)), "page %d without known content has %d owners", page, n)
		}
	}
	assert(distinct+p.available() == s.config.KVBlocks, "%d pages held, %d free and %d cached of %d", distinct, p.free, p.cached, s.config.KVBlocks)
	listed := 0
	for l := range int32(numLists) {
		for page := p.next[p.size+l]; page < p.size; page = p.next[page] {
			assert(p.refs[page] == 0, "page %d is free and held", page)
			listed++
		}
	}
	assert(listed == p.available(), "%d pages on the lists, %d counted", listed, p.available())
	assert(s.running.len()+s.arriving <= s.ceiling, "%d sequences run and %d arrive of %d", s.running.len(), s.arriving, s.ceiling)
}

func assert(ok bool, format string, args ...any) {
	if !ok {
		panic("batching: " + fmt.Sprintf(format, args...))
	}
}
