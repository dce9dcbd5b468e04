package kernels

import "golang.org/x/sys/cpu"

func machinePaths() []path {
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA { // every machine that has both has F16C, which the package can't ask for
		return []path{pathAVX2}
	}
	return nil
}

func (s *Set) sumSquares(x []float32) float32 {
	if s.path == pathAVX2 {
		return sumSquaresVector(x)
	}
	return sumSquaresPortable(x)
}

func (s *Set) scaleBy(dst, src, weight []float32, factor, plus float32) {
	n := 0
	if s.path == pathAVX2 {
		if n = whole8(len(src)); n > 0 {
			scaleByAVX2(&dst[0], &src[0], &weight[0], n/lanes, factor, plus)
		}
	}
	scaleByPortable(dst[n:], src[n:], weight[n:], factor, plus)
}

func (s *Set) silu(dst, gate, up []float32) {
	n := 0
	if s.path == pathAVX2 {
		if n = whole8(len(gate)); n > 0 {
			siluAVX2(&dst[0], &gate[0], &up[0], n/lanes)
		}
	}
	siluPortable(dst[n:], gate[n:], up[n:])
}

func (s *Set) gelu(dst, gate, up []float32) {
	n := 0
	if s.path == pathAVX2 {
		if n = whole8(len(gate)); n > 0 {
			geluAVX2(&dst[0], &gate[0], &up[0], n/lanes)
		}
	}
	geluPortable(dst[n:], gate[n:], up[n:])
}

func (s *Set) add(dst, a, b []float32) {
	n := 0
	if s.path == pathAVX2 {
		if n = whole8(len(a)); n > 0 {
			addAVX2(&dst[0], &a[0], &b[0], n/lanes)
		}
	}
	addPortable(dst[n:], a[n:], b[n:])
}

func (s *Set) quantize(ints []int8, scales []blockScale, x []float32) {
	if s.path == pathAVX2 {
		quantizeAVX2(&ints[0], &scales[0], &x[0], len(scales))
		return
	}
	quantizePortable(ints, scales, x)
}

func (s *Set) group(out []float32, stride int, m *Matrix, group int, x *Rows, first, n int) {
	if s.path == pathAVX2 {
		groupAVX2(out, stride, m, group, x, first, n)
		return
	}
	groupPortable(out, stride, m, group, x, first, n)
}

func (s *Set) dots(out []float32, stride int, m *Matrix, from, to int, x *Rows, first, n int) {
	if s.path == pathAVX2 {
		dotsAVX2(out, stride, m, from, to, x, first, n)
		return
	}
	dotsPortable(out, stride, m, from, to, x, first, n)
}

func (s *Set) page(a *pageArgs) {
	if s.path == pathAVX2 {
		pageAVX2(a)
		return
	}
	pagePortable(a)
}

func (s *Set) halves(dst []uint16, src []float32) {
	n := 0
	if s.path == pathAVX2 {
		if n = whole8(len(dst)); n > 0 {
			halvesAVX2(&dst[0], &src[0], n/lanes)
		}
	}
	halvesPortable(dst[n:], src[n:])
}

// tile computes one head of some of the rows together and returns how many, 0 when they are better done one by one.
func (s *Set) tile(out []float32, outStride int, q []float32, qStride, rows, start int, p *Pages, a *AttentionShape, kvHead int) int {
	n := min(rows, tileRows)
	if s.path != pathAVX2 || n < tileFewest || a.HeadDim > tileHeadDims {
		return 0
	}
	tileAVX2(out, outStride, q, qStride, n, start, p, a, kvHead)
	return n
}
