package sampling

import "math"

// Constants of exp32: ln 2 in two parts, so that n*ln2High is exact for every n that occurs, and the polynomial of exp on +-ln(2)/2
// (Cephes, expf).
const (
	log2e      = 1.44269504088896341
	ln2High    = 0.693359375
	ln2Low     = -2.12194440e-4
	roundMagic = 1.5 * (1 << 23) // adding it leaves a float32 rounded to a whole number
	expFloor   = -87             // below it the result is 0
	exponentAt = 23
	exponent0  = 127
)

// exp32 is exp(x) for x <= 0, within 2 units in the last place, and 0 below -87. Every product is rounded by itself (the conversions forbid fusing it into
// the following sum), so that it gives the same bits on every machine.
func exp32(x float32) float32 {
	if x < expFloor {
		return 0
	}
	n := float32(x*log2e) + roundMagic - roundMagic
	r := x - float32(n*ln2High)
	r -= float32(n * ln2Low)
	p := float32(1.9875691500e-4*r) + 1.3981999507e-3
	p = float32(p*r) + 8.3334519073e-3
	p = float32(p*r) + 4.1665795894e-2
	p = float32(p*r) + 1.6666665459e-1
	p = float32(p*r) + 5.0000001201e-1
	p = float32(float32(p*r)*r) + r + 1
	return p * math.Float32frombits(uint32(int32(n)+exponent0)<<exponentAt)
}
