package batching

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func movingConfig() Config {
	return Config{KVBlocks: 24, BlockTokens: 4, MaxBatchTokens: 16, MaxSequences: 4, MaxContext: 64, InFlight: 2, Overlap: OverlapPrefill, PrefixReuse: true}
}

func mustNew(t testing.TB, c Config) *Scheduler {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestExpectedSequenceRunsAfterItLanded(t *testing.T) {
	s := mustNew(t, movingConfig())
	cached, err := s.Expect(Request{ID: 7, PromptTokens: 10, MaxTokens: 10}, 12)
	if err != nil || cached != 0 || len(s.Pages(7)) != 3 {
		t.Fatalf("%d cached, pages %v, error %v", cached, s.Pages(7), err)
	}
	var step Step
	if s.Schedule(0, &step) {
		t.Fatal("an expected sequence was scheduled")
	}
	if err := s.Land(7, 15); !errors.Is(err, ErrRequest) {
		t.Errorf("landed without pages: %v", err)
	}
	if err := s.Widen(7, 14); err != nil {
		t.Fatal(err)
	}
	if err := s.Land(7, 15); err != nil {
		t.Fatal(err)
	}
	if !s.Schedule(0, &step) || len(step.Items) != 1 || step.Items[0].Start != 14 || !step.Items[0].Sample || len(step.Items[0].Blocks) != 4 {
		t.Fatalf("step %+v", step)
	}
	if n := s.LandedTokens(7); n != 0 {
		t.Errorf("%d tokens have landed before a step has", n)
	}
	if err := s.Complete(&step); err != nil {
		t.Fatal(err)
	}
	if n := s.LandedTokens(7); n != 15 {
		t.Errorf("%d tokens have landed, want 15", n)
	}
	if err := s.Finish(7); err != nil || s.Stats().FreeBlocks != 24 {
		t.Errorf("%v, %+v", err, s.Stats())
	}
}

func TestExpectedSequenceTakesAPlace(t *testing.T) {
	c := movingConfig()
	c.MaxSequences = 1
	s := mustNew(t, c)
	if _, err := s.Expect(Request{ID: 1, PromptTokens: 4, MaxTokens: 4}, 4); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Expect(Request{ID: 2, PromptTokens: 4, MaxTokens: 4}, 4); !errors.Is(err, ErrQueueFull) {
		t.Errorf("a second one: %v", err)
	}
	if err := s.Add(Request{ID: 3, PromptTokens: 4, MaxTokens: 4}); err != nil {
		t.Fatal(err)
	}
	var step Step
	if s.Schedule(0, &step) {
		t.Error("somebody took the place")
	}
	if err := s.Cancel(1); err != nil || !s.Schedule(0, &step) {
		t.Errorf("the place isn't free again: %v", err)
	}
}

func TestLimit(t *testing.T) {
	s := mustNew(t, movingConfig())
	for id := range SeqID(4) {
		if err := s.Add(Request{ID: id, PromptTokens: 2, MaxTokens: 2}); err != nil {
			t.Fatal(err)
		}
	}
	s.Limit(2)
	var step Step
	if s.Schedule(0, &step); len(step.Items) != 2 {
		t.Errorf("%d sequences run, 2 may", len(step.Items))
	}
	if err := s.Complete(&step); err != nil {
		t.Fatal(err)
	}
	s.Limit(4)
	if s.Schedule(0, &step); len(step.Items) != 4 {
		t.Errorf("%d sequences run after the limit was lifted", len(step.Items))
	}
}

func TestPinnedPagesStay(t *testing.T) {
	c := movingConfig()
	c.KVBlocks = 4
	s := mustNew(t, c)
	if err := s.Add(Request{ID: 1, PromptTokens: 8, MaxTokens: 4}); err != nil {
		t.Fatal(err)
	}
	var step Step
	s.Schedule(0, &step)
	if err := s.Complete(&step); err != nil {
		t.Fatal(err)
	}
	pages := slices.Clone(s.Pages(1))
	s.Pin(pages)
	if err := s.Cancel(1); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); st.HeldBlocks != 2 || st.FreeBlocks != 2 {
		t.Errorf("%+v, want the two pages held", st)
	}
	if _, err := s.Expect(Request{ID: 2, PromptTokens: 8, MaxTokens: 4}, 12); !errors.Is(err, ErrQueueFull) {
		t.Errorf("pinned pages were given away: %v", err)
	}
	s.Unpin(pages)
	if st := s.Stats(); st.FreeBlocks != 4 {
		t.Errorf("%+v, want all free", st)
	}
}

func TestSetPipelineNeedsEmptyFlight(t *testing.T) {
	s := mustNew(t, movingConfig())
	if err := s.Add(Request{ID: 1, PromptTokens: 2, MaxTokens: 2}); err != nil {
		t.Fatal(err)
	}
	var step Step
	s.Schedule(0, &step)
	if err := s.SetPipeline(1, OverlapNone); !errors.Is(err, ErrStep) {
		t.Errorf("with a step in flight: %v", err)
	}
	if err := s.Complete(&step); err != nil {
		t.Fatal(err)
	}
	if err := s.SetPipeline(1, OverlapNone); err != nil || s.Config().InFlight != 1 {
		t.Errorf("%v, %d in flight", err, s.Config().InFlight)
	}
	if err := s.SetPipeline(MaxInFlight+1, OverlapNone); !errors.Is(err, ErrConfig) {
		t.Errorf("too many: %v", err)
	}
}

// Whatever moves, pins, steps and leaves in whatever order, the books balance (invariants) and in the end every page is free.
func TestMovingKeepsTheBooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := New(movingConfig())
		if err != nil {
			t.Fatal(err)
		}
		var flight []*Step
		var pins [][]int32
		live := map[SeqID]bool{}
		next := SeqID(0)
		for range rapid.IntRange(1, 60).Draw(t, "moves") {
			id := SeqID(rapid.IntRange(0, 12).Draw(t, "id"))
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0, 1:
				n := rapid.IntRange(1, 20).Draw(t, "tokens")
				next++
				r := Request{ID: 100 + next, PromptTokens: n, MaxTokens: 8, Blocks: hashesOf(n)}
				if rapid.Bool().Draw(t, "expect") {
					if _, err := s.Expect(r, n); err == nil {
						live[r.ID] = true
					}
				} else if s.Add(r) == nil {
					live[r.ID] = true
				}
			case 2:
				st := new(Step)
				if s.Schedule(0, st) {
					flight = append(flight, st)
				}
			case 3:
				if len(flight) > 0 {
					if err := s.Complete(flight[0]); err != nil {
						t.Fatal(err)
					}
					flight = flight[1:]
				}
			case 4:
				if pages := slices.Clone(s.Pages(100 + id)); len(pages) > 0 {
					s.Pin(pages)
					pins = append(pins, pages)
				}
			case 5:
				if q, err := s.expected(100 + id); err == nil {
					_ = s.Land(q.id, int(q.tokens))
				}
			case 6:
				if s.Cancel(100+id) == nil {
					delete(live, 100+id)
				}
			}
		}
		for _, st := range flight {
			if err := s.Complete(st); err != nil {
				t.Fatal(err)
			}
		}
		for id := range live {
			if err := s.Cancel(id); err != nil && !errors.Is(err, ErrUnknown) {
				t.Fatal(err)
			}
		}
		for _, p := range pins {
			s.Unpin(p)
		}
		if st := s.Stats(); st.HeldBlocks != 0 || len(s.pinned) != 0 || s.arriving != 0 {
			t.Fatalf("%+v is left, %d pins, %d arriving", st, len(s.pinned), s.arriving)
		}
	})
}

// hashesOf gives equal prefixes equal hashes, so that pages are shared.
func hashesOf(tokens int) []BlockHash {
	var list []BlockHash
	for i := range tokens / 4 {
		list = append(list, BlockHash{uint64(i) + 1, 1})
	}
	return list
}
