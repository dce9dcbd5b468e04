// Package enginetest is the least that can serve a model over slices: it forms steps as it is told, keeps page tables and samples greedily. Tests use it to
// run the same sequences under many settings and compare what comes out, bit by bit.
package enginetest

import (
	"hash/fnv"
	"math"
	"testing"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
	"slicescheduler/model"
)

// Config says how a model is laid out.
type Config struct {
	Devices            []gpuworker.Device // one slice each
	Cuts               []int              // stages before which the graph is cut, one fewer than devices
	KVBlocks           int
	MaxRows, MaxLogits int
	Queue              gpuworker.Queue
	CopyThroughHost    bool // hidden rows go by ReadOut and WriteIn, as between hosts
}

// Engine runs sequences over a lane of slices.
type Engine struct {
	t      testing.TB
	config Config
	model  *model.Model
	graph  *gmg.Graph
	slices []*gpuworker.SliceRunner
	free   []int32 // pages
	refs   []int   // of each page
	batch  gpuworker.Batch
}

// Sequence is a prompt and the answer so far.
type Sequence struct {
	Tokens   []int32 // prompt and answer
	Prompt   int     // tokens of the prompt
	Computed int     // tokens whose KV is there
	// Logits holds, for each token of the answer, a hash of the bits of the logits that it was chosen from.
	Logits []uint64
	Last   []float32 // the latest logits, when Keep is set
	Keep   bool
	pages  []int32
}

// Answer returns the tokens after the prompt.
func (s *Sequence) Answer() []int32 { return s.Tokens[s.Prompt:] }

// New loads a model. Everything is released when the test ends.
func New(t testing.TB, m *model.Model, c Config) *Engine {
	t.Helper()
	e := &Engine{t: t, config: c, model: m, graph: m.Graph, refs: make([]int, c.KVBlocks)}
	e.slices = e.load(nil)
	t.Cleanup(func() { e.close(e.slices) })
	for i := c.KVBlocks - 1; i >= 0; i-- {
		e.free = append(e.free, int32(i))
	}
	return e
}

// Add returns a new sequence; nothing runs yet.
func (e *Engine) Add(prompt []int32) *Sequence {
	return &Sequence{Tokens: append([]int32(nil), prompt...), Prompt: len(prompt)}
}

// Share gives a fresh sequence the full pages of a prefix that another one has computed, all but the last token of its prompt.
func (e *Engine) Share(to, from *Sequence) {
	n := 0
	for n < min(len(to.Tokens)-1, from.Computed) && to.Tokens[n] == from.Tokens[n] {
		n++
	}
	full := n / gpuworker.BlockTokens
	to.pages = append(to.pages, from.pages[:full]...)
	for _, p := range to.pages {
		e.refs[p]++
	}
	to.Computed = full * gpuworker.BlockTokens
}

// Drop takes a sequence's pages away, as preemption does; it is recomputed from prompt and answer.
func (e *Engine) Drop(s *Sequence) {
	e.release(s.pages)
	s.pages, s.Computed = nil, 0
}

func (e *Engine) release(pages []int32) {
	for _, p := range pages {
		if e.refs[p]--; e.refs[p] == 0 {
			e.free = append(e.free, p)
		}
	}
}

// Part is a sequence's share of a step: up to Rows of its tokens that aren't computed yet.
type Part struct {
	Sequence *Sequence
	Rows     int
}

// Step runs one step. Sequences that are computed up to their last token get one more, chosen greedily.
func (e *Engine) Step(parts ...Part) {
	e.t.Helper()
	b := &e.batch
	b.Tokens, b.Sequences, b.LogitRows = b.Tokens[:0], b.Sequences[:0], b.LogitRows[:0]
	var sampled []*Sequence
	for _, p := range parts {
		s := p.Sequence
		n := min(p.Rows, len(s.Tokens)-s.Computed)
		e.grow(s, s.Computed+n)
		b.Sequences = append(b.Sequences, gpuworker.Span{First: len(b.Tokens), Rows: n, Start: s.Computed, Blocks: s.pages})
		b.Tokens = append(b.Tokens, s.Tokens[s.Computed:s.Computed+n]...)
		if s.Computed += n; s.Computed == len(s.Tokens) {
			b.LogitRows = append(b.LogitRows, int32(len(b.Tokens)-1))
			sampled = append(sampled, s)
		}
	}
	e.run()
	for i, s := range sampled {
		e.sample(s, e.slices[len(e.slices)-1].Logits(0, i))
	}
}

func (e *Engine) grow(s *Sequence, tokens int) {
	for len(s.pages)*gpuworker.BlockTokens < tokens {
		if len(e.free) == 0 {
			e.t.Fatal("out of KV pages")
		}
		p := e.free[len(e.free)-1]
		e.free = e.free[:len(e.free)-1]
		e.refs[p]++
		s.pages = append(s.pages, p)
	}
}

func (e *Engine) run() {
	e.t.Helper()
	for i, s := range e.slices {
		e.must(s.Run(e.config.Queue, 0, &e.batch))
		if i+1 == len(e.slices) {
			e.must(s.FetchLogits(gpuworker.QueueCopy, 0, len(e.batch.LogitRows)))
			return
		}
		if !e.config.CopyThroughHost {
			e.must(s.PassTo(gpuworker.QueueCopy, 0, e.slices[i+1], e.batch.Rows()))
			continue
		}
		rows := make([]byte, e.batch.Rows()*e.graph.Hidden*4)
		e.must(s.ReadOut(gpuworker.QueueCopy, 0, e.batch.Rows(), rows))
		e.must(e.slices[i+1].WriteIn(gpuworker.QueueCopy, 0, e.batch.Rows(), rows))
	}
}

func (e *Engine) must(event gpuworker.Event) {
	e.t.Helper()
	<-event.Done()
	if err := event.Err(); err != nil {
		e.t.Fatal(err)
	}
}

func (e *Engine) sample(s *Sequence, logits []float32) {
	best := 0
	for i, x := range logits {
		if x > logits[best] {
			best = i
		}
	}
	h := fnv.New64a()
	for _, x := range logits {
		b := math.Float32bits(x)
		_, _ = h.Write([]byte{byte(b), byte(b >> 8), byte(b >> 16), byte(b >> 24)})
	}
	s.Logits = append(s.Logits, h.Sum64())
	if s.Keep {
		s.Last = append(s.Last[:0], logits...)
	}
	s.Tokens = append(s.Tokens, int32(best))
}

// Generate runs a sequence alone until it has answered n tokens, with prefill in chunks.
func (e *Engine) Generate(s *Sequence, n, chunk int) {
	e.t.Helper()
	for len(s.Answer()) < n {
		e.Step(Part{s, chunk})
	}
}
