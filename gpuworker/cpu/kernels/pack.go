package kernels

import (
	"encoding/binary"

	"slicescheduler/gmg"
)

// block32 is 32 columns of one weight row: integers, and scale and minimum as float32. classByte types with unit scales use both scales, others the first.
type block32 struct {
	value [blockCols]int16
	scale [unitsPer]float32
	min   float32
}

func half(b []byte) float32 { return halfToFloat(binary.LittleEndian.Uint16(b)) }

func packRows(m *Matrix, host []byte, rowBytes int) {
	var b block32
	for row := range m.Rows {
		src := host[row*rowBytes : (row+1)*rowBytes]
		for i := range m.blocks {
			unpackBlock(m.DType, src, i, &b)
			m.put(row, i, &b)
		}
	}
}

// blockAt returns the packed block that holds block i of a row, and the row's lane in it.
func (m *Matrix) blockAt(row, i int) (block []byte, lane int) {
	size := m.layout.blockBytes()
	at := row/groupRows*m.groupBytes + i*size
	return m.data[at : at+size : at+size], row % groupRows
}

func (l *layout) putScale(dst []byte, lane int, v float32) {
	if l.floats {
		putFloat(dst[4*lane:], v)
	} else {
		binary.LittleEndian.PutUint16(dst[2*lane:], floatToHalf(v))
	}
}

func (l *layout) scaleAt(src []byte, lane int) float32 {
	if l.floats {
		return getFloat(src[4*lane:])
	}
	return half(src[2*lane:])
}

// put writes block i of a row into its lane. The destination was zero before.
func (m *Matrix) put(row, i int, b *block32) {
	l := &m.layout
	dst, lane := m.blockAt(row, i)
	l.putScale(dst, lane, b.scale[0])
	if l.minimum {
		l.putScale(dst[l.minOffset():], lane, b.min)
	}
	if l.unitScales {
		l.putScale(dst[l.scaleBytes():], lane, b.scale[1])
	}
	values := dst[l.valueOffset():]
	for c, v := range b.value {
		u, at := c/unitCols, valueAt(c, lane)
		if l.class == classByte {
			values[u*unitBytes+at] = byte(v)
			continue
		}
		values[at] |= byte(v&15) << (4 * u)
		if l.fifth {
			values[unitBytes+at%32] |= byte(v>>4) << (4*u + at/32)
		}
	}
}

// valueAt is where column c of a lane lies among its unit's bytes.
func valueAt(c, lane int) int {
	c %= unitCols
	return c/4*32 + lane*4 + c%4
}

// get reads block i of a row back from its lane, values of zero-point types without their zero point taken off.
func (m *Matrix) get(row, i int, b *block32) {
	l := &m.layout
	src, lane := m.blockAt(row, i)
	b.scale[0] = l.scaleAt(src, lane)
	b.scale[1] = b.scale[0]
	if l.unitScales {
		b.scale[1] = l.scaleAt(src[l.scaleBytes():], lane)
	}
	b.min = l.scaleAt(src[l.minOffset():], lane)
	values := src[l.valueOffset():]
	for c := range b.value {
		u, at := c/unitCols, valueAt(c, lane)
		if l.class == classByte {
			b.value[c] = int16(int8(values[u*unitBytes+at]))
			continue
		}
		v := values[at] >> (4 * u) & 15
		if l.fifth {
			v |= values[unitBytes+at%32] >> (4*u + at/32) & 1 << 4
		}
		b.value[c] = int16(v)
	}
}

// unpackBlock reads 32 columns of a row in the file's format.
func unpackBlock(t gmg.DType, row []byte, i int, b *block32) {
	if t.BlockSize() == blockCols {
		src := row[i*t.BlockBytes() : (i+1)*t.BlockBytes()]
		unpackSimple(t, src, b)
		return
	}
	per := t.BlockSize() / blockCols
	src := row[i/per*t.BlockBytes() : (i/per+1)*t.BlockBytes()]
	if t == gmg.Q6_K {
		unpackQ6K(src, i%per, b)
	} else {
		unpackK(src, i%per, t == gmg.Q5_K, b)
	}
}

func unpackSimple(t gmg.DType, src []byte, b *block32) {
	b.scale[0] = half(src)
	src = src[2:]
	switch t {
	case gmg.Q8_0:
		for c := range b.value {
			b.value[c] = int16(int8(src[c]))
		}
		return
	case gmg.Q4_1, gmg.Q5_1:
		b.min = half(src)
		src = src[2:]
	}
	var high uint32
	if t == gmg.Q5_0 || t == gmg.Q5_1 {
		high = binary.LittleEndian.Uint32(src)
		src = src[4:]
	}
	for c := range blockCols / 2 {
		b.value[c] = int16(src[c]&15) | int16(high>>c&1)<<4
		b.value[c+16] = int16(src[c]>>4) | int16(high>>(c+16)&1)<<4
	}
}

// unpackK reads sub-block i of a Q4_K or Q5_K super-block: half d, half dmin, 12 bytes of packed 6-bit scales and minima, for Q5_K 32 bytes of high
// bits, then nibbles of 64 columns in 32 bytes at a time.
func unpackK(src []byte, i int, five bool, b *block32) {
	d, dmin, packed := half(src), half(src[2:]), src[4:16]
	var sc, mn byte
	if i < 4 {
		sc, mn = packed[i]&63, packed[i+4]&63
	} else {
		sc, mn = packed[i+4]&15|packed[i-4]>>6<<4, packed[i+4]>>4|packed[i]>>6<<4
	}
	b.scale[0], b.min = d*float32(sc), -(dmin * float32(mn))
	nibbles, high := src[16:], src[16:16]
	if five {
		high, nibbles = src[16:48], src[48:]
	}
	nibbles = nibbles[i/2*32 : i/2*32+32]
	for c := range b.value {
		b.value[c] = int16(nibbles[c] >> (4 * (i & 1)) & 15)
		if five {
			b.value[c] |= int16(high[c]>>i&1) << 4
		}
	}
}

// unpackQ6K reads 32 columns of a Q6_K super-block: 128 bytes of low nibbles, 64 of high bit pairs, 16 signed scales of 16 columns each, half d.
func unpackQ6K(src []byte, i int, b *block32) {
	d := half(src[208:])
	low, high := src[i/4*64+i%2*32:], src[128+i/4*32:]
	for c := range b.value {
		v := low[c]>>(4*(i%4/2))&15 | high[c]>>(2*(i%4))&3<<4
		b.value[c] = int16(v) - 32
	}
	for u := range b.scale {
		b.scale[u] = d * float32(int8(src[192+2*i+u]))
	}
}
