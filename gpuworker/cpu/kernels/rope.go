package kernels

import (
	"math"

	"slicescheduler/gmg"
)

// RoPETable writes cosine and sine of one position's angles as pairs: dst[2i], dst[2i+1] for i < dims/2. The angle of pair i is
// position/linearScale * base^(-2i/dims) / factor[i] (no factors when nil; linearScale 1 for none). Computed in float64 and rounded once; the same on
// every machine. dst has dims floats.
func RoPETable(dst []float32, position, dims int, base, linearScale float32, factor []float32) {
	mustBe("RoPETable", dims%2 == 0 && len(dst) >= dims && (factor == nil || len(factor) >= dims/2), len(dst), dims, len(factor))
	logBase := log64(float64(base))
	for i := range dims / 2 {
		f := exp64(float64(-logBase*float64(2*i)) / float64(dims))
		if factor != nil {
			f = f / float64(factor[i])
		}
		cos, sin := cosSin64(float64(float64(position)*f) / float64(linearScale))
		dst[2*i], dst[2*i+1] = float32(cos), float32(sin)
	}
}

// RoPE rotates the first dims elements of every head of x (a whole number of heads of headDim) by a table of RoPETable, in place.
func (s *Set) RoPE(x []float32, headDim, dims int, style gmg.RoPEStyle, table []float32) {
	mustBe("RoPE", headDim > 0 && len(x)%headDim == 0 && dims <= headDim && dims%2 == 0 && len(table) >= dims, len(x), headDim, dims, len(table))
	step, apart := 2, 1
	if style == gmg.RoPEHalves {
		step, apart = 1, dims/2
	}
	for ; len(x) > 0; x = x[headDim:] {
		for i := range dims / 2 {
			a, b := x[i*step], x[i*step+apart]
			cos, sin := table[2*i], table[2*i+1]
			x[i*step] = float32(a*cos) - float32(b*sin)
			x[i*step+apart] = float32(a*sin) + float32(b*cos)
		}
	}
}

// The functions below are float64 series with every operation rounded, because the compiler may fuse those of package math differently by
// architecture. Their errors are a few units in float64's last place: nothing is left of it after rounding to float32.

const ln2 = math.Ln2

// log64 returns the natural logarithm of a positive x: 2*atanh((m-1)/(m+1)) + e*ln2 with m in [0.7, 1.4].
func log64(x float64) float64 {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = m*2, e-1
	}
	z := (m - 1) / (m + 1)
	z2 := float64(z * z)
	var sum float64
	for k := 41; k >= 1; k -= 2 {
		sum = float64(sum*z2) + 1/float64(k)
	}
	return float64(2*float64(z*sum)) + float64(float64(e)*ln2)
}

// exp64 returns e^x by Taylor's series after taking out powers of two.
func exp64(x float64) float64 {
	const ln2High, ln2Low = 6.93147180369123816490e-01, 1.90821492927058770002e-10
	n := math.RoundToEven(x / ln2)
	r := x - float64(n*ln2High)
	r = r - float64(n*ln2Low)
	sum := 1.0
	for k := 18; k >= 1; k-- {
		sum = float64(float64(sum*r)/float64(k)) + 1
	}
	return math.Ldexp(sum, int(n))
}

// cosSin64 returns cosine and sine for |x| below 1e6, by Taylor's series after taking out quarter turns.
func cosSin64(x float64) (cos, sin float64) {
	const high, mid, low = 1.57079632673412561417e+00, 6.07710050630396597660e-11, 2.02226624879595063154e-21
	n := math.RoundToEven(x / (math.Pi / 2))
	r := x - float64(n*high)
	r = r - float64(n*mid)
	r = r - float64(n*low)
	r2 := float64(r * r)
	c, s := 1.0, 1.0
	for k := 20; k >= 2; k -= 2 {
		c = 1 - float64(float64(c*r2)/float64(k*(k-1)))
		s = 1 - float64(float64(s*r2)/float64(k*(k+1)))
	}
	s = float64(s * r)
	switch int64(n) & 3 {
	case 0:
		return c, s
	case 1:
		return -s, c
	case 2:
		return -c, -s
	}
	return s, -c
}
