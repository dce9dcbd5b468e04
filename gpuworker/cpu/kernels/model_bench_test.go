package kernels

import (
	"fmt"
	"testing"

	"slicescheduler/gmg"
)

// smol is the kernels of one step of SmolLM2-135M with random weights: the same shapes, bytes and calls as the model, on one thread.
type smol struct {
	s      *Set
	a      AttentionShape
	layers []smolLayer
	head   *Matrix
	norm   []float32
	rows   int
	start  int

	x, h, qkv, gate, up, logits []float32
	hQuant, gQuant              []byte
	table                       []float32
}

type smolLayer struct {
	q, k, v, o, gate, up, down *Matrix
	pages                      Pages
}

const (
	smolHidden, smolFFN, smolVocab = 576, 1536, 49152
	smolQKV                        = smolHidden + 2*192
)

func newSmol(b *testing.B, d gmg.DType, rows, start int) *smol {
	r := random(b)
	matrix := func(rows, cols int) *Matrix {
		w, host := randomWeight(b, r, d, rows, cols)
		return packed(b, w, host)
	}
	m := &smol{s: Best(), a: AttentionShape{Heads: 9, KVHeads: 3, HeadDim: 64, Scale: 0.125}, head: matrix(smolVocab, smolHidden),
		norm: randomFloats(r, smolHidden, 1), rows: rows, start: start, table: make([]float32, 64)}
	pages := (start+rows)/PageTokens + 1
	for range 30 {
		l := smolLayer{q: matrix(576, 576), k: matrix(192, 576), v: matrix(192, 576), o: matrix(576, 576),
			gate: matrix(1536, 576), up: matrix(1536, 576), down: matrix(576, 1536)}
		l.pages = Pages{Memory: make([]byte, pages*int(m.a.PageBytes())), StrideBytes: int(m.a.PageBytes())}
		for i := range pages {
			l.pages.Table = append(l.pages.Table, int32(i))
		}
		m.layers = append(m.layers, l)
	}
	m.x, m.h, m.qkv = randomFloats(r, rows*smolHidden, 1), make([]float32, rows*smolHidden), make([]float32, rows*smolQKV)
	m.gate, m.up, m.logits = make([]float32, rows*smolFFN), make([]float32, rows*smolFFN), make([]float32, smolVocab)
	m.hQuant, m.gQuant = make([]byte, QuantBytes(rows, smolHidden)), make([]byte, QuantBytes(rows, smolFFN))
	return m
}

func (m *smol) normed(q bool) *Rows {
	m.s.RMSNorm(m.h, m.x, m.norm, 1e-5, false)
	r := MakeRows(m.rows, smolHidden, m.h, m.hQuant)
	if q {
		m.s.Quantize(&r, 0, m.rows)
	}
	return &r
}

func (m *smol) step(spent *[4]int64, now func() int64) {
	q := m.head.Quantised()
	for i := range m.layers {
		l := &m.layers[i]
		t0 := now()
		x := m.normed(q)
		t1 := now()
		m.s.MatMul(m.qkv, smolQKV, l.q, x, 0, 576)
		m.s.MatMul(m.qkv[576:], smolQKV, l.k, x, 0, 192)
		m.s.MatMul(m.qkv[768:], smolQKV, l.v, x, 0, 192)
		t2 := now()
		for row := range m.rows {
			at := m.qkv[row*smolQKV:][:smolQKV]
			m.s.RoPE(at[:768], 64, 64, gmg.RoPEInterleaved, m.table)
			m.s.AppendKV(&m.a, &l.pages, m.start+row, at[576:768], at[768:])
		}
		t3 := now()
		m.s.Attention(m.h, smolHidden, m.qkv, smolQKV, m.rows, m.start, &l.pages, &m.a, 0, 9)
		t4 := now()
		o := MakeRows(m.rows, smolHidden, m.h, m.hQuant)
		if q {
			m.s.Quantize(&o, 0, m.rows)
		}
		t5 := now()
		m.s.MatMul(m.qkv, smolHidden, l.o, &o, 0, 576)
		t6 := now()
		m.s.Add(m.x, m.x, m.qkv[:m.rows*smolHidden])
		x = m.normed(q)
		t7 := now()
		m.s.MatMul(m.gate, smolFFN, l.gate, x, 0, 1536)
		m.s.MatMul(m.up, smolFFN, l.up, x, 0, 1536)
		t8 := now()
		m.s.SiLU(m.gate, m.gate, m.up)
		g := MakeRows(m.rows, smolFFN, m.gate, m.gQuant)
		if q {
			m.s.Quantize(&g, 0, m.rows)
		}
		t9 := now()
		m.s.MatMul(m.qkv, smolHidden, l.down, &g, 0, 576)
		t10 := now()
		m.s.Add(m.x, m.x, m.qkv[:m.rows*smolHidden])
		t11 := now()
		spent[0] += t2 - t1 + t6 - t5 + t8 - t7 + t10 - t9
		spent[1] += t4 - t3
		spent[2] += t1 - t0 + t5 - t4 + t7 - t6 + t9 - t8 + t11 - t10
		spent[3] += t3 - t2
	}
	t0 := now()
	x := m.normed(q)
	last := *x
	last.N, last.Float = 1, x.Float[:smolHidden]
	if q {
		last.ints, last.scales = x.ints[:smolHidden], x.scales[:smolHidden/blockCols]
	}
	m.s.MatMul(m.logits, smolVocab, m.head, &last, 0, smolVocab)
	spent[0] += now() - t0
}

// BenchmarkSmolLM2 runs decode at a context of 100 and prefill of 512 tokens, and says which share of the time goes where.
func BenchmarkSmolLM2(b *testing.B) {
	for _, d := range []gmg.DType{gmg.Q4_1, gmg.Q4_0, gmg.Q8_0, gmg.F16} {
		b.Run(fmt.Sprintf("%v/decode", d), func(b *testing.B) { benchSmol(b, d, 1, 100) })
		b.Run(fmt.Sprintf("%v/prefill", d), func(b *testing.B) { benchSmol(b, d, 512, 0) })
	}
}

func benchSmol(b *testing.B, d gmg.DType, rows, start int) {
	m := newSmol(b, d, rows, start)
	var spent [4]int64
	now := func() int64 { return b.Elapsed().Nanoseconds() }
	for b.Loop() {
		m.step(&spent, now)
	}
	total := float64(b.Elapsed().Nanoseconds())
	b.ReportMetric(float64(b.N*rows)/total*1e9, "tok/s")
	for i, name := range []string{"%matmul", "%attention", "%elementwise", "%rope+kv"} {
		b.ReportMetric(100*float64(spent[i])/total, name)
	}
}
