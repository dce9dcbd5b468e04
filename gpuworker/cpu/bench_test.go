package cpu_test

import (
	"fmt"
	"testing"

	"slicescheduler/gpuworker"
	"slicescheduler/gpuworker/cpu"
)

// bench is a loaded model with batches to run.
type bench struct {
	b     *testing.B
	slice *gpuworker.SliceRunner
	pages int // of one sequence
}

const benchContext = 640

func newBench(b *testing.B, file string, config cpu.Config) *bench {
	m := realModel(b, file)
	pages := benchContext / gpuworker.BlockTokens
	s, err := gpuworker.LoadSlice(b.Context(), open(b, 1, config)[0], m,
		gpuworker.SliceConfig{Graph: m.Graph, Stages: m.Graph.Whole(), KVBlocks: 16 * pages, MaxRows: 512, MaxLogits: 16}, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return &bench{b, s, pages}
}

// batch is a step of sequences with rows each, from position start on.
func (n *bench) batch(sequences, rows, start int) *gpuworker.Batch {
	b := new(gpuworker.Batch)
	for q := range sequences {
		span := gpuworker.Span{First: len(b.Tokens), Rows: rows, Start: start}
		for p := range n.pages {
			span.Blocks = append(span.Blocks, int32(q*n.pages+p))
		}
		for i := range rows {
			b.Tokens = append(b.Tokens, int32(1000+37*(q+i)%5000))
		}
		b.Sequences = append(b.Sequences, span)
		b.LogitRows = append(b.LogitRows, int32(len(b.Tokens)-1))
	}
	return b
}

func (n *bench) run(b *gpuworker.Batch) {
	e := n.slice.Run(gpuworker.QueueHome, 0, b)
	<-e.Done()
	if e.Err() != nil {
		n.b.Fatal(e.Err())
	}
}

// BenchmarkSteps gives tokens a second through SliceRunner: decode at a context of 32 to 96 tokens, and prefill.
func BenchmarkSteps(b *testing.B) {
	for _, file := range []string{smolFile, gemmaFile} {
		for _, cores := range []int{1, 2} {
			for _, sequences := range []int{1, 4, 8, 16} {
				b.Run(fmt.Sprintf("%s/cores=%d/decode/batch=%d", file[:6], cores, sequences), func(b *testing.B) {
					n := newBench(b, file, cpu.Config{Cores: cores})
					n.run(n.batch(sequences, 32, 0))
					batches := make([]*gpuworker.Batch, 64)
					for i := range batches {
						batches[i] = n.batch(sequences, 1, 32+i)
					}
					for i := 0; b.Loop(); i++ {
						n.run(batches[i%len(batches)])
					}
					b.ReportMetric(float64(sequences)*float64(b.N)/b.Elapsed().Seconds(), "tok/s")
				})
			}
			b.Run(fmt.Sprintf("%s/cores=%d/prefill/tokens=512", file[:6], cores), func(b *testing.B) {
				n := newBench(b, file, cpu.Config{Cores: cores})
				batch := n.batch(1, 512, 0)
				for b.Loop() {
					n.run(batch)
				}
				b.ReportMetric(512*float64(b.N)/b.Elapsed().Seconds(), "tok/s")
			})
		}
	}
}
