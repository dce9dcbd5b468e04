package batching

import "testing"

func TestOneRequest(t *testing.T) {
	s, err := New(Config{KVBlocks: 8, MaxBatchTokens: 32})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Add(Request{ID: 7, PromptTokens: 40, MaxTokens: 3}); err != nil {
		t.Fatal(err)
	}
	var step Step
	for i, want := range []Item{{Start: 0, Tokens: 32}, {Start: 32, Tokens: 8, Sample: true}, {Start: 40, Tokens: 1, Sample: true}, {Start: 41, Tokens: 1, Sample: true}} {
		if !s.Schedule(0, &step) || len(step.Items) != 1 {
			t.Fatalf("step %d: nothing scheduled", i)
		}
		got := step.Items[0]
		if got.ID != 7 || got.Start != want.Start || got.Tokens != want.Tokens || got.Sample != want.Sample {
			t.Fatalf("step %d: got %+v, want %+v", i, got, want)
		}
		if pages := (got.Start + got.Tokens + 15) / 16; len(got.Blocks) != pages {
			t.Fatalf("step %d: %d pages, want %d", i, len(got.Blocks), pages)
		}
		if err := s.Complete(&step); err != nil {
			t.Fatal(err)
		}
	}
	if s.Schedule(0, &step) {
		t.Fatal("scheduled beyond MaxTokens")
	}
	if err := s.Finish(7); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); st.FreeBlocks != 8 || st.Running != 0 {
		t.Fatalf("after the end: %+v", st)
	}
}
