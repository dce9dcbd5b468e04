package kernels

import (
	"math"
	"strconv"
)

func sumSquaresPortable(x []float32) float32 {
	var l [lanes]float32
	for i, v := range x {
		l[i%lanes] = l[i%lanes] + float32(v*v)
	}
	return sumLanes(&l)
}

func scaleByPortable(dst, src, weight []float32, factor, plus float32) {
	for i, v := range src {
		dst[i] = float32(v*factor) * (weight[i] + plus)
	}
}

// RMSNorm writes src / sqrt(mean(src^2) + eps) * weight, with weight+1 when addOne is set (weights stored as w-1). dst may be src. With len(src) a
// multiple n of len(weight), each of the n parts is a row of its own: that is the per-head norm.
func (s *Set) RMSNorm(dst, src, weight []float32, eps float32, addOne bool) {
	width := len(weight)
	mustBe("RMSNorm", width > 0 && len(src)%width == 0 && len(dst) >= len(src), len(dst), len(src), width)
	var plus float32
	if addOne {
		plus = 1
	}
	for from := 0; from < len(src); from += width {
		row := src[from : from+width]
		mean := s.sumSquares(row) / float32(width)
		factor := 1 / float32(math.Sqrt(float64(mean+eps)))
		s.scaleBy(dst[from:from+width], row, weight, factor, plus)
	}
}

func siluPortable(dst, gate, up []float32) {
	for i, g := range gate {
		dst[i] = float32(g/(1+exp32(-g))) * up[i]
	}
}

// Gemma's GELU: 0.5*x*(1+tanh(u)) = x/(1+e^-2u) with u = sqrt(2/pi)*(x + 0.044715*x^3).
const (
	geluCube  = 0.044715
	geluTwice = -2 * 0.7978845608028654
)

func geluPortable(dst, gate, up []float32) {
	for i, g := range gate {
		cube := float32(float32(g*g)*g) * geluCube
		e := exp32(float32((g + float32(cube)) * geluTwice))
		dst[i] = float32(g/(1+e)) * up[i]
	}
}

// SiLU writes silu(gate)*up (SwiGLU). dst may be gate or up.
func (s *Set) SiLU(dst, gate, up []float32) {
	mustBe("SiLU", len(up) == len(gate) && len(dst) >= len(gate), len(dst), len(gate), len(up))
	s.silu(dst[:len(gate)], gate, up)
}

// GELU writes gelu(gate)*up with the tanh form of GELU (GeGLU). dst may be gate or up.
func (s *Set) GELU(dst, gate, up []float32) {
	mustBe("GELU", len(up) == len(gate) && len(dst) >= len(gate), len(dst), len(gate), len(up))
	s.gelu(dst[:len(gate)], gate, up)
}

func addPortable(dst, a, b []float32) {
	for i, v := range a {
		dst[i] = v + b[i]
	}
}

// Add writes a + b. dst may be a or b.
func (s *Set) Add(dst, a, b []float32) {
	mustBe("Add", len(a) == len(b) && len(dst) >= len(a), len(dst), len(a), len(b))
	s.add(dst[:len(a)], a, b)
}

// SoftCap replaces each x by limit*tanh(x/limit).
func (s *Set) SoftCap(x []float32, limit float32) {
	for i, v := range x {
		x[i] = limit * tanh32(v/limit)
	}
}

// mustBe panics with the sizes at fault when a caller's buffers don't fit.
func mustBe(name string, ok bool, sizes ...int) {
	if !ok {
		panicSizes(name, append([]int(nil), sizes...)) // a copy, so that callers need not put theirs on the heap
	}
}

// panicSizes turns sizes into text one by one, so that those of a good call stay on its stack.
func panicSizes(name string, sizes []int) {
	text := "kernels: " + name + " with sizes"
	for _, n := range sizes {
		text += " " + strconv.Itoa(n)
	}
	panic(text)
}
