package cpu_test

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker/cpu"
	"slicescheduler/gpuworker/enginetest"
	"slicescheduler/model/miniature"
)

// Logits follow the definition for every family and storage type. Float weights leave only the rounding of KV to half; quantised ones round activations to
// int8 too.
func TestLogitsFollowTheDefinition(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*miniature.Spec)
		limit  float64
	}{
		"llama f32":        {func(s *miniature.Spec) { s.DType = gmg.F32 }, 0.005},
		"llama f16":        {func(s *miniature.Spec) { s.DType = gmg.F16 }, 0.005},
		"llama bf16":       {func(s *miniature.Spec) { s.DType = gmg.BF16; s.Untied = true }, 0.005},
		"llama factors":    {func(s *miniature.Spec) { s.DType = gmg.F32; s.RoPEFactors = true }, 0.005},
		"llama wide heads": {func(s *miniature.Spec) { s.DType = gmg.F32; s.HeadDim, s.Heads, s.KVHeads = 64, 3, 1 }, 0.005},
		"gemma3 f32":       {func(s *miniature.Spec) { s.Arch, s.Layers, s.DType = "gemma3", 7, gmg.F32 }, 0.01},
		"gemma3 q8_0":      {func(s *miniature.Spec) { s.Arch, s.Layers = "gemma3", 7 }, 0.15},
		"llama q8_0":       {nil, 0.1},
		"llama q4_0":       {func(s *miniature.Spec) { s.DType = gmg.Q4_0 }, 0.1},
		"llama q4_1":       {func(s *miniature.Spec) { s.DType = gmg.Q4_1 }, 0.1},
		"llama q5_0":       {func(s *miniature.Spec) { s.DType = gmg.Q5_0 }, 0.1},
		"llama q5_1":       {func(s *miniature.Spec) { s.DType = gmg.Q5_1 }, 0.1},
		"llama q4_K":       {wide(gmg.Q4_K), 0.1},
		"llama q5_K":       {wide(gmg.Q5_K), 0.1},
		"llama q6_K":       {wide(gmg.Q6_K), 0.1},
	} {
		t.Run(name, func(t *testing.T) {
			m := enginetest.Miniature(t, c.change)
			e := enginetest.New(t, m, enginetest.Config{Devices: open(t, 1, cpu.Config{}), KVBlocks: 8, MaxRows: 64, MaxLogits: 1})
			prompt := randomTokens(rand.New(rand.NewPCG(1, 2)), 50, m.Graph.Vocab)
			s := e.Add(prompt)
			s.Keep = true
			e.Generate(s, 1, 64)
			want := (&reference{t, m}).logits(prompt)
			largest, spread := 0.0, 0.0
			for i, x := range want {
				largest = max(largest, math.Abs(x-float64(s.Last[i])))
				spread = max(spread, math.Abs(x))
			}
			t.Logf("largest difference %.5f, largest logit %.2f", largest, spread)
			if !(largest <= c.limit*spread) {
				t.Errorf("logits of up to %.3f differ by up to %.5f", spread, largest)
			}
		})
	}
}

// wide has rows of whole blocks of 256.
func wide(d gmg.DType) func(*miniature.Spec) {
	return func(s *miniature.Spec) { s.DType, s.Hidden, s.FFN, s.HeadDim = d, 256, 512, 64 }
}

func randomTokens(r *rand.Rand, n, vocab int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(3 + r.IntN(vocab-3))
	}
	return out
}

// seed returns the seed of a random test: $SLICER_SEED, else a new one, which it prints.
func seed(t testing.TB) uint64 {
	s := rand.Uint64()
	if text := os.Getenv("SLICER_SEED"); text != "" {
		parsed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("SLICER_SEED: %v", err)
		}
		s = parsed
	}
	t.Logf("SLICER_SEED=%d", s)
	return s
}

// Random steps over few pages: sequences come, run in pieces beside each other, lose their pages, share those of others and go. Each must give
// exactly what it gives alone in fresh pages.
func TestRandomBatchesAgainstAlone(t *testing.T) {
	r := rand.New(rand.NewPCG(seed(t), 1))
	for round, change := range []func(*miniature.Spec){nil, func(s *miniature.Spec) { s.Arch, s.Layers = "gemma3", 7 }} {
		m := enginetest.Miniature(t, change)
		config := enginetest.Config{Devices: open(t, 2, cpu.Config{Cores: 1 + round}), Cuts: []int{2}, KVBlocks: 48, MaxRows: 128, MaxLogits: 8}
		e := enginetest.New(t, m, config)
		alone := enginetest.New(t, m, enginetest.Config{Devices: open(t, 1, cpu.Config{}), KVBlocks: 48, MaxRows: 256, MaxLogits: 1})
		var live []*enginetest.Sequence
		base := randomTokens(r, 40, m.Graph.Vocab)
		for range 150 {
			if len(live) < 6 && r.IntN(3) == 0 {
				n := r.IntN(len(base))
				s := e.Add(append(slices.Clone(base[:n]), randomTokens(r, 1+r.IntN(40), m.Graph.Vocab)...))
				if len(live) > 0 && r.IntN(2) == 0 {
					e.Share(s, live[r.IntN(len(live))])
				}
				live = append(live, s)
			}
			if len(live) == 0 {
				continue
			}
			randomStep(e, r, live)
			if i := r.IntN(len(live)); r.IntN(10) == 0 {
				e.Drop(live[i])
			} else if len(live[i].Answer()) > 8 {
				e.Drop(live[i])
				checkAlone(t, alone, live[i])
				live = slices.Delete(live, i, i+1)
			}
		}
		for _, s := range live {
			e.Drop(s)
			checkAlone(t, alone, s)
		}
	}
}

// randomStep runs some of the sequences, in a random order, by random numbers of rows.
func randomStep(e *enginetest.Engine, r *rand.Rand, live []*enginetest.Sequence) {
	var parts []enginetest.Part
	for _, i := range r.Perm(len(live))[:1+r.IntN(len(live))] {
		parts = append(parts, enginetest.Part{Sequence: live[i], Rows: 1 + r.IntN(20)})
	}
	e.Step(parts...)
}

func checkAlone(t *testing.T, alone *enginetest.Engine, s *enginetest.Sequence) {
	t.Helper()
	want := alone.Add(s.Tokens[:s.Prompt])
	alone.Generate(want, len(s.Answer()), 256)
	alone.Drop(want)
	if !slices.Equal(want.Answer(), s.Answer()) || !slices.Equal(want.Logits, s.Logits) {
		t.Fatalf("a prompt of %d tokens: answer %v, alone %v; logits %x, alone %x", s.Prompt, s.Answer(), want.Answer(), s.Logits, want.Logits)
	}
}
