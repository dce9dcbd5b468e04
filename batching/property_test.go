package batching

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// world drives a scheduler at random and checks every step from outside, from what callers see alone.
type world struct {
	t      *rapid.T
	c      Config
	s      *Scheduler
	nowNs  int64
	next   SeqID
	live   map[SeqID]*liveSeq
	flying []*Step
	trace  strings.Builder // what was scheduled, for comparing two runs
}

type liveSeq struct {
	r        Request
	tokens   int
	computed int // scheduled so far, as items say
	paused   bool
}

func drawConfig(t *rapid.T) Config {
	c := Config{
		BlockTokens: rapid.SampledFrom([]int{1, 4, 16}).Draw(t, "block"), KVBlocks: rapid.IntRange(4, 40).Draw(t, "pages"),
		MaxBatchTokens: rapid.IntRange(1, 64).Draw(t, "budget"), MaxSequences: rapid.IntRange(1, 8).Draw(t, "seqs"),
		MaxChunkTokens: rapid.IntRange(0, 20).Draw(t, "chunk"), InFlight: rapid.IntRange(1, 3).Draw(t, "inflight"),
		LookAhead: rapid.IntRange(1, 4).Draw(t, "lookahead"), AgeNs: rapid.Int64Range(1, 50).Draw(t, "age"),
		Order: Order(rapid.IntRange(0, 1).Draw(t, "order")), Overlap: Overlap(rapid.IntRange(0, 2).Draw(t, "overlap")),
		AdmitWhole: rapid.Bool().Draw(t, "whole"), MaxQueue: rapid.IntRange(0, 6).Draw(t, "queue"),
	}
	switch rapid.IntRange(0, 2).Draw(t, "pagesAs") {
	case 1:
		c.PrefixReuse = true
	case 2:
		c.CountOnly = true
	}
	return c
}

func newWorld(t *rapid.T, c Config) *world {
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, c: s.Config(), s: s, live: map[SeqID]*liveSeq{}}
}

// hashes names pages after their content: requests of one family share their beginning.
func hashes(family, n int) []BlockHash {
	out := make([]BlockHash, n)
	for i := range out {
		out[i] = BlockHash{uint64(family + 1), uint64(i + 1)}
	}
	return out
}

func (w *world) add(prompt, answer, family, priority int) {
	w.next++
	r := Request{ID: w.next, PromptTokens: prompt, MaxTokens: answer, Priority: priority, ArrivalNs: w.nowNs, Blocks: hashes(family, prompt/w.c.BlockTokens)}
	err := w.s.Add(r)
	switch {
	case err == nil:
		w.live[r.ID] = &liveSeq{r: r, tokens: prompt}
	case errors.Is(err, ErrTooLarge):
		if w.s.Fits(prompt, answer) == nil {
			w.t.Fatalf("refused a request that fits: %v", err)
		}
	case !errors.Is(err, ErrQueueFull):
		w.t.Fatal(err)
	}
}

func (w *world) schedule() bool {
	step := &Step{}
	ok := w.s.Schedule(w.nowNs, step)
	for _, id := range step.Preempted {
		if l := w.live[id]; l != nil {
			l.computed = 0
		}
	}
	if !ok {
		return false
	}
	w.check(step)
	w.flying = append(w.flying, step)
	fmt.Fprintln(&w.trace, step.ID, step.Items, step.Preempted)
	return true
}

// check verifies a step against the configuration and against what the sequences had before.
func (w *world) check(step *Step) {
	tokens, seen := 0, map[SeqID]bool{}
	for _, it := range step.Items {
		l := w.live[it.ID]
		if l == nil || seen[it.ID] || l.paused {
			w.t.Fatalf("step %d schedules %d, which is not there, twice in it or paused", step.ID, it.ID)
		}
		seen[it.ID] = true
		if it.Cached > 0 || l.computed == 0 {
			l.computed = it.Cached
		}
		if it.Start != l.computed || it.Tokens < 1 || it.Tokens > w.c.MaxChunkTokens {
			w.t.Fatalf("item %+v of a sequence that has computed %d", it, l.computed)
		}
		l.computed += it.Tokens
		if !w.c.CountOnly && len(it.Blocks)*w.c.BlockTokens < l.computed {
			w.t.Fatalf("item %+v has room for %d tokens", it, len(it.Blocks)*w.c.BlockTokens)
		}
		tokens += it.Tokens
		if w.c.Overlap == OverlapNone {
			for _, f := range w.flying {
				if slices.ContainsFunc(f.Items, func(o Item) bool { return o.ID == it.ID }) {
					w.t.Fatalf("sequence %d is in steps %d and %d at once", it.ID, f.ID, step.ID)
				}
			}
		}
	}
	if tokens != step.Tokens || tokens > w.c.MaxBatchTokens || len(w.flying) >= w.c.InFlight {
		w.t.Fatalf("step %d has %d tokens, says %d, budget %d, %d in flight", step.ID, tokens, step.Tokens, w.c.MaxBatchTokens, len(w.flying))
	}
}

func (w *world) complete() {
	if len(w.flying) == 0 {
		return
	}
	step := w.flying[0]
	w.flying = w.flying[1:]
	if err := w.s.Complete(step); err != nil {
		w.t.Fatal(err)
	}
	for _, it := range step.Items {
		l := w.live[it.ID]
		if l == nil || !it.Sample {
			continue
		}
		l.tokens++
		if l.tokens == l.r.PromptTokens+l.r.MaxTokens {
			if err := w.s.Finish(it.ID); err != nil {
				w.t.Fatal(err)
			}
			delete(w.live, it.ID)
		}
	}
}

func (w *world) balance() {
	st := w.s.Stats()
	if st.FreeBlocks+st.HeldBlocks+st.CachedBlocks != w.c.KVBlocks || st.FreeBlocks < 0 || st.HeldBlocks < 0 || st.CachedBlocks < 0 {
		w.t.Fatalf("pages don't add up: %+v of %d", st, w.c.KVBlocks)
	}
	if st.Running > w.c.MaxSequences || st.InFlight != len(w.flying) {
		w.t.Fatalf("%+v with %d steps in flight", st, len(w.flying))
	}
}

// pick returns a live sequence by number, in order of id so that runs repeat.
func (w *world) pick(n int) (SeqID, bool) {
	ids := make([]SeqID, 0, len(w.live))
	for id := range w.live {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return 0, false
	}
	slices.Sort(ids)
	return ids[n%len(ids)], true
}

func (w *world) act(kind, a, b int) {
	switch kind {
	case 0, 1:
		w.add(1+a%70, 1+b%20, a%3, b%3-1)
	case 2, 3, 4, 5:
		w.schedule()
	case 6, 7, 8:
		w.complete()
	case 9:
		if id, ok := w.pick(a); ok && b%4 == 0 {
			if err := w.s.Cancel(id); err != nil {
				w.t.Fatal(err)
			}
			delete(w.live, id)
		}
	case 10:
		if id, ok := w.pick(a); ok {
			l := w.live[id]
			l.paused = !l.paused
			if err := w.s.setPaused(id, l.paused); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	w.nowNs += int64(1 + b%5)
	w.balance()
}

// maxRounds is far above what the random requests need one after the other.
const maxRounds = 20_000

// drain resumes everybody and runs until nothing is left; a bound on the rounds is what "every request eventually finishes" means.
func (w *world) drain() {
	for id, l := range w.live {
		if l.paused {
			l.paused = false
			if err := w.s.Resume(id); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	for round := 0; len(w.live) > 0 || len(w.flying) > 0; round++ {
		if round > maxRounds {
			w.t.Fatalf("no end: %d sequences left, %+v", len(w.live), w.s.Stats())
		}
		for w.schedule() {
		}
		w.complete()
		w.nowNs++
		w.balance()
	}
	if st := w.s.Stats(); st.HeldBlocks != 0 || st.Running != 0 || st.Waiting != 0 {
		w.t.Fatalf("after the end: %+v", st)
	}
}

type action struct{ kind, a, b int }

func drawActions(t *rapid.T) []action {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) action {
		return action{rapid.IntRange(0, 10).Draw(t, "kind"), rapid.IntRange(0, 999).Draw(t, "a"), rapid.IntRange(0, 999).Draw(t, "b")}
	}), 1, 120).Draw(t, "actions")
}

func TestRandomUse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, actions := drawConfig(t), drawActions(t)
		w := newWorld(t, c)
		for _, a := range actions {
			w.act(a.kind, a.a, a.b)
		}
		w.drain()
		again := newWorld(t, c)
		for _, a := range actions {
			again.act(a.kind, a.a, a.b)
		}
		again.drain()
		if w.trace.String() != again.trace.String() {
			t.Fatal("the same calls gave other steps")
		}
	})
}

// A copy goes on as the original does, and neither disturbs the other.
func TestCopy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, drawConfig(t))
		for _, a := range drawActions(t) {
			w.act(a.kind, a.a, a.b)
		}
		for len(w.flying) > 0 {
			w.complete()
		}
		c := world{t: t, c: w.c, s: &Scheduler{}, nowNs: w.nowNs, next: w.next, live: map[SeqID]*liveSeq{}}
		w.trace.Reset()
		c.s.CopyFrom(w.s)
		for id, l := range w.live {
			k := *l
			c.live[id] = &k
		}
		w.drain()
		c.drain()
		if w.trace.String() != c.trace.String() {
			t.Fatalf("the copy went another way:\n%s\nnot\n%s", c.trace.String(), w.trace.String())
		}
	})
}

// Leaping over steady steps leaves the same state as taking them one by one.
func TestLeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawConfig(t)
		if c.Overlap == OverlapPrefill || c.Overlap == OverlapNone {
			c.InFlight = 1
		}
		w := newWorld(t, c)
		for range rapid.IntRange(1, 6).Draw(t, "requests") {
			w.add(rapid.IntRange(1, 30).Draw(t, "prompt"), rapid.IntRange(1, 60).Draw(t, "answer"), rapid.IntRange(0, 3).Draw(t, "family"), 0)
		}
		for range 400 {
			for w.schedule() {
			}
			if k := w.s.Steady(rapid.IntRange(1, 40).Draw(t, "limit")); k > 0 && w.decodesOnly() {
				compareLeap(t, w, k)
			}
			w.complete()
			if len(w.live) == 0 {
				return
			}
		}
	})
}

// decodesOnly says whether the steps in flight hold single tokens, as Leap wants it.
func (w *world) decodesOnly() bool {
	for _, s := range w.flying {
		if slices.ContainsFunc(s.Items, func(it Item) bool { return it.Tokens != 1 }) {
			return false
		}
	}
	return true
}

// compareLeap leaps on a copy and steps on the original, then compares what both schedule until the end.
func compareLeap(t *rapid.T, w *world, k int) {
	fast := &Scheduler{}
	fast.CopyFrom(w.s)
	var flying []*Step
	for _, s := range w.flying {
		c := *s
		c.Items = slices.Clone(s.Items)
		flying = append(flying, &c)
	}
	fast.Leap(k, flying...)
	for range k {
		w.complete()
		if !w.schedule() {
			t.Fatalf("promised %d steady steps, which ended early", k)
		}
	}
	for i := range flying {
		a, b := flying[i], w.flying[i]
		if a.ID != b.ID || fmt.Sprint(strip(a.Items)) != fmt.Sprint(strip(b.Items)) {
			t.Fatalf("after %d steps:\nleapt   %+v\nstepped %+v", k, a, b)
		}
	}
	if a, b := fast.Stats(), w.s.Stats(); a != b {
		t.Fatalf("after %d steps:\nleapt   %+v\nstepped %+v", k, a, b)
	}
}

// strip leaves out page tables of which the later pages may not have been there when the step was formed.
func strip(items []Item) []Item {
	out := slices.Clone(items)
	for i := range out {
		out[i].Cached = 0
	}
	return out
}

// An aged request is not passed for ever: with short requests arriving all the time, a large one gets in within its age plus what it takes to drain.
func TestAgedRequestGetsIn(t *testing.T) {
	s, err := New(Config{BlockTokens: 1, KVBlocks: 20, MaxBatchTokens: 64, MaxSequences: 8, AgeNs: 50, AdmitWhole: true})
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	id := SeqID(1)
	tokens := map[SeqID]int{}
	must(s.Add(Request{ID: 1_000_000, PromptTokens: 18, MaxTokens: 2, ArrivalNs: 3, Priority: 0}))
	var step Step
	for now := int64(0); now < 400; now++ {
		must(s.Add(Request{ID: id, PromptTokens: 4, MaxTokens: 4, ArrivalNs: now, Priority: 0}))
		id++
		if !s.Schedule(now, &step) {
			continue
		}
		for _, it := range step.Items {
			if it.ID == 1_000_000 {
				if now > 3+50+20 {
					t.Fatalf("admitted at %d, arrived at 3 with an age limit of 50", now)
				}
				return
			}
		}
		must(s.Complete(&step))
		for _, it := range step.Items {
			if it.Sample {
				if tokens[it.ID]++; tokens[it.ID] == 4 {
					must(s.Finish(it.ID))
				}
			}
		}
	}
	t.Fatal("never admitted")
}

func BenchmarkStep(b *testing.B) {
	for _, reuse := range []bool{true, false} {
		b.Run(fmt.Sprintf("batch64/reuse=%v", reuse), func(b *testing.B) {
			s, err := New(Config{KVBlocks: 1 << 16, MaxSequences: 64, PrefixReuse: reuse, CountOnly: !reuse})
			if err != nil {
				b.Fatal(err)
			}
			for i := range 64 {
				if err := s.Add(Request{ID: SeqID(i), PromptTokens: 30, MaxTokens: 15_000}); err != nil {
					b.Fatal(err)
				}
			}
			var step Step
			for i := 0; b.Loop(); i++ {
				if !s.Schedule(0, &step) {
					b.Fatal("nothing to do")
				}
				if err := s.Complete(&step); err != nil {
					b.Fatal(err)
				}
				if i%14_000 == 13_999 {
					restart(b, s)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Msteps/s")
		})
	}
}

func restart(b *testing.B, s *Scheduler) {
	for i := range 64 {
		if err := s.Cancel(SeqID(i)); err != nil {
			b.Fatal(err)
		}
		if err := s.Add(Request{ID: SeqID(i), PromptTokens: 30, MaxTokens: 15_000}); err != nil {
			b.Fatal(err)
		}
	}
}
