package batching

import "fmt"

// state says where a sequence is.
type state uint8

const (
	stateFree state = iota // the slot is unused
	stateWaiting
	stateRunning
	stateArriving // holds pages that are being filled from elsewhere
	stateLeaving  // finished or cancelled, held until the last step that uses it completes
)

// sequence is a live request. Positions count tokens of prompt and answer.
type sequence struct {
	id       SeqID
	rank     rank
	waitNs   int64 // since when it waits
	blocks   []BlockHash
	pages    []int32 // nil in Config.CountOnly
	prompt   int32
	limit    int32 // prompt plus answer at most
	tokens   int32 // known: prompt and sampled
	pending  int32 // samples of steps in flight
	computed int32 // scheduled so far
	landed   int32 // computed by steps that completed
	held     int32 // pages
	sealed   int32 // leading pages that were offered to the prefix cache
	inFlight int32 // steps
	state    state
	paused   bool
	counted  bool // in Stats.PromptTokens already
	ownHash  bool // blocks is ours to append to
}

// Scheduler forms steps for one lane. It isn't safe for concurrent use.
type Scheduler struct {
	config   Config
	seqs     []sequence
	spare    []int32 // unused slots
	slotOf   map[SeqID]int32
	waiting  queue
	running  queue
	pool     pagePool
	tables   [][]int32 // page tables of sequences that left
	pushed   []SeqID   // preempted by Resize since the last step
	flight   []uint64  // ids of steps in flight, in order
	prefills []uint64  // Config.Separate: those of prompts
	stepID   uint64
	arrived  int64 // sequence numbers handed out
	fronted  int64
	pinned   []int32 // pages, once for each pin
	arriving int
	ceiling  int // sequences that run at most, for the invariants: more than configured after Limit
	paused   int
	airborne int // items of steps in flight
	stats    Stats
}

// New returns an empty scheduler, or an ErrConfig.
func New(c Config) (*Scheduler, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	s := &Scheduler{config: c, slotOf: make(map[SeqID]int32), ceiling: c.MaxSequences}
	if c.CountOnly {
		s.pool.size, s.pool.free = int32(c.KVBlocks), int32(c.KVBlocks)
	} else {
		s.pool = newPagePool(c.KVBlocks, c.PrefixReuse, c.Order == OrderStrict)
	}
	return s, nil
}

// Config returns the configuration with defaults filled in.
func (s *Scheduler) Config() Config { return s.config }

// Contains says whether a sequence is waiting or running.
func (s *Scheduler) Contains(id SeqID) bool {
	slot, ok := s.slotOf[id]
	return ok && s.seqs[slot].state != stateLeaving
}

// Fits says whether a request of these lengths could ever be served, else ErrRequest or ErrTooLarge.
func (s *Scheduler) Fits(promptTokens, maxTokens int) error {
	c := &s.config
	if promptTokens < 1 || maxTokens < 1 {
		return fmt.Errorf("%w: %d prompt and %d answer tokens, both must be positive", ErrRequest, promptTokens, maxTokens)
	}
	if total := promptTokens + maxTokens; total > c.MaxContext {
		return fmt.Errorf("%w: %d prompt and %d answer tokens, the context holds %d", ErrTooLarge, promptTokens, maxTokens, c.MaxContext)
	}
	// The last sampled token is never computed, so it needs no room.
	if pages := s.pagesFor(promptTokens + maxTokens - 1); pages > c.KVBlocks {
		return fmt.Errorf("%w: %d prompt and %d answer tokens need %d pages, the pool has %d", ErrTooLarge, promptTokens, maxTokens, pages, c.KVBlocks)
	}
	return nil
}

// Add queues a request.
func (s *Scheduler) Add(r Request) error {
	if err := s.Fits(r.PromptTokens, r.MaxTokens); err != nil {
		return err
	}
	if _, ok := s.slotOf[r.ID]; ok {
		return fmt.Errorf("%w: %d", ErrDuplicate, r.ID)
	}
	if max := s.config.MaxQueue; max > 0 && s.waiting.len() >= max {
		return fmt.Errorf("%w: %d requests wait", ErrQueueFull, max)
	}
	slot := s.enter(r)
	s.seqs[slot].state = stateWaiting
	s.waiting.insert(s.seqs, slot)
	return nil
}

// enter gives a request a slot and a rank.
func (s *Scheduler) enter(r Request) int32 {
	slot := s.newSlot()
	s.seqs[slot] = sequence{
		id: r.ID, blocks: r.Blocks, waitNs: r.ArrivalNs,
		prompt: int32(r.PromptTokens), limit: int32(r.PromptTokens + r.MaxTokens), tokens: int32(r.PromptTokens),
	}
	q := &s.seqs[slot]
	s.arrived++
	q.rank.seq = s.arrived
	if s.config.Order == OrderAged {
		q.rank.key = r.ArrivalNs - int64(r.Priority)*s.config.AgeNs
	}
	s.slotOf[r.ID] = slot
	return slot
}

func (s *Scheduler) newSlot() int32 {
	if n := len(s.spare); n > 0 {
		slot := s.spare[n-1]
		s.spare = s.spare[:n-1]
		return slot
	}
	s.seqs = append(s.seqs, sequence{})
	return int32(len(s.seqs) - 1)
}

// Finish takes out a sequence whose answer is complete. Its pages are free at once, or when the last step in flight that uses them completes.
func (s *Scheduler) Finish(id SeqID) error { return s.leave(id) }

// Cancel takes out a sequence at any time, as Finish does.
func (s *Scheduler) Cancel(id SeqID) error { return s.leave(id) }

func (s *Scheduler) leave(id SeqID) error {
	slot, err := s.lookup(id)
	if err != nil {
		return err
	}
	q := &s.seqs[slot]
	switch q.state {
	case stateWaiting:
		s.waiting.remove(s.seqs, slot)
	case stateArriving:
		s.arriving--
	default:
		s.running.remove(s.seqs, slot)
	}
	if q.paused {
		s.paused--
	}
	q.state = stateLeaving
	if q.inFlight == 0 {
		s.drop(slot)
	}
	return nil
}

// drop frees the slot and the pages of a sequence that left.
func (s *Scheduler) drop(slot int32) {
	q := &s.seqs[slot]
	s.releasePages(q)
	delete(s.slotOf, q.id)
	q.blocks, q.state = nil, stateFree
	s.spare = append(s.spare, slot)
}

// releasePages gives back a sequence's pages, the last first: a prefix's beginning is worth more than its end, and the pool evicts in this order.
func (s *Scheduler) releasePages(q *sequence) {
	if s.config.CountOnly {
		s.pool.free += q.held
	}
	for i := len(q.pages) - 1; i >= 0; i-- {
		s.pool.release(q.pages[i])
	}
	if q.pages != nil {
		s.tables = append(s.tables, q.pages[:0])
		q.pages = nil
	}
	q.held, q.sealed = 0, 0
}

func (s *Scheduler) lookup(id SeqID) (int32, error) {
	slot, ok := s.slotOf[id]
	if !ok || s.seqs[slot].state == stateLeaving {
		return 0, fmt.Errorf("%w: %d", ErrUnknown, id)
	}
	return slot, nil
}

// Pause keeps a sequence from being scheduled, as when its client doesn't read. It keeps its pages, but is the first to be preempted.
func (s *Scheduler) Pause(id SeqID) error { return s.setPaused(id, true) }

// Resume undoes Pause.
func (s *Scheduler) Resume(id SeqID) error { return s.setPaused(id, false) }

func (s *Scheduler) setPaused(id SeqID, paused bool) error {
	slot, err := s.lookup(id)
	if err != nil {
		return err
	}
	q := &s.seqs[slot]
	if q.paused != paused {
		q.paused = paused
		if paused {
			s.paused++
		} else {
			s.paused--
		}
	}
	return nil
}

// SealBlock gives the hash of the sequence's next full page that has none, so that an answer's pages can be shared too. Request.Blocks is copied first.
func (s *Scheduler) SealBlock(id SeqID, h BlockHash) error {
	slot, err := s.lookup(id)
	if err != nil {
		return err
	}
	q := &s.seqs[slot]
	if !q.ownHash {
		q.blocks, q.ownHash = append(make([]BlockHash, 0, len(q.blocks)+4), q.blocks...), true
	}
	q.blocks = append(q.blocks, h)
	s.seal(q, q.computed-q.pending)
	return nil
}

// Stats returns counts at this moment.
func (s *Scheduler) Stats() Stats {
	t := s.stats
	t.Waiting, t.Running, t.Paused, t.InFlight = s.waiting.len(), s.running.len(), s.paused, len(s.flight)
	t.FreeBlocks, t.CachedBlocks = int(s.pool.free), int(s.pool.cached)
	t.HeldBlocks = int(s.pool.size) - t.FreeBlocks - t.CachedBlocks
	return t
}

// Progress is how far a sequence is.
type Progress struct {
	ID                                   SeqID
	PromptTokens, Tokens, ComputedTokens int // Tokens counts prompt and sampled
	Running, Paused                      bool
	HeldBlocks                           int
	InFlight                             int // steps that it takes part in
}

// Each calls f for every waiting sequence in order, then every running one.
func (s *Scheduler) Each(f func(Progress)) {
	for _, q := range [2]*queue{&s.waiting, &s.running} {
		for i := range q.len() {
			f(s.progress(q.at(i)))
		}
	}
}

func (s *Scheduler) pagesFor(tokens int) int {
	return (tokens + s.config.BlockTokens - 1) / s.config.BlockTokens
}

// ProgressOf says how far a sequence is, or ErrUnknown.
func (s *Scheduler) ProgressOf(id SeqID) (Progress, error) {
	slot, err := s.lookup(id)
	if err != nil {
		return Progress{}, err
	}
	return s.progress(slot), nil
}

func (s *Scheduler) progress(slot int32) Progress {
	e := &s.seqs[slot]
	return Progress{e.id, int(e.prompt), int(e.tokens), int(e.computed), e.state == stateRunning, e.paused, int(e.held), int(e.inFlight)}
}

// AddBack queues a request that has tokens of its answer already, `tokens` of prompt and answer in all, as after a preemption elsewhere: they are computed again.
func (s *Scheduler) AddBack(r Request, tokens int) error {
	if tokens < r.PromptTokens || tokens >= r.PromptTokens+r.MaxTokens {
		return fmt.Errorf("%w: %d tokens of %d prompt and at most %d answer tokens", ErrRequest, tokens, r.PromptTokens, r.MaxTokens)
	}
	if err := s.Add(r); err != nil {
		return err
	}
	s.seqs[s.slotOf[r.ID]].tokens = int32(tokens)
	return nil
}

// Offer sets how many pages are free, for pools that several schedulers share (Config.CountOnly). What is held stays.
func (s *Scheduler) Offer(free int) {
	s.pool.size += int32(free) - s.pool.free
	s.pool.free = int32(free)
}

// Running is how many sequences run.
func (s *Scheduler) Running() int { return s.running.len() }

// Held is how many pages are held (Config.CountOnly).
func (s *Scheduler) Held() int { return int(s.pool.size - s.pool.free) }

// Limit sets Config.MaxSequences while running; who runs already goes on.
func (s *Scheduler) Limit(maxSequences int) {
	s.config.MaxSequences = maxSequences
	s.ceiling = max(maxSequences, s.running.len()+s.arriving)
}
