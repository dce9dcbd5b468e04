package kernels

import (
	"errors"
	"fmt"

	"slicescheduler/gmg"
)

// ErrWeight is returned for weights that can't be prepared: an unknown type, a shape that isn't whole blocks, or bytes of another length.
var ErrWeight = errors.New("invalid weight")

const (
	groupRows = 8  // output rows that are interleaved in packed weights, one per lane
	blockCols = 32 // columns of a packed block
	unitCols  = 16 // columns that share an activation scale
	unitsPer  = blockCols / unitCols
	unitBytes = groupRows * unitCols
)

// class says which arithmetic a matrix takes.
type class uint8

const (
	classFloat class = iota // the file's own layout
	classSmall              // unsigned values of 4 or 5 bits with minimum or zero point
	classByte               // signed values of 8 bits
)

// layout describes a packed block of groupRows x blockCols: scales, then minima where there are any, then values, then the fifth bits.
//
// Scales and minima are 8 halves or floats, one per row (classByte with unitScales: 8 for each unit). Values of classSmall are 4 vectors of 32 bytes,
// whose low nibbles are unit 0 and whose high nibbles unit 1; byte 4r+i of vector j is row r, column 4j+i of the unit. Bit 4u+j of byte 4r+i of the
// fifth bits belongs to the same byte of vector j in unit u. Values of classByte are 8 vectors, 4 of each unit.
type layout struct {
	class      class
	floats     bool // scales are float32, not half
	minimum    bool
	fifth      bool
	unitScales bool
	zero       float32
}

var layouts = [...]layout{
	gmg.F32:  {class: classFloat},
	gmg.F16:  {class: classFloat},
	gmg.BF16: {class: classFloat},
	gmg.Q8_0: {class: classByte},
	gmg.Q4_0: {class: classSmall, zero: -8},
	gmg.Q4_1: {class: classSmall, minimum: true, zero: 1},
	gmg.Q5_0: {class: classSmall, fifth: true, zero: -16},
	gmg.Q5_1: {class: classSmall, fifth: true, minimum: true, zero: 1},
	gmg.Q4_K: {class: classSmall, floats: true, minimum: true, zero: 1},
	gmg.Q5_K: {class: classSmall, floats: true, fifth: true, minimum: true, zero: 1},
	gmg.Q6_K: {class: classByte, floats: true, unitScales: true},
}

// scaleBytes is the size of one vector of 8 scales.
func (l *layout) scaleBytes() int {
	if l.floats {
		return groupRows * 4
	}
	return groupRows * 2
}

// minOffset is where a block's minima lie; the scales themselves for types with a zero point.
func (l *layout) minOffset() int {
	if l.minimum {
		return l.scaleBytes()
	}
	return 0
}

// valueOffset is where a block's values begin.
func (l *layout) valueOffset() int {
	n := l.scaleBytes()
	if l.minimum || l.unitScales {
		n *= 2
	}
	return n
}

// blockBytes is the size of a packed block.
func (l *layout) blockBytes() int {
	n := l.valueOffset() + unitsPer*unitBytes
	if l.class == classSmall {
		n -= unitBytes
	}
	if l.fifth {
		n += blockCols
	}
	return n
}

// Matrix is a weight prepared for MatMul. It refers to the bytes given to Pack.
type Matrix struct {
	Rows, Cols int
	DType      gmg.DType
	layout     layout
	data       []byte
	blocks     int // blocks of a row
	groupBytes int
}

// PackedBytes returns how many bytes Pack needs for a weight; 0 when the file's bytes serve in place.
func PackedBytes(w gmg.Weight) int64 {
	if !w.DType.Quantised() || w.Rows < 1 || w.Cols < 1 {
		return 0
	}
	l := layouts[w.DType]
	groups := int64(w.Rows+groupRows-1) / groupRows
	return groups * int64(w.Cols/blockCols) * int64(l.blockBytes())
}

// Pack prepares a weight from its bytes in the file's format. dst holds PackedBytes(w) bytes and afterwards belongs to the matrix; where PackedBytes is 0
// the matrix refers to host instead, which must then stay valid. Rows are padded with zeros to a multiple of 8.
func Pack(w gmg.Weight, host, dst []byte) (Matrix, error) {
	if w.Rows < 1 || w.Cols < 1 {
		return Matrix{}, fmt.Errorf("%w: %s of %d x %d", ErrWeight, w.Name, w.Rows, w.Cols)
	}
	rowBytes, err := w.DType.RowBytes(w.Cols)
	if err != nil {
		return Matrix{}, fmt.Errorf("%w: %s: %w", ErrWeight, w.Name, err)
	}
	if int64(len(host)) != rowBytes*int64(w.Rows) {
		return Matrix{}, fmt.Errorf("%w: %s of %d x %d %v in %d bytes, not %d", ErrWeight, w.Name, w.Rows, w.Cols, w.DType, len(host), rowBytes*int64(w.Rows))
	}
	m := Matrix{Rows: w.Rows, Cols: w.Cols, DType: w.DType, layout: layouts[w.DType]}
	if m.layout.class == classFloat {
		m.data = host
		return m, nil
	}
	if int64(len(dst)) < PackedBytes(w) {
		return Matrix{}, fmt.Errorf("%w: %s packs into %d bytes, given %d", ErrWeight, w.Name, PackedBytes(w), len(dst))
	}
	m.blocks = w.Cols / blockCols
	m.groupBytes = m.blocks * m.layout.blockBytes()
	m.data = dst[:PackedBytes(w)]
	clear(m.data)
	packRows(&m, host, int(rowBytes))
	return m, nil
}

// Quantised says whether MatMul takes quantised activations with this matrix.
func (m *Matrix) Quantised() bool { return m.layout.class != classFloat }

// Bytes returns what a product with every row of the matrix reads of it.
func (m *Matrix) Bytes() int64 { return int64(len(m.data)) }
