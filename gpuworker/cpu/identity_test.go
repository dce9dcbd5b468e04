package cpu_test

import (
	"fmt"
	"slices"
	"testing"

	"slicescheduler/gpuworker"
	"slicescheduler/gpuworker/cpu"
	"slicescheduler/gpuworker/enginetest"
	"slicescheduler/model"
)

// setting is one way of running a sequence that must not leave a trace in a single bit of its logits.
type setting struct {
	name       string
	kernels    string
	cores      int
	cuts       []int // as fractions of the stages, in percent
	chunk      int
	companions int  // sequences that run in the same steps
	preempt    bool // the KV is dropped halfway through the answer and recomputed
	prefix     bool // the prompt's full pages come from another sequence
	host       bool // hidden rows go through host memory
	queue      gpuworker.Queue
	// What happens before each token of the answer: the lane moves to another shape, the sequence to another lane.
	reshape, migrate bool
}

// settings are the table: each is compared with every other.
func settings() []setting {
	table := []setting{
		{name: "alone"},
		{name: "beside 7 others", companions: 7},
		{name: "beside 7 others, chunks of 16", companions: 7, chunk: 16},
		{name: "cut in the middle", cuts: []int{50}},
		{name: "embedding alone on a device", cuts: []int{1}},
		{name: "head alone on a device", cuts: []int{99}},
		{name: "three devices", cuts: []int{30, 60}, companions: 7},
		{name: "through host memory", cuts: []int{50}, host: true},
		{name: "preempted", preempt: true},
		{name: "preempted, chunks of 3, beside others", preempt: true, chunk: 3, companions: 3},
		{name: "prefix reused", prefix: true},
		{name: "prefix reused, two devices, beside others", prefix: true, cuts: []int{50}, companions: 3},
		{name: "preempted, prefix reused", preempt: true, prefix: true},
		{name: "two cores", cores: 2},
		{name: "three cores, beside 7 others", cores: 3, companions: 7},
		{name: "borrowed", queue: gpuworker.QueueBorrowed},
		{name: "lane changes its shape at each token", reshape: true, companions: 3},
		{name: "lane changes its shape while the prompt is read", reshape: true, chunk: 3},
		{name: "migrated at each token between lanes of other shapes", migrate: true, cuts: []int{50}, companions: 3},
		{name: "migrated while the prompt is read", migrate: true, chunk: 17},
		{name: "migrated, reshaped, preempted, prefix reused", migrate: true, reshape: true, preempt: true, prefix: true, chunk: 16, companions: 1},
		{name: "portable kernels", kernels: "portable"},
		{name: "portable kernels, two cores, beside others", kernels: "portable", cores: 2, companions: 1, chunk: 17},
	}
	for _, chunk := range []int{1, 3, 16, 17, 512} {
		table = append(table, setting{name: fmt.Sprintf("chunks of %d", chunk), chunk: chunk})
	}
	return table
}

// outcome is all that a setting gives: tokens, and a hash of the logits of each.
type outcome struct {
	tokens []int32
	logits []uint64
}

// generate answers a prompt with n tokens under a setting. In every step the companions take part too.
func (s setting) generate(t *testing.T, m *model.Model, prompt []int32, n int) outcome {
	t.Helper()
	chunk := s.chunk
	if chunk == 0 {
		chunk = 512
	}
	devices := open(t, len(s.cuts)+1, cpu.Config{Kernels: s.kernels, Cores: s.cores})
	var cuts []int
	for _, percent := range s.cuts {
		last := len(m.Graph.Stages) - 1
		cuts = append(cuts, min(max(1, percent*len(m.Graph.Stages)/100), last))
	}
	e := enginetest.New(t, m, enginetest.Config{Devices: devices, Cuts: cuts, KVBlocks: 128, MaxRows: 512, MaxLogits: 8, CopyThroughHost: s.host, Queue: s.queue})
	seq := e.Add(prompt)
	if s.prefix {
		other := e.Add(append(slices.Clone(prompt[:len(prompt)-1]), 5, 6, 7))
		e.Generate(other, 2, 512)
		e.Share(seq, other)
		if seq.Computed == 0 {
			t.Fatal("no full page to share; the test tests nothing")
		}
	}
	parts := []enginetest.Part{}
	for i := range s.companions {
		if i == s.companions/2 {
			parts = append(parts, enginetest.Part{Sequence: seq, Rows: chunk})
		}
		// Others of different lengths and content, one token of prefill at first, so that all kinds of rows meet.
		companion := e.Add(prompt[i%len(prompt) : min(len(prompt), i%len(prompt)+3*i+1)])
		parts = append(parts, enginetest.Part{Sequence: companion, Rows: 1 + i%3})
	}
	if s.companions == 0 {
		parts = append(parts, enginetest.Part{Sequence: seq, Rows: chunk})
	}
	dropped := false
	mover := s.mover(t, m, e, seq, parts)
	for len(seq.Answer()) < n {
		mover.next().Step(mover.parts...)
		if s.preempt && !dropped && len(seq.Answer()) == n/2 {
			mover.engine.Drop(seq)
			dropped = true
		}
	}
	return outcome{seq.Answer(), seq.Logits}
}

// checkIdentity runs every setting and compares every pair.
func checkIdentity(t *testing.T, m *model.Model, prompt []int32, n int, table []setting) {
	outcomes := make([]outcome, len(table))
	for i, s := range table {
		t.Run(s.name, func(t *testing.T) { outcomes[i] = s.generate(t, m, prompt, n) })
	}
	for i, a := range outcomes {
		for j, b := range outcomes[:i] {
			if !slices.Equal(a.tokens, b.tokens) || !slices.Equal(a.logits, b.logits) {
				t.Errorf("%q and %q differ: tokens %v and %v, logits %x and %x", table[i].name, table[j].name, a.tokens, b.tokens, a.logits, b.logits)
			}
		}
	}
	if distinct := len(slices.Compact(slices.Sorted(slices.Values(outcomes[0].logits)))); distinct < n/2 {
		t.Errorf("only %d different rows of logits among %d", distinct, n)
	}
}

func TestBitIdentityOfEmbeddedModels(t *testing.T) {
	for _, name := range []string{"tiny-guide", "tiny-story"} {
		t.Run(name, func(t *testing.T) {
			m := embeddedModel(t, name)
			prompt := m.Tokenizer.Encode("Tell me a story about a fox and a lantern in the old mill by the river, please, and let there be a friend.", model.EncodeOptions{})
			checkIdentity(t, m, prompt, 12, settings())
		})
	}
}

// withoutSlow leaves out what takes long on a big model.
func withoutSlow(table []setting) []setting {
	return slices.DeleteFunc(table, func(s setting) bool { return s.kernels == "portable" })
}

func TestBitIdentityOfRealModels(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes; without -short it runs")
	}
	for _, file := range []string{smolFile, gemmaFile} {
		t.Run(file, func(t *testing.T) {
			m := realModel(t, file)
			prompt := m.Tokenizer.Encode("The history of the lighthouse begins in a winter when", model.EncodeOptions{AddSpecial: true})
			for len(prompt) < 20 {
				prompt = append(prompt, prompt[:20-len(prompt)]...)
			}
			table := withoutSlow(settings())
			checkIdentity(t, m, prompt, 4, append(table, setting{name: "portable kernels", kernels: "portable"}))
		})
	}
}
