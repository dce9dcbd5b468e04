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

	superBlocks = 8 // packed blocks of a super-block of 256 columns
)

// class says which arithmetic a matrix takes.
type class uint8

const (
	classFloat class = iota // the file's own layout
	classSmall              // unsigned values of 4 or 5 bits with minimum or zero point
	classSix                // values of 6 bits from -32 on, a scale for each unit
	classByte               // signed values of 8 bits
)

// layout describes a packed block of groupRows x blockCols: scales, then minima where there are any (the scales of unit 1 for classSix), then values, then
// the bits beyond the fourth.
//
// Scales and minima are 8 halves, one per row. Types with super-blocks keep them as the file does: here they are 8 bytes, and before every superBlocks blocks
// of a group stand the 8 halves that multiply the scales and, where there are minima, the 8 that multiply these.
//
// Values below 8 bits are 4 vectors of 32 bytes, whose low nibbles are unit 0 and whose high nibbles unit 1; byte 4r+i of vector j is row r, column 4j+i of the
// unit. Bit 4u+j of byte 4r+i of the fifth bits belongs to the same byte of vector j in unit u. Sixth and fifth bits are 32 bytes for each unit: bits 2j and
// 2j+1 of byte 4r+i belong to vector j. Values of classByte are 8 vectors, 4 of each unit.
type layout struct {
	class   class
	super   bool
	minimum bool
	fifth   bool
	zero    float32
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
	gmg.Q4_K: {class: classSmall, super: true, minimum: true, zero: 1},
	gmg.Q5_K: {class: classSmall, super: true, fifth: true, minimum: true, zero: 1},
	gmg.Q6_K: {class: classSix, super: true},
}

// scaleBytes is the size of one vector of a block's 8 scales.
func (l *layout) scaleBytes() int {
	if l.super {
		return groupRows
	}
	return groupRows * halfBytes
}

// superBytes is what stands before every superBlocks blocks.
func (l *layout) superBytes() int {
	switch {
	case !l.super:
		return 0
	case l.minimum:
		return 2 * groupRows * halfBytes
	}
	return groupRows * halfBytes
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
	if l.minimum || l.class == classSix {
		return 2 * l.scaleBytes()
	}
	return l.scaleBytes()
}

// blockBytes is the size of a packed block.
func (l *layout) blockBytes() int {
	n := l.valueOffset() + unitBytes
	switch {
	case l.class == classByte:
		n += unitBytes
	case l.class == classSix:
		n += unitsPer * blockCols
	case l.fifth:
		n += blockCols
	}
	return n
}

// groupBytes is the size of a group of rows of so many blocks.
func (l *layout) groupBytes(blocks int) int {
	return blocks*l.blockBytes() + blocks/superBlocks*l.superBytes()
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
	return groups * int64(l.groupBytes(w.Cols/blockCols))
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
	m.groupBytes = m.layout.groupBytes(m.blocks)
	m.data = dst[:PackedBytes(w)]
	packRows(&m, host, int(rowBytes))
	return m, nil
}

// Quantised says whether MatMul takes quantised activations with this matrix.
func (m *Matrix) Quantised() bool { return m.layout.class != classFloat }

// Bytes returns what a product with every row of the matrix reads of it.
func (m *Matrix) Bytes() int64 { return int64(len(m.data)) }
