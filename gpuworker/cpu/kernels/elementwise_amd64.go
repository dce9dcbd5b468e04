package kernels

import "math"

// expTable are the constants of the assembly, each in 8 lanes. Read only; a variable because assembly can't read constants.
//
//lint:ignore U1000 read by assembly
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
