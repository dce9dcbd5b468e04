package kernels

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"slicescheduler/gmg"
	"slicescheduler/model/quant"
)

var allTypes = []gmg.DType{gmg.F32, gmg.F16, gmg.BF16, gmg.Q8_0, gmg.Q4_0, gmg.Q4_1, gmg.Q5_0, gmg.Q5_1, gmg.Q4_K, gmg.Q5_K, gmg.Q6_K}

// random returns a generator whose seed is printed on failure and taken from SLICER_SEED.
func random(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	if s, err := strconv.ParseUint(os.Getenv("SLICER_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("SLICER_SEED=%d repeats this", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 1))
}

func randomFloats(r *rand.Rand, n int, size float32) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64()) * size
		if r.IntN(50) == 0 {
			x[i] *= 30
		}
	}
	return x
}

// randomWeight returns a weight of any type with random bytes and sane scales.
func randomWeight(t testing.TB, r *rand.Rand, d gmg.DType, rows, cols int) (gmg.Weight, []byte) {
	t.Helper()
	rowBytes, err := d.RowBytes(cols)
	if err != nil {
		t.Fatal(err)
	}
	w := gmg.Weight{Name: d.String(), Rows: rows, Cols: cols, DType: d, Bytes: rowBytes * int64(rows)}
	host := make([]byte, w.Bytes)
	if !d.Quantised() {
		if err := quant.Quantize(d, randomFloats(r, rows*cols, 0.1), host); err != nil {
			t.Fatal(err)
		}
		return w, host
	}
	for i := range host {
		host[i] = byte(r.Uint32())
	}
	for at := 0; at < len(host); at += d.BlockBytes() {
		b := host[at : at+d.BlockBytes()]
		scale := func(i int) {
			h := floatToHalf(float32(r.NormFloat64()) * 0.01)
			b[i], b[i+1] = byte(h), byte(h>>8)
		}
		switch d {
		case gmg.Q6_K:
			scale(208)
		case gmg.Q4_1, gmg.Q5_1, gmg.Q4_K, gmg.Q5_K:
			scale(2)
			fallthrough
		default:
			scale(0)
		}
	}
	return w, host
}

func packed(t testing.TB, w gmg.Weight, host []byte) *Matrix {
	t.Helper()
	m, err := Pack(w, host, make([]byte, PackedBytes(w)))
	if err != nil {
		t.Fatal(err)
	}
	return &m
}

func quantised(s *Set, x []float32, cols int) *Rows {
	n := len(x) / cols
	r := MakeRows(n, cols, x, make([]byte, QuantBytes(n, cols)))
	s.Quantize(&r, 0, n)
	return &r
}

func TestRowEqualsTheFilesFormat(t *testing.T) {
	r := random(t)
	for _, d := range allTypes {
		w, host := randomWeight(t, r, d, 11, 512)
		m := packed(t, w, host)
		want := make([]float32, 11*512)
		if err := quant.Dequantize(d, host, want); err != nil {
			t.Fatal(err)
		}
		got := make([]float32, 512)
		for row := range w.Rows {
			m.Row(got, row, 1)
			for c, v := range got {
				if e := math.Abs(float64(v - want[row*512+c])); e > 1e-5*math.Max(0.1, math.Abs(float64(v))) {
					t.Fatalf("%v row %d column %d: %g, want %g", d, row, c, v, want[row*512+c])
				}
			}
		}
	}
}

// TestMatMulNearExact compares products with float64 ones of the same rounded activations, so that only the order of sums is left.
func TestMatMulNearExact(t *testing.T) {
	r := random(t)
	for _, d := range allTypes {
		w, host := randomWeight(t, r, d, 19, 512)
		m := packed(t, w, host)
		weights := make([]float32, w.Rows*w.Cols)
		if err := quant.Dequantize(d, host, weights); err != nil {
			t.Fatal(err)
		}
		for _, s := range Available() {
			x := quantised(s, randomFloats(r, 3*512, 1), 512)
			out := make([]float32, 3*w.Rows)
			s.MatMul(out, w.Rows, m, x, 0, w.Rows)
			for i := range 3 {
				for f := range w.Rows {
					want, size := exactDot(m, x, i, weights[f*512:][:512])
					if e := math.Abs(float64(out[i*w.Rows+f]) - want); e > 3e-6*size {
						t.Fatalf("%s %v row %d output %d: %g, want %g", s.Name(), d, i, f, out[i*w.Rows+f], want)
					}
				}
			}
		}
	}
}

// exactDot also returns the sum of magnitudes, against which an error is to be judged.
func exactDot(m *Matrix, x *Rows, row int, weights []float32) (sum, size float64) {
	for c, w := range weights {
		v := float64(x.Float[row*x.Cols+c])
		if m.Quantised() {
			at := row*x.Cols + c
			v = float64(x.ints[at]) * float64(x.scales[at/blockCols].scale[c%blockCols/unitCols])
		}
		sum += v * float64(w)
		size += math.Abs(v*float64(w)) + math.Abs(v)*0.1
	}
	return sum, size
}

func TestQuantizeRoundsToTheNearest(t *testing.T) {
	r := random(t)
	x := quantised(Portable(), randomFloats(r, 64*10, 3), 64)
	for i, v := range x.Float {
		scale := x.scales[i/blockCols].scale[i%blockCols/unitCols]
		if e := math.Abs(float64(v) - float64(x.ints[i])*float64(scale)); e > 0.5001*float64(scale) {
			t.Fatalf("element %d: %g became %d x %g", i, v, x.ints[i], scale)
		}
	}
}

func TestHalvesEqualTheirDefinition(t *testing.T) {
	for h := range 1 << 16 {
		f := halfToFloat(uint16(h))
		exp, frac := h>>10&31, float64(h&1023)
		want := math.Ldexp(1+frac/1024, exp-15)
		switch exp {
		case 0:
			want = math.Ldexp(frac, -24)
		case 31:
			continue
		}
		if h>>15 == 1 {
			want = -want
		}
		if float64(f) != want || floatToHalf(f) != uint16(h) {
			t.Fatalf("half %04x is %g and back %04x, want %g", h, f, floatToHalf(f), want)
		}
	}
	for h := uint16(0); h < 0x7bff; h++ { // the midpoint goes to the even neighbour, its neighbours to the nearest
		mid := (halfToFloat(h) + halfToFloat(h+1)) / 2
		below, above := math.Nextafter32(mid, 0), math.Nextafter32(mid, 1e9)
		if floatToHalf(mid) != h+h&1 || floatToHalf(below) != h || floatToHalf(above) != h+1 {
			t.Fatalf("around %g: %04x %04x %04x, want %04x %04x %04x", mid, floatToHalf(below), floatToHalf(mid), floatToHalf(above), h, h+h&1, h+1)
		}
	}
}

func TestExpIsClose(t *testing.T) {
	r := random(t)
	for range 100000 {
		x := float32(r.Float64()*175 - 87)
		want := math.Exp(float64(x))
		if e := math.Abs(float64(exp32(x))-want) / want; e > 2.5e-7 {
			t.Fatalf("exp(%g) = %g, want %g", x, exp32(x), want)
		}
	}
	if exp32(float32(math.Inf(-1))) != 0 || exp32(0) != 1 || math.IsInf(float64(exp32(1000)), 0) {
		t.Fatal("exp at its ends")
	}
}

func TestRoPETableIsClose(t *testing.T) {
	table := make([]float32, 64)
	for _, base := range []float32{10000, 100000, 1e6, 500000} {
		for _, position := range []int{0, 1, 17, 511, 8191, 131071} {
			RoPETable(table, position, 64, base, 1, nil)
			for i := range 32 {
				// The angle needs more than float64 to serve as a reference at far positions.
				freq := new(big.Float).SetPrec(80).SetFloat64(math.Pow(float64(base), -float64(2*i)/64))
				angle, _ := freq.Mul(freq, big.NewFloat(float64(position))).Float64()
				if math.Abs(float64(table[2*i])-math.Cos(angle)) > 1e-7 || math.Abs(float64(table[2*i+1])-math.Sin(angle)) > 1e-7 {
					t.Fatalf("base %g position %d pair %d: %g %g, want %g %g", base, position, i, table[2*i], table[2*i+1], math.Cos(angle), math.Sin(angle))
				}
			}
		}
	}
}

func TestPackRefusesWrongWeights(t *testing.T) {
	for name, c := range map[string]struct {
		w         gmg.Weight
		host, dst int
	}{
		"cut short":     {gmg.Weight{Rows: 8, Cols: 32, DType: gmg.Q8_0}, 8*34 - 1, 4096},
		"no whole rows": {gmg.Weight{Rows: 8, Cols: 33, DType: gmg.Q8_0}, 8 * 34, 4096},
		"no rows":       {gmg.Weight{Rows: 0, Cols: 32, DType: gmg.F32}, 0, 0},
		"no type":       {gmg.Weight{Rows: 1, Cols: 32}, 0, 0},
		"small dst":     {gmg.Weight{Rows: 8, Cols: 32, DType: gmg.Q8_0}, 8 * 34, 8},
	} {
		if _, err := Pack(c.w, make([]byte, c.host), make([]byte, c.dst)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := Named("quantum"); err == nil {
		t.Error("an unknown path is given")
	}
}

func TestAttentionNearExact(t *testing.T) {
	r := random(t)
	for _, s := range Available() {
		for _, a := range []AttentionShape{
			{Heads: 9, KVHeads: 3, HeadDim: 64, Scale: 0.125},
			{Heads: 4, KVHeads: 1, HeadDim: 256, Scale: 0.0625, Window: 21},
			{Heads: 2, KVHeads: 2, HeadDim: 24, Scale: 0.2, SoftCap: 5},
		} {
			t.Run(fmt.Sprintf("%s/%d", s.Name(), a.HeadDim), func(t *testing.T) { checkAttention(t, r, s, &a) })
		}
	}
}

// kvOf fills pages of a sequence in shuffled places, and returns keys and values as they were rounded.
func kvOf(r *rand.Rand, a *AttentionShape, tokens int) (p *Pages, keys, values []float32) {
	count, stride := (tokens+PageTokens-1)/PageTokens, int(a.PageBytes())+64
	p = &Pages{Memory: make([]byte, (count+3)*stride), StrideBytes: stride, OffsetBytes: 32}
	for i := range p.Memory {
		p.Memory[i] = 0xff // NaN, which must never be read
	}
	for _, i := range r.Perm(count + 3)[:count] {
		p.Table = append(p.Table, int32(i))
	}
	n := a.KVHeads * a.HeadDim
	keys, values = randomFloats(r, tokens*n, 1), randomFloats(r, tokens*n, 1)
	for i := range keys {
		keys[i], values[i] = halfToFloat(floatToHalf(keys[i])), halfToFloat(floatToHalf(values[i]))
	}
	for t := range tokens {
		Portable().AppendKV(a, p, t, keys[t*n:(t+1)*n], values[t*n:(t+1)*n])
	}
	return p, keys, values
}

func checkAttention(t *testing.T, r *rand.Rand, s *Set, a *AttentionShape) {
	const tokens = 53
	p, keys, values := kvOf(r, a, tokens)
	width, n := a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
	q := randomFloats(r, tokens*width, 0.1)
	out := make([]float32, tokens*width)
	s.Attention(out, width, q, width, tokens, 0, p, a, 0, a.Heads)
	for i := range tokens {
		for h := range a.Heads {
			at := h / (a.Heads / a.KVHeads) * a.HeadDim
			want := exactAttention(q[i*width+h*a.HeadDim:][:a.HeadDim], keys[at:], values[at:], n, i, a)
			for d, v := range want {
				if got := out[i*width+h*a.HeadDim+d]; math.Abs(float64(got)-v) > 2e-5*(1+math.Abs(v)) {
					t.Fatalf("row %d head %d element %d: %g, want %g", i, h, d, got, v)
				}
			}
		}
	}
}

func exactAttention(q, keys, values []float32, stride, position int, a *AttentionShape) []float64 {
	out := make([]float64, len(q))
	var total float64
	first := 0
	if a.Window > 0 {
		first = max(0, position+1-a.Window)
	}
	for t := first; t <= position; t++ {
		var dot float64
		for d, v := range q {
			dot += float64(v) * float64(keys[t*stride+d])
		}
		dot *= float64(a.Scale)
		if a.SoftCap != 0 {
			dot = float64(a.SoftCap) * math.Tanh(dot/float64(a.SoftCap))
		}
		w := math.Exp(dot)
		total += w
		for d := range out {
			out[d] += w * float64(values[t*stride+d])
		}
	}
	for d := range out {
		out[d] /= total
	}
	return out
}
