package kernels

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"slicescheduler/gmg"
)

// The benchmarks name what bounds them: GB/s of weights or KV against BenchmarkRead in the same run, GOP/s (2 for a multiply and add) against
// the machine's peak.

var sink float32

// BenchmarkRead is the bound of everything that streams: a plain sum over 100 MB.
func BenchmarkRead(b *testing.B) {
	x := make([]float32, 25<<20)
	for i := range x { // pages that were never written are all the same one
		x[i] = 1
	}
	s := Best()
	seconds := undisturbed(b, func() { sink += s.sumSquares(x) })
	b.ReportMetric(float64(len(x))*4/seconds/1e9, "GB/s")
}

// undisturbed runs f as often as the benchmark asks and returns its duration in seconds when nothing else takes the core: the tenth percentile, because on a
// shared machine means measure the neighbours.
func undisturbed(b *testing.B, f func()) float64 {
	var each []float64
	for b.Loop() {
		start := time.Now()
		f()
		each = append(each, time.Since(start).Seconds())
	}
	slices.Sort(each)
	return each[len(each)/10]
}

func BenchmarkMatMul(b *testing.B) {
	for _, d := range allTypes {
		for _, n := range []int{1, 4, 16, 512} {
			b.Run(fmt.Sprintf("%v/%d", d, n), func(b *testing.B) { benchMatMul(b, d, n) })
		}
	}
}

// benchMatMul cycles through matrices of 1536 x 768 that together exceed the caches, as a step over a model does.
func benchMatMul(b *testing.B, d gmg.DType, n int) {
	const rows, cols, totalBytes = 1536, 768, 64 << 20
	r := random(b)
	w, host := randomWeight(b, r, d, rows, cols)
	var ms []*Matrix
	for size := int64(0); size < totalBytes; {
		own := host
		if !d.Quantised() {
			own = append([]byte(nil), host...)
		}
		m := packed(b, w, own)
		ms, size = append(ms, m), size+m.Bytes()
	}
	s := Best()
	x := quantised(s, randomFloats(r, n*cols, 1), cols)
	out := make([]float32, n*rows)
	i := 0
	seconds := undisturbed(b, func() {
		s.MatMul(out, rows, ms[i%len(ms)], x, 0, rows)
		i++
	})
	b.ReportMetric(float64(ms[0].Bytes())/seconds/1e9, "GB/s")
	b.ReportMetric(2*rows*cols*float64(n)/seconds/1e9, "GOP/s")
}

func BenchmarkAttention(b *testing.B) {
	for _, a := range []AttentionShape{{Heads: 9, KVHeads: 3, HeadDim: 64, Scale: 0.125}, {Heads: 4, KVHeads: 1, HeadDim: 256, Scale: 0.0625}} {
		for _, rows := range []int{1, 64} {
			b.Run(fmt.Sprintf("heads=%d/dim=%d/rows=%d", a.Heads, a.HeadDim, rows), func(b *testing.B) { benchAttention(b, &a, rows) })
		}
	}
}

func benchAttention(b *testing.B, a *AttentionShape, rows int) {
	const tokens = 1024
	r := random(b)
	p, _, _ := kvOf(r, a, tokens)
	width := a.Heads * a.HeadDim
	q, out := randomFloats(r, rows*width, 0.1), make([]float32, rows*width)
	s := Best()
	seconds := undisturbed(b, func() { s.Attention(out, width, q, width, rows, tokens-rows, p, a, 0, a.Heads) })
	b.ReportMetric(float64(tokens/PageTokens)*float64(a.PageBytes())/seconds/1e9, "GB/s")
	b.ReportMetric(4*float64(rows*width)*tokens/seconds/1e9, "GOP/s")
}

func BenchmarkElementwise(b *testing.B) {
	const n = 1536
	r := random(b)
	x, y, out := randomFloats(r, n, 1), randomFloats(r, n, 1), make([]float32, n)
	rows := MakeRows(1, n, x, make([]byte, QuantBytes(1, n)))
	table := make([]float32, 64)
	RoPETable(table, 100, 64, 10000, 1, nil)
	a := AttentionShape{Heads: 24, KVHeads: 24, HeadDim: 64}
	p := Pages{Memory: make([]byte, a.PageBytes()), Table: []int32{0}}
	for _, s := range Available() {
		for name, f := range map[string]func(){
			"RMSNorm":  func() { s.RMSNorm(out, x, y, 1e-5, false) },
			"Quantize": func() { s.Quantize(&rows, 0, 1) },
			"SiLU":     func() { s.SiLU(out, x, y) },
			"GELU":     func() { s.GELU(out, x, y) },
			"Add":      func() { s.Add(out, x, y) },
			"RoPE":     func() { s.RoPE(out, 64, 64, gmg.RoPEInterleaved, table) },
			"AppendKV": func() { s.AppendKV(&a, &p, 3, x, y) },
		} {
			b.Run(s.Name()+"/"+name, func(b *testing.B) {
				for b.Loop() {
					f()
				}
				b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N)/n, "ns/element")
			})
		}
	}
}

// BenchmarkPack is what loading adds to reading a file.
func BenchmarkPack(b *testing.B) {
	r := random(b)
	for _, d := range allTypes {
		if !d.Quantised() {
			continue
		}
		b.Run(d.String(), func(b *testing.B) {
			w, host := randomWeight(b, r, d, 256, 1024)
			dst := make([]byte, PackedBytes(w))
			seconds := undisturbed(b, func() {
				if _, err := Pack(w, host, dst); err != nil {
					b.Fatal(err)
				}
			})
			b.ReportMetric(float64(w.Bytes)/seconds/1e9, "GB/s")
		})
	}
}
