package kernels

import (
	"encoding/binary"
	"math"
	"unsafe"
)

func getFloat(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }

// blockScale is what a product needs of 32 columns of a quantised activation row beside the integers.
type blockScale struct {
	scale [unitsPer]float32 // of each unit of 16 columns
	sum   float32           // of the 32 columns' quantised values
	fix   [unitsPer]int32   // sixZero times each unit's sum of integers, what a product with unsigned values of 6 bits has too much
}

const blockScaleBytes = 20

// Rows are activation rows of Cols columns: Float holds them as they are, row i at i*Cols. The quantised form of rows is made by Quantize, and lies
// in memory given by the caller.
type Rows struct {
	N, Cols int
	Float   []float32

	ints   []int8
	scales []blockScale
}

// QuantBytes returns the memory that the quantised form of n rows takes.
func QuantBytes(n, cols int) int64 {
	blocks := int64(cols+blockCols-1) / blockCols
	return int64(n) * blocks * (blockCols + blockScaleBytes)
}

// MakeRows returns n rows over their floats (n*cols of them) and memory for their quantised form (QuantBytes, aligned to 4 bytes; nil when they will
// only meet float matrices). Cols must be a multiple of 32 for the quantised form.
func MakeRows(n, cols int, float []float32, quant []byte) Rows {
	mustBe("MakeRows", n >= 0 && cols > 0 && len(float) >= n*cols, n, cols, len(float))
	r := Rows{N: n, Cols: cols, Float: float[:n*cols]}
	if quant == nil || n == 0 {
		return r
	}
	mustBe("MakeRows", cols%blockCols == 0 && int64(len(quant)) >= QuantBytes(n, cols), n, cols, len(quant))
	blocks := n * (cols / blockCols)
	r.scales = unsafe.Slice((*blockScale)(unsafe.Pointer(unsafe.SliceData(quant))), blocks)
	r.ints = unsafe.Slice((*int8)(unsafe.Pointer(&quant[blocks*blockScaleBytes])), n*cols)
	return r
}

// Quantize makes the quantised form of rows [from, to): for each unit of 16 columns the scale is the largest magnitude over 127 and each value is
// rounded to the nearest multiple of it, ties to even.
func (s *Set) Quantize(r *Rows, from, to int) {
	mustBe("Quantize", 0 <= from && from <= to && to <= r.N && len(r.ints) == r.N*r.Cols, from, to, r.N, len(r.ints))
	blocks := r.Cols / blockCols
	for i := from; i < to; i++ {
		s.quantize(r.ints[i*r.Cols:(i+1)*r.Cols], r.scales[i*blocks:(i+1)*blocks], r.Float[i*r.Cols:(i+1)*r.Cols])
	}
}

func quantizePortable(ints []int8, scales []blockScale, x []float32) {
	for b := range scales {
		var sums [unitsPer]float32
		for u := range unitsPer {
			at := b*blockCols + u*unitCols
			scale, sum := quantizeUnit(ints[at:at+unitCols], x[at:at+unitCols])
			scales[b].scale[u], scales[b].fix[u] = scale, sixZero*sum
			sums[u] = float32(float32(sum) * scale)
		}
		scales[b].sum = sums[0] + sums[1]
	}
}

func quantizeUnit(ints []int8, x []float32) (scale float32, sum int32) {
	var largest float32
	for _, v := range x {
		if v := math.Float32frombits(math.Float32bits(v) &^ (1 << 31)); v > largest {
			largest = v
		}
	}
	scale = largest / 127
	if scale < minScale {
		clear(ints)
		return 0, 0
	}
	inverse := 1 / scale
	for i, v := range x {
		n := float32(float32(v*inverse)+roundMagic) - roundMagic
		ints[i] = int8(n)
		sum += int32(ints[i])
	}
	return scale, sum
}

// minScale is the smallest scale whose inverse is a finite float; units below it are as good as zero.
const minScale = 1e-37
