//go:build !amd64

package kernels

func machinePaths() []path { return nil }

func (s *Set) sumSquares(x []float32) float32 { return sumSquaresPortable(x) }

func (s *Set) scaleBy(dst, src, weight []float32, factor, plus float32) {
	scaleByPortable(dst, src, weight, factor, plus)
}

func (s *Set) silu(dst, gate, up []float32) { siluPortable(dst, gate, up) }

func (s *Set) gelu(dst, gate, up []float32) { geluPortable(dst, gate, up) }

func (s *Set) add(dst, a, b []float32) { addPortable(dst, a, b) }

func (s *Set) quantize(ints []int8, scales []blockScale, x []float32) {
	quantizePortable(ints, scales, x)
}

func (s *Set) group(out []float32, stride int, m *Matrix, group int, x *Rows, first, n int) {
	groupPortable(out, stride, m, group, x, first, n)
}

func (s *Set) dots(out []float32, stride int, m *Matrix, from, to int, x *Rows, first, n int) {
	dotsPortable(out, stride, m, from, to, x, first, n)
}

func (s *Set) page(a *pageArgs) { pagePortable(a) }

func (s *Set) halves(dst []uint16, src []float32) { halvesPortable(dst, src) }

func (s *Set) tile(out []float32, outStride int, q []float32, qStride, rows, start int, p *Pages, a *AttentionShape, kvHead int) int {
	return 0
}

func (s *Set) magnitude(x []float32) uint32 { return magnitudePortable(x) }

func (s *Set) largest(x []float32) float32 { return largestPortable(x) }

func (s *Set) weights(dst, x []float32, largest, factor float32) {
	weightsPortable(dst, x, largest, factor)
}

func (s *Set) weightSum(*[lanes]float32, []float32, float32, float32, float32) int { return 0 }

func (s *Set) atLeast([]int32, []float32, float32) (n, found int) { return 0, 0 }
