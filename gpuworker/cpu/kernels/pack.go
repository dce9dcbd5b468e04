package kernels

import (
	"encoding/binary"

	"slicescheduler/gmg"
)

// block32 is 32 columns of one weight row: integers, and scale and minimum as float32. classSix uses both scales, others the first.
type block32 struct {
	value [blockCols]int16
	scale [unitsPer]float32
	min   float32
	super superScales
}

// superScales is what a block with a super-block has instead of scale and minimum: these are d*scale[u] and dmin*min, both exact in float32.
type superScales struct {
	d, dmin float32 // halves
	scale   [unitsPer]int8
	min     int8
}

// expand writes scale and minimum.
func (b *block32) expand() {
	for u, v := range b.super.scale {
		b.scale[u] = b.super.d * float32(v)
	}
	b.min = b.super.dmin * float32(b.super.min)
}

func half(b []byte) float32 { return halfToFloat(binary.LittleEndian.Uint16(b)) }

func packRows(m *Matrix, host []byte, rowBytes int) {
	if m.Rows%groupRows != 0 {
		clear(m.data[m.Rows/groupRows*m.groupBytes:])
	}
	var b block32
	for row := range m.Rows {
		src := host[row*rowBytes : (row+1)*rowBytes]
		for i := range m.blocks {
			switch m.DType {
			case gmg.Q4_0, gmg.Q4_1, gmg.Q8_0:
				m.move(row, i, src[i*m.DType.BlockBytes():(i+1)*m.DType.BlockBytes()])
			default:
				unpackBlock(m.DType, src, i, &b)
				m.put(row, i, &b)
			}
		}
	}
}

// move puts block i of a row into its lane for types of which the file's bytes only change their places.
func (m *Matrix) move(row, i int, src []byte) {
	l := &m.layout
	dst, lane := m.blockAt(row, i)
	copy(dst[halfBytes*lane:], src[:halfBytes])
	src = src[halfBytes:]
	if l.minimum {
		copy(dst[l.minOffset()+halfBytes*lane:], src[:halfBytes])
		src = src[halfBytes:]
	}
	values := dst[l.valueOffset()+4*lane:]
	for at := 0; at < len(src); at += 4 {
		binary.LittleEndian.PutUint32(values[at*groupRows:], binary.LittleEndian.Uint32(src[at:]))
	}
}

// blockAt returns the packed block that holds block i of a row, and the row's lane in it.
func (m *Matrix) blockAt(row, i int) (block []byte, lane int) {
	size := m.layout.blockBytes()
	at := row/groupRows*m.groupBytes + i*size + (i/superBlocks+1)*m.layout.superBytes()
	return m.data[at : at+size : at+size], row % groupRows
}

// superAt returns what stands before the super-block of block i of a row.
func (m *Matrix) superAt(row, i int) []byte {
	l := &m.layout
	at := row/groupRows*m.groupBytes + i/superBlocks*(superBlocks*l.blockBytes()+l.superBytes())
	return m.data[at : at+l.superBytes()]
}

func putHalf(dst []byte, lane int, v float32) {
	binary.LittleEndian.PutUint16(dst[halfBytes*lane:], floatToHalf(v))
}

// putScales writes a block's scales and minima.
func (m *Matrix) putScales(dst []byte, row, i, lane int, b *block32) {
	l := &m.layout
	if !l.super {
		putHalf(dst, lane, b.scale[0])
		if l.minimum {
			putHalf(dst[l.minOffset():], lane, b.min)
		}
		return
	}
	head := m.superAt(row, i)
	putHalf(head, lane, b.super.d)
	dst[lane] = byte(b.super.scale[0])
	if l.minimum {
		putHalf(head[groupRows*halfBytes:], lane, b.super.dmin)
		dst[groupRows+lane] = byte(b.super.min)
	} else {
		dst[groupRows+lane] = byte(b.super.scale[1])
	}
}

// scales reads them back.
func (m *Matrix) scales(src []byte, row, i, lane int, b *block32) {
	l := &m.layout
	if !l.super {
		b.scale[0] = half(src[halfBytes*lane:])
		b.scale[1] = b.scale[0]
		b.min = half(src[l.minOffset()+halfBytes*lane:])
		return
	}
	head := m.superAt(row, i)
	first, second := int8(src[lane]), int8(src[groupRows+lane])
	b.super = superScales{d: half(head[halfBytes*lane:]), scale: [unitsPer]int8{first, second}}
	if l.minimum {
		b.super.scale[1] = first
		b.super.dmin, b.super.min = half(head[(groupRows+lane)*halfBytes:]), second
	}
	b.expand()
}

// put writes block i of a row into its lane, 4 columns at a time, for types that are not moved.
func (m *Matrix) put(row, i int, b *block32) {
	l := &m.layout
	dst, lane := m.blockAt(row, i)
	m.putScales(dst, row, i, lane, b)
	values := dst[l.valueOffset():][4*lane:]
	more := values[min(unitBytes, len(values)):]
	var fifth uint32
	var sixth [unitsPer]uint32
	for j := range unitCols / 4 {
		first, second := b.four(4*j), b.four(unitCols+4*j)
		if l.class == classSix {
			first, second = first^sixSign, second^sixSign
		}
		binary.LittleEndian.PutUint32(values[32*j:], first&lowNibbles|second&lowNibbles<<4)
		fifth |= (first>>4&lowBits | second&(lowBits<<4)) << j
		sixth[0] |= first >> 4 & (3 * lowBits) << (2 * j)
		sixth[1] |= second >> 4 & (3 * lowBits) << (2 * j)
	}
	switch {
	case l.class == classSix:
		binary.LittleEndian.PutUint32(more, sixth[0])
		binary.LittleEndian.PutUint32(more[blockCols:], sixth[1])
	case l.fifth:
		binary.LittleEndian.PutUint32(more, fifth)
	}
}

// Masks of 4 bytes. A value of 6 bits with its zero point taken off becomes one with by a change of its sixth bit.
const (
	lowNibbles = 0x0f0f0f0f
	lowBits    = 0x01010101
	sixSign    = 0x20202020
)

// four returns the low bytes of 4 values from a column on.
func (b *block32) four(at int) uint32 {
	v := b.value[at : at+4]
	return uint32(uint8(v[0])) | uint32(uint8(v[1]))<<8 | uint32(uint8(v[2]))<<16 | uint32(uint8(v[3]))<<24
}

// sixZero is the zero point of values of 6 bits.
const sixZero = 32

// valueAt is where column c of a lane lies among its unit's bytes.
func valueAt(c, lane int) int {
	c %= unitCols
	return c/4*32 + lane*4 + c%4
}

// get reads block i of a row back from its lane, values of zero-point types of classSmall without their zero point taken off.
func (m *Matrix) get(row, i int, b *block32) {
	l := &m.layout
	src, lane := m.blockAt(row, i)
	m.scales(src, row, i, lane, b)
	values := src[l.valueOffset():]
	for c := range b.value {
		u, at := c/unitCols, valueAt(c, lane)
		if l.class == classByte {
			b.value[c] = int16(int8(values[u*unitBytes+at]))
			continue
		}
		v := int16(values[at] >> (4 * u) & 15)
		switch {
		case l.class == classSix:
			v |= int16(values[unitBytes+u*blockCols+at%32]>>(2*(at/32))&3) << 4
			v -= sixZero
		case l.fifth:
			v |= int16(values[unitBytes+at%32]>>(4*u+at/32)&1) << 4
		}
		b.value[c] = v
	}
}

// unpackBlock reads 32 columns of a row in the file's format, for types that are not moved.
func unpackBlock(t gmg.DType, row []byte, i int, b *block32) {
	if t.BlockSize() == blockCols {
		src := row[i*t.BlockBytes() : (i+1)*t.BlockBytes()]
		unpackFive(t, src, b)
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

// unpackFive reads a block of Q5_0 or Q5_1: a half or two, 32 fifth bits, nibbles.
func unpackFive(t gmg.DType, src []byte, b *block32) {
	b.scale[0] = half(src)
	src = src[halfBytes:]
	if t == gmg.Q5_1 {
		b.min = half(src)
		src = src[halfBytes:]
	}
	high := binary.LittleEndian.Uint32(src)
	src = src[4:]
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
	b.super = superScales{d, -dmin, [unitsPer]int8{int8(sc), int8(sc)}, int8(mn)}
	b.expand()
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
		b.value[c] = int16(v) - sixZero
	}
	b.super = superScales{d: d, scale: [unitsPer]int8{int8(src[192+2*i]), int8(src[192+2*i+1])}}
	b.expand()
}
