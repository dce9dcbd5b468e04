package kernels

import (
	"encoding/binary"

	"slicescheduler/gmg"
)

// rowTile is how many activation rows meet a group of weight rows before the next group: few enough to stay in the first-level cache.
const rowTile = 32

// MatMul writes, for every row of x, the products with weight rows [from, to): out[i*stride+f-from] = x[i] . w[f]. For quantised matrices x must
// have been quantised. Splits at multiples of 8 are the fast ones; the bits are the same for any.
func (s *Set) MatMul(out []float32, stride int, m *Matrix, x *Rows, from, to int) {
	mustBe("MatMul", 0 <= from && from <= to && to <= m.Rows && x.Cols == m.Cols && (x.N == 0 || (x.N-1)*stride+to-from <= len(out)),
		len(out), stride, m.Rows, m.Cols, x.N, x.Cols, from, to)
	if x.N == 0 || from == to {
		return
	}
	if m.layout.class == classFloat {
		s.matMulFloat(out, stride, m, x, from, to)
		return
	}
	mustBe("MatMul of rows that are not quantised", len(x.ints) == x.N*x.Cols, x.N, x.Cols)
	for first := 0; first < x.N; first += rowTile {
		n := min(rowTile, x.N-first)
		for f := from; f < to; {
			group := f / groupRows
			upTo := min(to, (group+1)*groupRows)
			dst := out[first*stride+f-from:]
			if upTo-f == groupRows {
				s.group(dst, stride, m, group, x, first, n)
			} else {
				s.partOfGroup(dst, stride, m, f, upTo, x, first, n)
			}
			f = upTo
		}
	}
}

// partOfGroup computes a whole group and keeps the weight rows asked for.
func (s *Set) partOfGroup(out []float32, stride int, m *Matrix, from, to int, x *Rows, first, n int) {
	var whole [groupRows]float32
	lane := from % groupRows
	for i := range n {
		s.group(whole[:], groupRows, m, from/groupRows, x, first+i, 1)
		copy(out[i*stride:], whole[lane:lane+to-from])
	}
}

// groupPortable writes 8 products for each of n <= rowTile activation rows; each weight block is unpacked once for all of them.
func groupPortable(out []float32, stride int, m *Matrix, group int, x *Rows, first, n int) {
	var b block32
	for lane := range groupRows {
		var acc, acc2 [rowTile]float32
		for k := range m.blocks {
			m.get(group*groupRows+lane, k, &b)
			for i := range n {
				block := (first+i)*m.blocks + k
				acc[i], acc2[i] = dotBlock(acc[i], acc2[i], &b, x.ints[block*blockCols:(block+1)*blockCols], &x.scales[block])
			}
		}
		for i := range n {
			y := acc[i]
			if m.layout.zero != 0 {
				y = y + float32(m.layout.zero*acc2[i])
			}
			out[i*stride+lane] = y
		}
	}
}

func dotBlock(acc, acc2 float32, b *block32, ints []int8, s *blockScale) (float32, float32) {
	for u := range unitsPer {
		var sum int32
		for c := u * unitCols; c < (u+1)*unitCols; c++ {
			sum += int32(b.value[c]) * int32(ints[c])
		}
		acc = acc + float32(float32(float32(sum)*s.scale[u])*b.scale[u])
	}
	return acc, acc2 + float32(b.min*s.sum)
}

// Row writes weight row i, times scale, as floats: the embedding of token i. dst has Cols floats.
func (m *Matrix) Row(dst []float32, i int, scale float32) {
	mustBe("Row", 0 <= i && i < m.Rows && len(dst) >= m.Cols, i, m.Rows, len(dst))
	if m.layout.class == classFloat {
		for c := range m.Cols {
			dst[c] = scale * m.floatAt(i*m.Cols+c)
		}
		return
	}
	var b block32
	for k := range m.blocks {
		m.get(i, k, &b)
		offset := b.min
		if !m.layout.minimum {
			offset = float32(b.min * m.layout.zero)
		}
		for c, v := range b.value {
			dst[k*blockCols+c] = scale * (float32(float32(v)*b.scale[c/unitCols]) + offset)
		}
	}
}

func (m *Matrix) floatAt(i int) float32 {
	switch m.DType {
	case gmg.F32:
		return getFloat(m.data[4*i:])
	case gmg.F16:
		return halfToFloat(binary.LittleEndian.Uint16(m.data[2*i:]))
	}
	return bfloatToFloat(binary.LittleEndian.Uint16(m.data[2*i:]))
}

// dotsPortable writes, for each of n activation rows, the products with weight rows [from, to) of a float matrix.
func dotsPortable(out []float32, stride int, m *Matrix, from, to int, x *Rows, first, n int) {
	for i := range n {
		row := x.Float[(first+i)*x.Cols : (first+i+1)*x.Cols]
		for f := from; f < to; f++ {
			var l [lanes]float32
			at := f * m.Cols
			for k, v := range row {
				l[k%lanes] = l[k%lanes] + float32(v*m.floatAt(at+k))
			}
			out[i*stride+f-from] = sumLanes(&l)
		}
	}
}

// floatGroup is how many weight rows of a float matrix are multiplied at once.
const floatGroup = 4

func (s *Set) matMulFloat(out []float32, stride int, m *Matrix, x *Rows, from, to int) {
	for first := 0; first < x.N; first += rowTile {
		n := min(rowTile, x.N-first)
		for f := from; f < to; f += floatGroup {
			s.dots(out[first*stride+f-from:], stride, m, f, min(to, f+floatGroup), x, first, n)
		}
	}
}
