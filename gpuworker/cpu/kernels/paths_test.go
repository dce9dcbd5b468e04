package kernels

import (
	"math"
	"testing"

	"slicescheduler/gmg"
)

// sameBits fails at the first float that differs in any bit.
func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: element %d is %g (%08x), want %g (%08x)", what, i, got[i], math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
		}
	}
}

// TestPathsGiveTheSameBits compares every path with the portable one on random shapes.
func TestPathsGiveTheSameBits(t *testing.T) {
	r := random(t)
	for _, s := range Available() {
		for _, d := range allTypes {
			for _, size := range []float32{1, 1e-30, 1e15} {
				cols := d.BlockSize() * (1 + r.IntN(5))
				if !d.Quantised() {
					cols = 1 + r.IntN(200)
				}
				rows, n := 1+r.IntN(40), 1+r.IntN(11)
				w, host := randomWeight(t, r, d, rows, cols)
				m := packed(t, w, host)
				float := randomFloats(r, n*cols, size)
				x, y := MakeRows(n, cols, float, nil), MakeRows(n, cols, float, nil)
				if d.Quantised() {
					x, y = *quantised(s, float, cols), *quantised(Portable(), float, cols)
				}
				got, want := make([]float32, n*rows), make([]float32, n*rows)
				s.MatMul(got, rows, m, &x, 0, rows)
				Portable().MatMul(want, rows, m, &y, 0, rows)
				sameBits(t, s.Name()+" "+d.String(), got, want)
			}
		}
	}
}

// TestRowsAndSplitsLeaveNoTrace computes each row alone, and the outputs in pieces.
func TestRowsAndSplitsLeaveNoTrace(t *testing.T) {
	r := random(t)
	const n, rows, cols = 41, 37, 256
	for _, s := range Available() {
		for _, d := range allTypes {
			w, host := randomWeight(t, r, d, rows, cols)
			m := packed(t, w, host)
			float := randomFloats(r, n*cols, 1)
			whole, pieces := make([]float32, n*rows), make([]float32, n*rows)
			s.MatMul(whole, rows, m, quantised(s, float, cols), 0, rows)
			for i := range n {
				x := quantised(s, float[i*cols:(i+1)*cols], cols)
				for from := 0; from < rows; {
					to := min(rows, from+1+r.IntN(17))
					s.MatMul(pieces[i*rows+from:], rows, m, x, from, to)
					from = to
				}
			}
			sameBits(t, s.Name()+" "+d.String(), pieces, whole)
		}
	}
}

func TestElementwisePathsGiveTheSameBits(t *testing.T) {
	r := random(t)
	for _, s := range Available() {
		for range 50 {
			n := 1 + r.IntN(70)
			for _, size := range []float32{1, 40, 1e-20, 1e12} {
				a, b, w := randomFloats(r, n, size), randomFloats(r, n, 1), randomFloats(r, n, 1)
				got, want := make([]float32, n), make([]float32, n)
				for name, f := range map[string]func(s *Set, dst []float32){
					"RMSNorm": func(s *Set, dst []float32) { s.RMSNorm(dst, a, w, 1e-5, true) },
					"SiLU":    func(s *Set, dst []float32) { s.SiLU(dst, a, b) },
					"GELU":    func(s *Set, dst []float32) { s.GELU(dst, a, b) },
					"Add":     func(s *Set, dst []float32) { s.Add(dst, a, b) },
				} {
					f(s, got)
					f(Portable(), want)
					sameBits(t, s.Name()+" "+name, got, want)
				}
			}
		}
	}
}

func TestAttentionPathsGiveTheSameBits(t *testing.T) {
	r := random(t)
	for _, s := range Available() {
		for _, a := range []AttentionShape{
			{Heads: 6, KVHeads: 2, HeadDim: 64, Scale: 0.125},
			{Heads: 4, KVHeads: 1, HeadDim: 256, Scale: 0.0625, Window: 21},
			{Heads: 3, KVHeads: 3, HeadDim: 8, Scale: 0.2, SoftCap: 5},
			{Heads: 2, KVHeads: 1, HeadDim: 72, Scale: 0.2, Window: 37},
			{Heads: 2, KVHeads: 1, HeadDim: 136, Scale: 0.2, SoftCap: 5, Window: 3},
		} {
			tokens := 20 + r.IntN(60)
			p, _, _ := kvOf(r, &a, tokens)
			width := a.Heads * a.HeadDim
			q := randomFloats(r, tokens*width, 1)
			got, want := make([]float32, tokens*width), make([]float32, tokens*width)
			s.Attention(got, width, q, width, tokens, 0, p, &a, 0, a.Heads)
			for i := range tokens {
				for h := range a.Heads {
					Portable().Attention(want[i*width:], width, q[i*width:], width, 1, i, p, &a, h, h+1)
				}
			}
			sameBits(t, s.Name()+" attention", got, want)
		}
	}
}

func TestHalvesAreRoundedAlike(t *testing.T) {
	r := random(t)
	for _, s := range Available() {
		for range 1000 {
			var src [64]float32
			var got, want [64]uint16
			for i := range src {
				bits := r.Uint32()
				if i%2 == 0 { // around the range of halves
					bits = bits&0x8fffffff | 0x30000000
				}
				src[i] = math.Float32frombits(bits)
			}
			s.halves(got[:], src[:])
			halvesPortable(want[:], src[:])
			if got != want {
				t.Fatalf("%s: %v becomes %04x, want %04x", s.Name(), src, got, want)
			}
		}
	}
}

func TestNothingIsAllocated(t *testing.T) {
	r := random(t)
	a := AttentionShape{Heads: 2, KVHeads: 1, HeadDim: 64, Scale: 0.125}
	p, _, _ := kvOf(r, &a, 40)
	q, out := randomFloats(r, 128, 1), make([]float32, 128)
	for _, s := range Available() {
		for _, d := range allTypes {
			w, host := randomWeight(t, r, d, 20, 256)
			m := packed(t, w, host)
			x := quantised(s, randomFloats(r, 5*256, 1), 256)
			y := make([]float32, 5*20)
			n := testing.AllocsPerRun(5, func() {
				s.Quantize(x, 0, 5)
				s.MatMul(y, 20, m, x, 0, 19)
				s.Attention(out, 128, q, 128, 1, 39, p, &a, 0, 2)
				m.Row(x.Float, 3, 2)
			})
			if n != 0 {
				t.Errorf("%s %v: %v allocations", s.Name(), d, n)
			}
		}
	}
}

// TestPackedWeightsAreNoLarger: decode reads what Pack makes, so it must not outgrow the file.
func TestPackedWeightsAreNoLarger(t *testing.T) {
	const most = 1.05
	for _, d := range allTypes {
		bytes, err := d.RowBytes(1024)
		if err != nil {
			t.Fatal(err)
		}
		w := gmg.Weight{Rows: 64, Cols: 1024, DType: d}
		if got, file := float64(PackedBytes(w)), float64(64*bytes); got > most*file {
			t.Errorf("%v packs into %v times the bytes of the file", d, got/file)
		}
	}
}
