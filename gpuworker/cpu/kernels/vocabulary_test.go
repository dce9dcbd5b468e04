package kernels

import (
	"math"
	"slices"
	"testing"
)

// TestVocabularyPathsGiveTheSame compares the passes over logits on every length of the last vector, with masked tokens, ties and both zeros.
func TestVocabularyPathsGiveTheSame(t *testing.T) {
	r := random(t)
	for _, s := range Available() {
		for n := 1; n < 70; n++ {
			x := randomFloats(r, n, []float32{1, 30, 1e30}[n%3])
			for range n / 4 {
				x[r.IntN(n)] = []float32{float32(math.Inf(-1)), 0, float32(math.Copysign(0, -1)), x[0]}[r.IntN(4)]
			}
			largest := s.Largest(x)
			sameBits(t, "largest", []float32{largest}, []float32{Portable().Largest(x)})
			if largest != slices.Max(x) {
				t.Fatalf("largest of %v is %v", x, largest)
			}
			if math.IsInf(float64(largest), -1) {
				continue
			}
			least := x[r.IntN(n)]
			got, want := make([]float32, n), make([]float32, n)
			s.Weights(got, x, largest, 1.25)
			Portable().Weights(want, x, largest, 1.25)
			sameBits(t, "weights", got, want)
			sameBits(t, "sum of weights", []float32{s.WeightSum(x, least, largest, 1.25)}, []float32{Portable().WeightSum(x, least, largest, 1.25)})
			checkAtLeast(t, s, x, least)
		}
	}
}

func checkAtLeast(t *testing.T, s *Set, x []float32, least float32) {
	t.Helper()
	var want []int32
	for i, v := range x {
		if v >= least {
			want = append(want, int32(i))
		}
	}
	got := make([]int32, len(x))
	if got = got[:s.AtLeast(got, x, least)]; !slices.Equal(got, want) {
		t.Fatalf("%s: of %v at least %v are %v, want %v", s.Name(), x, least, got, want)
	}
}

func TestFiniteFindsWhatIsNot(t *testing.T) {
	r := random(t)
	for _, s := range Available() {
		for n := 1; n < 40; n++ {
			x := randomFloats(r, n, 1e30)
			if !s.Finite(x) {
				t.Fatalf("%s: %v are not finite", s.Name(), x)
			}
			x[r.IntN(n)] = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}[n%3]
			if s.Finite(x) {
				t.Fatalf("%s: %v are finite", s.Name(), x)
			}
		}
	}
}
