package kernels

import "math"

// The functions of this file serve sampling: passes over a row of logits, one for each token of the vocabulary.

// Exp returns e^x as every kernel computes it: within 2 units in the last place, 0 below -87, and at most e^88.
func Exp(x float32) float32 { return exp32(x) }

// Finite says whether no x is NaN or infinite.
func (s *Set) Finite(x []float32) bool {
	return s.magnitude(x) < math.Float32bits(float32(math.Inf(1)))
}

func magnitudePortable(x []float32) (most uint32) {
	for _, v := range x {
		most = max(most, math.Float32bits(v)&^(1<<31))
	}
	return most
}

// Largest returns the largest x, minus infinity for none. No x may be NaN.
func (s *Set) Largest(x []float32) float32 {
	return s.largest(x) + 0 // of the two zeros the positive one, whichever came first
}

func largestPortable(x []float32) float32 {
	most := float32(math.Inf(-1))
	for _, v := range x {
		if v > most {
			most = v
		}
	}
	return most
}

// Weights writes e^((x-largest)*factor) for each x, which are at most largest. dst may be x.
func (s *Set) Weights(dst, x []float32, largest, factor float32) {
	mustBe("Weights", len(dst) >= len(x), len(dst), len(x))
	s.weights(dst, x, largest, factor)
}

func weightsPortable(dst, x []float32, largest, factor float32) {
	for i, v := range x {
		dst[i] = exp32(float32((v - largest) * factor))
	}
}

// WeightSum returns the sum of the weights (see Weights) of those x that are at least least, summed in 8 lanes.
func (s *Set) WeightSum(x []float32, least, largest, factor float32) float32 {
	var l [lanes]float32
	n := s.weightSum(&l, x, least, largest, factor)
	for i, v := range x[n:] {
		if v >= least {
			l[i%lanes] = l[i%lanes] + exp32(float32((v-largest)*factor))
		}
	}
	return sumLanes(&l)
}

// AtLeast writes the indices of those x that are at least least, in order, and returns how many they are. dst holds len(x).
func (s *Set) AtLeast(dst []int32, x []float32, least float32) int {
	mustBe("AtLeast", len(dst) >= len(x), len(dst), len(x))
	n, found := s.atLeast(dst, x, least)
	for i, v := range x[n:] {
		if v >= least {
			dst[found] = int32(n + i)
			found++
		}
	}
	return found
}
