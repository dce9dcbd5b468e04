package quant

import "encoding/binary"

// Products are converted to float32 before a sum wherever both occur, so that no compiler fuses them: the bits must not depend on the machine.

// dequantizeQ8_0: scale, 32 signed bytes.
func dequantizeQ8_0(src []byte, dst []float32) {
	d := half(src)
	for i, q := range src[2:34] {
		dst[i] = float32(int8(q)) * d
	}
}

// dequantizeQ4_0: scale, 16 bytes; the low nibbles are elements 0..15, the high ones 16..31, each less 8.
func dequantizeQ4_0(src []byte, dst []float32) {
	d := half(src)
	for i, q := range src[2:18] {
		dst[i] = d * float32(int(q&15)-8)
		dst[i+16] = d * float32(int(q>>4)-8)
	}
}

// dequantizeQ4_1: scale, minimum, nibbles as in Q4_0 without the offset.
func dequantizeQ4_1(src []byte, dst []float32) {
	d, m := half(src), half(src[2:])
	for i, q := range src[4:20] {
		dst[i] = float32(d*float32(q&15)) + m
		dst[i+16] = float32(d*float32(q>>4)) + m
	}
}

// fifth returns the fifth bits of elements i and i+16 at the place where they belong.
func fifth(bits uint32, i int) (low, high byte) {
	return byte(bits>>i) & 1 << 4, byte(bits>>(i+16)) & 1 << 4
}

// dequantizeQ5_0: scale, 32 fifth bits, nibbles as in Q4_0; each less 16.
func dequantizeQ5_0(src []byte, dst []float32) {
	d, bits := half(src), binary.LittleEndian.Uint32(src[2:])
	for i, q := range src[6:22] {
		low, high := fifth(bits, i)
		dst[i] = d * float32(int(q&15|low)-16)
		dst[i+16] = d * float32(int(q>>4|high)-16)
	}
}

// dequantizeQ5_1: scale, minimum, 32 fifth bits, nibbles.
func dequantizeQ5_1(src []byte, dst []float32) {
	d, m, bits := half(src), half(src[2:]), binary.LittleEndian.Uint32(src[4:])
	for i, q := range src[8:24] {
		low, high := fifth(bits, i)
		dst[i] = float32(d*float32(q&15|low)) + m
		dst[i+16] = float32(d*float32(q>>4|high)) + m
	}
}

// scaleMin unpacks the 6-bit scale and minimum of sub-block j from the 12 bytes of a K block.
func scaleMin(packed []byte, j int) (scale, minimum byte) {
	if j < 4 {
		return packed[j] & 63, packed[j+4] & 63
	}
	return packed[j+4]&15 | packed[j-4]>>2&48, packed[j+4]>>4 | packed[j]>>2&48
}

// dequantizeQ4_K: scale of scales, scale of minima, 8 packed scales and minima, then four runs of 32 bytes with two sub-blocks of 32 nibbles each.
func dequantizeQ4_K(src []byte, dst []float32) {
	d, dmin := half(src), half(src[2:])
	for j := range 8 {
		s, m := scaleMin(src[4:16], j)
		ds, dm := d*float32(s), dmin*float32(m)
		qs, out := src[16+j/2*32:][:32], dst[j*32:][:32]
		shift := j % 2 * 4
		for i, q := range qs {
			out[i] = float32(ds*float32(q>>shift&15)) - dm
		}
	}
}

// dequantizeQ5_K: as Q4_K, with 32 bytes between scales and nibbles that hold bit 5 of element i of sub-block j in bit j of byte i.
func dequantizeQ5_K(src []byte, dst []float32) {
	d, dmin := half(src), half(src[2:])
	high := src[16:48]
	for j := range 8 {
		s, m := scaleMin(src[4:16], j)
		ds, dm := d*float32(s), dmin*float32(m)
		qs, out := src[48+j/2*32:][:32], dst[j*32:][:32]
		shift := j % 2 * 4
		for i, q := range qs {
			v := q>>shift&15 | high[i]>>j&1<<4
			out[i] = float32(ds*float32(v)) - dm
		}
	}
}

// dequantizeQ6_K: 128 bytes of low nibbles, 64 bytes of upper pairs of bits, 16 signed scales, scale of scales. Each half of the block is four runs of 32
// elements that share 64 bytes of nibbles and 32 bytes of pairs.
func dequantizeQ6_K(src []byte, dst []float32) {
	scales, d := src[192:208], half(src[208:])
	for run := range 8 {
		h, k := run/4, run%4
		low, high := src[h*64+k%2*32:][:32], src[128+h*32:][:32]
		out := dst[run*32:][:32]
		for i := range out {
			q := low[i]>>(k/2*4)&15 | high[i]>>(2*k)&3<<4
			ds := d * float32(int8(scales[run*2+i/16]))
			out[i] = ds * float32(int(q)-32)
		}
	}
}

// quantizeQ8_0 scales the largest magnitude to 127 and rounds half away from zero.
func quantizeQ8_0(src []float32, dst []byte) {
	var largest float32
	for _, x := range src {
		largest = max(largest, abs(x))
	}
	d := largest / 127
	inverse := reciprocal(d)
	putHalf(dst, d)
	for i, x := range src {
		dst[2+i] = byte(int8(round(x * inverse)))
	}
}

// quantizeQ4_0 maps the element of largest magnitude to -8.
func quantizeQ4_0(src []float32, dst []byte) {
	var extreme float32
	for _, x := range src {
		if abs(x) > abs(extreme) {
			extreme = x
		}
	}
	d := extreme / -8
	inverse := reciprocal(d)
	putHalf(dst, d)
	packNibbles(src, dst[2:], func(x float32) float32 { return float32(x*inverse) + 8.5 })
}

// quantizeQ4_1 maps the smallest element to 0 and the largest to 15.
func quantizeQ4_1(src []float32, dst []byte) {
	low, high := src[0], src[0]
	for _, x := range src {
		low, high = min(low, x), max(high, x)
	}
	d := (high - low) / 15
	inverse := reciprocal(d)
	putHalf(dst, d)
	putHalf(dst[2:], low)
	packNibbles(src, dst[4:], func(x float32) float32 { return float32((x-low)*inverse) + 0.5 })
}

// packNibbles cuts what level gives to an integer from 0 to 15 and lays elements i and i+16 in one byte.
func packNibbles(src []float32, dst []byte, level func(float32) float32) {
	nibble := func(x float32) byte { return byte(max(0, min(15, int(level(x))))) }
	for i := range 16 {
		dst[i] = nibble(src[i]) | nibble(src[i+16])<<4
	}
}

func abs(x float32) float32 {
	if x < 0 {
		return -x
	}
	return x
}

// reciprocal is 1/d, and 0 for an all-zero block.
func reciprocal(d float32) float32 {
	if d == 0 {
		return 0
	}
	return 1 / d
}

// round rounds half away from zero.
func round(x float32) int {
	a := abs(x)
	n := int(a)
	if a-float32(n) >= 0.5 {
		n++
	}
	if x < 0 {
		return -n
	}
	return n
}
