package kernels

import "math"

const lanes = 8

// sumLanes adds 8 lanes in the package's order.
func sumLanes(l *[lanes]float32) float32 {
	return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
}

// halfToFloat converts IEEE binary16 to float32 exactly.
func halfToFloat(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10)&0x1f, uint32(h)&0x3ff
	switch {
	case exp == 0x1f:
		if frac != 0 {
			frac |= 0x200 // the hardware's conversion quiets NaNs
		}
		return math.Float32frombits(sign | 0xff<<23 | frac<<13)
	case exp != 0:
		return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
	}
	const subnormalUnit = 1.0 / (1 << 24)
	v := float32(frac) * subnormalUnit
	return math.Float32frombits(sign | math.Float32bits(v))
}

// floatToHalf rounds float32 to binary16, to nearest and ties to even, as VCVTPS2PH does.
func floatToHalf(f float32) uint16 {
	b := math.Float32bits(f)
	sign, abs := uint16(b>>16)&0x8000, b&0x7fffffff
	switch {
	case abs > 0x7f800000:
		return sign | 0x7e00 | uint16(abs>>13)&0x3ff
	case abs >= 0x477ff000: // rounds to 65536 or more
		return sign | 0x7c00
	case abs >= 0x38800000: // normal
		abs += 0xfff + abs>>13&1
		return sign | uint16((abs-(127-15)<<23)>>13)
	}
	// A subnormal half is a multiple of 2^-24: adding 0.5 leaves float32 that unit as its last place.
	v := math.Float32frombits(abs) + 0.5
	return sign | uint16(math.Float32bits(v)-math.Float32bits(0.5))
}

func bfloatToFloat(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// The exponential: x = n*ln2 + r with |r| <= ln2/2, e^r by a polynomial of degree 6, times 2^n. Its error is below 2 units in the last place.
const (
	expLow  = -87.0 // below, the result is 0
	expHigh = 88.0  // above, the result is that of expHigh
	log2e   = 1.44269504088896341
	ln2High = 0.693359375
	ln2Low  = -2.12194440e-4
	// Adding and subtracting roundMagic rounds to an integer, ties to even.
	roundMagic = 12582912.0

	expC2 = 5.0000001201e-1
	expC3 = 1.6666665459e-1
	expC4 = 4.1665795894e-2
	expC5 = 8.3334519073e-3
	expC6 = 1.3981999507e-3
	expC7 = 1.9875691500e-4
)

// exp32 returns e^x, 0 below expLow.
func exp32(x float32) float32 {
	if x < expLow {
		return 0
	}
	if x > expHigh {
		x = expHigh
	}
	n := float32(float32(x*log2e)+roundMagic) - roundMagic
	r := x - float32(n*ln2High)
	r = r - float32(n*ln2Low)
	p := float32(expC7)
	p = float32(p*r) + expC6
	p = float32(p*r) + expC5
	p = float32(p*r) + expC4
	p = float32(p*r) + expC3
	p = float32(p*r) + expC2
	p = float32(p*float32(r*r)) + r
	p = p + 1
	return p * math.Float32frombits(uint32(int32(n)+127)<<23)
}

// tanh32 returns tanh(x) = 1 - 2/(1+e^2x), with an absolute error of about 1e-7.
func tanh32(x float32) float32 {
	return 1 - 2/(1+exp32(x+x))
}
