package kernels

import "math"

//go:noescape
func magnitudeAVX2(most *[8]uint32, x *float32, steps int)

//go:noescape
func largestAVX2(most *[8]float32, x *float32, steps int)

//go:noescape
func weightsAVX2(dst, x *float32, steps int, largest, factor float32)

//go:noescape
func weightSumAVX2(sums *[8]float32, x *float32, steps int, least, largest, factor float32)

//go:noescape
func atLeastAVX2(dst *int32, x *float32, steps int, least float32) (found int)

func (s *Set) magnitude(x []float32) uint32 {
	var l [lanes]uint32
	n := 0
	if s.path == pathAVX2 {
		if n = whole8(len(x)); n > 0 {
			magnitudeAVX2(&l, &x[0], n/lanes)
		}
	}
	most := magnitudePortable(x[n:])
	for _, v := range l {
		most = max(most, v)
	}
	return most
}

func (s *Set) largest(x []float32) float32 {
	l := eight(float32(math.Inf(-1)))
	n := 0
	if s.path == pathAVX2 {
		if n = whole8(len(x)); n > 0 {
			largestAVX2(&l, &x[0], n/lanes)
		}
	}
	return max(largestPortable(x[n:]), largestPortable(l[:]))
}

func (s *Set) weights(dst, x []float32, largest, factor float32) {
	n := 0
	if s.path == pathAVX2 {
		if n = whole8(len(x)); n > 0 {
			weightsAVX2(&dst[0], &x[0], n/lanes, largest, factor)
		}
	}
	weightsPortable(dst[n:], x[n:], largest, factor)
}

// weightSum adds the whole vectors of x to the lanes and returns how many elements these are.
func (s *Set) weightSum(l *[lanes]float32, x []float32, least, largest, factor float32) (n int) {
	if s.path == pathAVX2 {
		if n = whole8(len(x)); n > 0 {
			weightSumAVX2(l, &x[0], n/lanes, least, largest, factor)
		}
	}
	return n
}

// atLeast looks through the whole vectors of x; n is how many elements these are.
func (s *Set) atLeast(dst []int32, x []float32, least float32) (n, found int) {
	if s.path == pathAVX2 {
		if n = whole8(len(x)); n > 0 {
			found = atLeastAVX2(&dst[0], &x[0], n/lanes, least)
		}
	}
	return n, found
}
