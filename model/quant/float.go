package quant

import (
	"encoding/binary"
	"math"
)

// Float16 converts an IEEE 754 half to float32, exactly; NaNs keep their payload.
func Float16(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp := uint32(h>>10) & 0x1f
	frac := uint32(h & 0x3ff)
	switch exp {
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	case 0:
		// A subnormal half is frac * 2^-24, which float32 holds exactly.
		return math.Float32frombits(sign | math.Float32bits(float32(frac)*(1.0/(1<<24))))
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// ToFloat16 converts float32 to an IEEE 754 half, rounding to nearest, ties to even; what is too large becomes infinite.
func ToFloat16(x float32) uint16 {
	bits := math.Float32bits(x)
	sign := uint16(bits>>16) & 0x8000
	mag := bits & 0x7fffffff
	switch {
	case mag > 0x7f800000:
		return sign | 0x7e00 | uint16(mag>>13)&0x3ff
	case mag >= 0x47800000: // 65536 and above
		return sign | 0x7c00
	case mag < 0x38800000: // below 2^-14: count in steps of 2^-24; adding 0.5 makes the hardware round to that step
		steps := math.Float32bits(math.Float32frombits(mag)+0.5) - math.Float32bits(0.5)
		return sign | uint16(steps)
	}
	// Rounding may carry into the exponent, and from the largest half into infinity, as it should.
	rounded := mag - 112<<23 + 0xfff + mag>>13&1
	return sign | uint16(rounded>>13)
}

func half(b []byte) float32 { return Float16(binary.LittleEndian.Uint16(b)) }

func putHalf(b []byte, x float32) { binary.LittleEndian.PutUint16(b, ToFloat16(x)) }

func dequantizeF32(src []byte, dst []float32) {
	dst[0] = math.Float32frombits(binary.LittleEndian.Uint32(src))
}

func quantizeF32(src []float32, dst []byte) {
	binary.LittleEndian.PutUint32(dst, math.Float32bits(src[0]))
}

func dequantizeF16(src []byte, dst []float32) { dst[0] = half(src) }

func quantizeF16(src []float32, dst []byte) { putHalf(dst, src[0]) }

func dequantizeBF16(src []byte, dst []float32) {
	dst[0] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src)) << 16)
}

// quantizeBF16 rounds to nearest, ties to even, and makes NaNs quiet.
func quantizeBF16(src []float32, dst []byte) {
	bits := math.Float32bits(src[0])
	if bits&0x7fffffff > 0x7f800000 {
		bits = bits&0xffff0000 | 64<<16
	} else {
		bits += 0x7fff + bits>>16&1
	}
	binary.LittleEndian.PutUint16(dst, uint16(bits>>16))
}
