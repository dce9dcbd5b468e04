package sampling

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slicescheduler/gpuworker/cpu/kernels"
)

// naive is the definition: sort all tokens, cut the list, walk the distribution (by id where nothing is cut off by rank).
func naive(logits []float32, p Params, u float64) (token int32, borderline bool) {
	type item struct {
		id int32
		p  float64
		x  float32
	}
	var items []item
	largest := slices.Max(logits)
	for i, x := range logits {
		if x != masked {
			items = append(items, item{int32(i), math.Exp(float64(x-largest) / float64(p.Temperature)), x})
		}
	}
	slices.SortStableFunc(items, func(a, b item) int { return cmp.Compare(b.x, a.x) })
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-5 }
	if p.MinP > 0 {
		for i, it := range items {
			borderline = borderline || near(it.p, float64(p.MinP))
			if it.p < float64(p.MinP) {
				items = items[:i]
				break
			}
		}
	}
	if p.TopK > 0 && p.TopK < len(items) {
		items = items[:p.TopK]
	}
	var total float64
	for _, it := range items {
		total += it.p
	}
	if p.TopP < 1 {
		var sum float64
		for i, it := range items {
			sum += it.p / total
			borderline = borderline || near(sum, float64(p.TopP))
			if sum >= float64(p.TopP) {
				items = items[:i+1]
				break
			}
		}
	}
	total = 0
	for _, it := range items {
		total += it.p
	}
	if p.TopP == 1 && (p.TopK <= 0 || p.TopK >= len(logits)) {
		slices.SortFunc(items, func(a, b item) int { return cmp.Compare(a.id, b.id) })
	}
	var sum float64
	for _, it := range items {
		sum += it.p / total
		borderline = borderline || near(sum, u)
		if u < sum {
			return it.id, borderline
		}
	}
	return items[len(items)-1].id, true
}

func drawLogits(t *rapid.T, n int) []float32 {
	spread := rapid.SampledFrom([]float64{0, 0.5, 3, 20}).Draw(t, "spread")
	seed := rapid.Uint64().Draw(t, "logits")
	logits := make([]float32, n)
	for i := range logits {
		// Coarse steps, so that ties occur.
		logits[i] = float32(math.Round(spread*8*(2*uniform(seed, uint64(i))-1))) / 8
	}
	return logits
}

func TestSelectionAgainstDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSelection(rapid.SampledFrom(kernels.Available()).Draw(t, "kernels"))
		logits := drawLogits(t, rapid.SampledFrom([]int{1, 2, 7, 511, 512, 513, 2000}).Draw(t, "vocab"))
		p := Default()
		p.Temperature = rapid.SampledFrom([]float32{0.1, 0.7, 1, 2.5}).Draw(t, "temperature")
		p.TopK = rapid.SampledFrom([]int{0, -1, 1, 2, 40, 600, 5000}).Draw(t, "top_k")
		p.TopP = rapid.SampledFrom([]float32{1, 0.95, 0.5, 0.01}).Draw(t, "top_p")
		p.MinP = rapid.SampledFrom([]float32{0, 0.03, 0.4, 1}).Draw(t, "min_p")
		u := rapid.Float64Range(0, 0.999999).Draw(t, "u")
		got := s.sample(logits, slices.Max(logits), p, u)
		want, borderline := naive(logits, p, u)
		if got != want && !borderline {
			t.Fatalf("token %d, the definition gives %d", got, want)
		}
	})
}

func sampler(t testing.TB, c Config, prompt, answer []int32) *Sampler {
	t.Helper()
	s, err := New(c, prompt, answer)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A sampler made anew at any token goes on as the old one would have: nothing but prompt, answer and seed matters.
func TestResumeLeavesNoTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const vocab = 60
		p := Default()
		p.Seed, p.TopP, p.RepetitionPenalty, p.FrequencyPenalty, p.PresencePenalty = rapid.Uint64().Draw(t, "seed"), 0.9, 1.2, 0.3, 0.1
		c := Config{Params: p, Vocab: vocab, Ends: []int32{2}, MinTokens: 5, Logprobs: 3}
		prompt := rapid.SliceOfN(rapid.Int32Range(0, vocab-1), 0, 10).Draw(t, "prompt")
		cut := rapid.IntRange(0, 19).Draw(t, "cut")
		run := func(s *Sampler, from int, answer []int32) []int32 {
			for i := from; i < 20; i++ {
				logits := make([]float32, vocab)
				for j := range logits {
					logits[j] = float32(4 * uniform(uint64(i), uint64(j)))
				}
				before := slices.Clone(logits)
				r, err := s.Sample(logits)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(before, logits) {
					t.Fatal("Sample changed the logits")
				}
				answer = append(answer, r.Token)
			}
			return answer
		}
		first, err := New(c, prompt, nil)
		if err != nil {
			t.Fatal(err)
		}
		whole := run(first, 0, nil)
		again, err := New(c, prompt, whole[:cut])
		if err != nil {
			t.Fatal(err)
		}
		if got := run(again, cut, slices.Clone(whole[:cut])); !slices.Equal(got, whole) {
			t.Fatalf("resumed at %d: %v, in one go %v", cut, got, whole)
		}
	})
}

func TestDistribution(t *testing.T) {
	logits := []float32{0, 1, 2, masked, 1}
	logits[3] = -3
	p := Default()
	var total float64
	for _, x := range logits {
		total += math.Exp(float64(x))
	}
	const n = 200_000
	counts := make([]int, len(logits))
	s := newSelection(kernels.Best())
	for i := range n {
		counts[s.sample(logits, 2, p, uniform(7, uint64(i)))]++
	}
	for i, x := range logits {
		want := math.Exp(float64(x)) / total
		if got := float64(counts[i]) / n; math.Abs(got-want) > 5*math.Sqrt(want*(1-want)/n) {
			t.Errorf("token %d: share %.4f, wants %.4f", i, got, want)
		}
	}
}

func TestPenaltiesAsDefined(t *testing.T) {
	p := Default()
	p.Temperature, p.RepetitionPenalty, p.FrequencyPenalty, p.PresencePenalty = 0, 2, 0.5, 0.25
	s := sampler(t, Config{Params: p, Vocab: 4, Logprobs: -1}, []int32{0, 1, 1}, []int32{1, 1, 2})
	logits := []float32{4, 4, -1, 3}
	s.adjust(logits)
	// Token 0 is in the prompt alone; 1 twice in the answer; 2 once, with a negative logit.
	if want := []float32{2, 2 - 1 - 0.25, -2 - 0.5 - 0.25, 3}; !slices.Equal(logits, want) {
		t.Fatalf("penalised to %v, wants %v", logits, want)
	}
	s.restore(logits)
	if want := []float32{4, 4, -1, 3}; !slices.Equal(logits, want) {
		t.Fatalf("restored to %v, wants %v", logits, want)
	}
}

func TestEndsAndBias(t *testing.T) {
	p := Default()
	p.Temperature = 0
	p.LogitBias = map[int32]float32{3: 5, 1: -100}
	c := Config{Params: p, Vocab: 5, Ends: []int32{0}, MinTokens: 2, Logprobs: 0}
	s := sampler(t, c, nil, nil)
	logits := []float32{9, 8, 1, 1, 5.5}
	var got []int32
	for range 3 {
		r, err := s.Sample(logits)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r.Token)
	}
	if want := []int32{3, 3, 0}; !slices.Equal(got, want) {
		t.Errorf("tokens %v, wants %v: end token masked for two tokens, then free", got, want)
	}
}

func TestTiesGoToTheLowestID(t *testing.T) {
	p := Default()
	p.Temperature = 0
	logits := make([]float32, 1000)
	logits[700], logits[300], logits[900] = 1, 1, 1
	c := Config{Params: p, Vocab: 1000, Logprobs: 2}
	r, err := sampler(t, c, nil, nil).Sample(logits)
	if err != nil || r.Token != 300 || r.Top[0].Token != 300 || r.Top[1].Token != 700 {
		t.Fatalf("%+v, %v", r, err)
	}
	c.Params.Temperature, c.Params.TopK = 1, 1
	if r, err = sampler(t, c, nil, nil).Sample(logits); err != nil || r.Token != 300 {
		t.Fatalf("top-k 1: %+v, %v", r, err)
	}
}

func TestLogprobsOfRawLogits(t *testing.T) {
	p := Default()
	p.Temperature, p.LogitBias = 0, map[int32]float32{2: 50}
	logits := []float32{1, 3, 2, -4}
	r, err := sampler(t, Config{Params: p, Vocab: 4, Logprobs: 2}, nil, nil).Sample(logits)
	if err != nil {
		t.Fatal(err)
	}
	var sum float64
	for _, x := range logits {
		sum += math.Exp(float64(x))
	}
	for _, l := range append([]Logprob{{r.Token, r.Logprob}}, r.Top...) {
		if want := float64(logits[l.Token]) - math.Log(sum); math.Abs(float64(l.Logprob)-want) > 1e-5 {
			t.Errorf("token %d: %v, wants %v", l.Token, l.Logprob, want)
		}
	}
	if r.Token != 2 || r.Top[0].Token != 1 || r.Top[1].Token != 2 {
		t.Errorf("%+v", r)
	}
}

func TestBadLogits(t *testing.T) {
	for _, x := range []float32{float32(math.NaN()), float32(math.Inf(1)), masked} {
		s := sampler(t, Config{Params: Default(), Vocab: 3, Logprobs: -1}, nil, nil)
		if _, err := s.Sample([]float32{1, x, 2}); !errors.Is(err, ErrBadLogits) || s.Answer() != 0 {
			t.Errorf("%v: %v, %d tokens remembered", x, err, s.Answer())
		}
	}
	s := sampler(t, Config{Params: Default(), Vocab: 1, Ends: []int32{0}, MinTokens: 1, Logprobs: -1}, nil, nil)
	if _, err := s.Sample([]float32{1}); !errors.Is(err, ErrBadLogits) {
		t.Errorf("no token left: %v", err)
	}
	if _, err := s.Sample([]float32{1, 2}); !errors.Is(err, ErrBadLogits) {
		t.Errorf("another vocabulary: %v", err)
	}
}

func TestValidateNamesTheField(t *testing.T) {
	nan := float32(math.NaN())
	for field, spoil := range map[string][]func(*Params){
		"temperature":        {func(p *Params) { p.Temperature = nan }, func(p *Params) { p.Temperature = -1 }, func(p *Params) { p.Temperature = float32(math.Inf(1)) }},
		"top_k":              {func(p *Params) { p.TopK = -2 }},
		"top_p":              {func(p *Params) { p.TopP = nan }, func(p *Params) { p.TopP = 0 }, func(p *Params) { p.TopP = 1.1 }},
		"min_p":              {func(p *Params) { p.MinP = nan }, func(p *Params) { p.MinP = -0.1 }, func(p *Params) { p.MinP = 1.1 }},
		"repetition_penalty": {func(p *Params) { p.RepetitionPenalty = nan }, func(p *Params) { p.RepetitionPenalty = 0 }},
		"presence_penalty":   {func(p *Params) { p.PresencePenalty = 2.1 }, func(p *Params) { p.PresencePenalty = nan }},
		"frequency_penalty":  {func(p *Params) { p.FrequencyPenalty = -2.1 }, func(p *Params) { p.FrequencyPenalty = nan }},
		"logit_bias": {func(p *Params) { p.LogitBias = map[int32]float32{100: 1} }, func(p *Params) { p.LogitBias = map[int32]float32{-1: 1} },
			func(p *Params) { p.LogitBias = map[int32]float32{3: nan} }, func(p *Params) { p.LogitBias = map[int32]float32{3: 101} }},
	} {
		for i, s := range spoil {
			p := Default()
			s(&p)
			err := p.Validate(100)
			var fe *FieldError
			if !errors.As(err, &fe) || fe.Field != field || !errors.Is(err, ErrParams) {
				t.Errorf("%s, case %d: %v", field, i, err)
			}
		}
	}
	if err := Default().Validate(100); err != nil {
		t.Error(err)
	}
}

func TestSampleAllocatesNothing(t *testing.T) {
	p := Default()
	p.TopK, p.TopP, p.RepetitionPenalty = 50, 0.9, 1.1
	for _, topK := range []int{50, 0} {
		p.TopK = topK
		s := sampler(t, Config{Params: p, Vocab: 3000, Logprobs: 5}, []int32{1, 2, 3}, nil)
		logits := make([]float32, 3000)
		for i := range logits {
			logits[i] = float32(10 * uniform(3, uint64(i)))
			s.history.add(int32(i), false)
		}
		if n := testing.AllocsPerRun(100, func() { _, _ = s.Sample(logits) }); n != 0 {
			t.Errorf("top_k %d: %v allocations a token", topK, n)
		}
	}
}

// TestPathsGiveTheSameToken draws from rows that are flat enough for top-p to keep most tokens, steep, or all ties.
func TestPathsGiveTheSameToken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logits := make([]float32, rapid.SampledFrom([]int{5, 600, 30_000}).Draw(t, "vocab"))
		seed, spread := rapid.Uint64().Draw(t, "logits"), rapid.SampledFrom([]float64{0, 1e-6, 0.1, 3, 40}).Draw(t, "spread")
		for i := range logits {
			logits[i] = float32(5 + spread*uniform(seed, uint64(i)))
		}
		p := Default()
		p.TopP = rapid.SampledFrom([]float32{1, 0.99, 0.5}).Draw(t, "top_p")
		u := rapid.Float64Range(0, 0.999999).Draw(t, "u")
		var tokens []int32
		for _, k := range kernels.Available() {
			s := newSelection(k)
			tokens = append(tokens, s.sample(logits, k.Largest(logits), p, u))
		}
		if slices.Min(tokens) != slices.Max(tokens) {
			t.Fatalf("the paths draw %v", tokens)
		}
	})
}

// benchRow is a row of logits over a large vocabulary: the token of rank r has a probability of about r^-steepness, and ranks are scattered over ids.
func benchRow(steepness float64) []float32 {
	logits := make([]float32, 262144)
	for i := range logits {
		logits[i] = float32(-steepness * math.Log(1+float64(len(logits))*uniform(1, uint64(i))))
	}
	return logits
}

// BenchmarkSample gives the time of a token; the median, because on a shared machine means measure the neighbours.
func BenchmarkSample(b *testing.B) {
	unsure, flat := benchRow(1.5), benchRow(0.1) // a language model that is rather unsure, and one that knows nothing
	topP := func(p *Params) { p.TopP = 0.95 }
	for _, c := range []struct {
		name   string
		logits []float32
		set    func(*Params)
	}{
		{"greedy", unsure, func(p *Params) { p.Temperature = 0 }},
		{"temperature", unsure, func(*Params) {}},
		{"top_p", unsure, topP},
		{"top_p/flat", flat, topP},
		{"top_k", unsure, func(p *Params) { p.TopK, p.TopP = 40, 0.95 }},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := Default()
			c.set(&p)
			s := sampler(b, Config{Params: p, Vocab: len(c.logits), Logprobs: -1}, nil, nil)
			var ms []float64
			for b.Loop() {
				start := time.Now()
				if _, err := s.Sample(c.logits); err != nil {
					b.Fatal(err)
				}
				ms = append(ms, 1e3*time.Since(start).Seconds())
			}
			slices.Sort(ms)
			b.ReportMetric(ms[len(ms)/2], "ms/token")
		})
	}
}
