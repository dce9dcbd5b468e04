package kernels

import (
	"math"
	"unsafe"
)

// expTable are the constants of the assembly, each in 8 lanes. Read only; a variable because assembly can't read constants.
var expTable = [...][lanes]float32{
	eight(expLow), eight(expHigh), eight(log2e), eight(roundMagic), eight(ln2High), eight(ln2Low),
	eight(expC7), eight(expC6), eight(expC5), eight(expC4), eight(expC3), eight(expC2), eight(1),
	eight(math.Float32frombits(127)), // an integer
	eight(math.Float32frombits(1 << 31)),
	eight(geluCube), eight(geluTwice),
	eight(math.Float32frombits(1<<31 - 1)),
	eight(minScale), eight(127), eight(float32(math.Inf(-1))),
}

func eight(v float32) [lanes]float32 { return [lanes]float32{v, v, v, v, v, v, v, v} }

// seenTable gives masks of the tokens [from, to) of a page: all bits at and after token from in the 16 entries from 16-from on, and before
// token to in those from 32-to on.
var seenTable = func() (t [3 * PageTokens]uint32) {
	for i := PageTokens; i < 2*PageTokens; i++ {
		t[i] = math.MaxUint32
	}
	return t
}()

//go:noescape
func siluAVX2(dst, gate, up *float32, steps int)

//go:noescape
func geluAVX2(dst, gate, up *float32, steps int)

//go:noescape
func addAVX2(dst, a, b *float32, steps int)

//go:noescape
func sumSquaresAVX2(sums *[8]float32, x *float32, steps int)

//go:noescape
func scaleByAVX2(dst, src, weight *float32, steps int, factor, plus float32)

//go:noescape
func quantizeAVX2(ints *int8, scales *blockScale, x *float32, blocks int)

//go:noescape
func halvesAVX2(dst *uint16, src *float32, steps int)

//go:noescape
func keyScoresAVX2(scores *[16]float32, q *float32, keys *byte, headDim int)

//go:noescape
func softmaxAVX2(scores *[16]float32, state *softState, from, to int, scale float32) (factor float32)

//go:noescape
func valuesAVX2(out *float32, values *byte, weights *float32, tokens, headDim int, factor float32)

// whole8 returns how many elements of n the vector loops take; the rest goes to the portable path.
func whole8(n int) int { return n &^ (lanes - 1) }

func sumSquaresVector(x []float32) float32 {
	var l [lanes]float32
	n := whole8(len(x))
	if n > 0 {
		sumSquaresAVX2(&l, &x[0], n/lanes)
	}
	for i, v := range x[n:] {
		l[i] = l[i] + float32(v*v)
	}
	return sumLanes(&l)
}

func pageAVX2(a *pageArgs) {
	var scores [PageTokens]float32
	keyScoresAVX2(&scores, &a.q[0], &a.keys[0], len(a.q))
	factor := float32(1)
	if a.cap != 0 {
		pageSoftmax(&scores, a)
	} else {
		factor = softmaxAVX2(&scores, a.state, a.from, a.to, a.scale)
	}
	values := unsafe.Pointer(&a.values[a.from*len(a.out)*halfBytes])
	valuesAVX2(&a.out[0], (*byte)(values), &scores[a.from], a.to-a.from, len(a.out), factor)
}
