package workload

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// exactQuantile is the definition that Quantile approximates.
func exactQuantile(sorted []int64, q float64) int64 {
	return sorted[max(1, int(math.Ceil(q*float64(len(sorted)))))-1]
}

func TestSketchAgainstSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.IntRange(1, 63).Draw(t, "bits")
		values := rapid.SliceOfN(rapid.Int64Range(0, 1<<bits-1), 1, 200).Draw(t, "values")
		var s Sketch
		var sum float64
		for _, v := range values {
			s.Add(v)
			sum += float64(v)
		}
		slices.Sort(values)
		for _, q := range []float64{-1, 0, 0.01, 0.5, 0.9, 0.99, 1, 2} {
			got, want := s.Quantile(q), exactQuantile(values, min(1, max(0, q)))
			if math.Abs(float64(got-want)) > RelativeError*float64(want) {
				t.Fatalf("quantile %v is %d, exactly %d", q, got, want)
			}
		}
		if want := sum / float64(len(values)); math.Abs(s.Mean()-want) > 1e-12*want {
			t.Fatalf("mean %v, wants %v", s.Mean(), want)
		}
		if s.max != values[len(values)-1] || s.min != values[0] || s.Count() != int64(len(values)) {
			t.Fatalf("%d values from %d to %d", s.Count(), s.min, s.max)
		}
	})
}

func TestSketchMergesToTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(-10, 1<<40), 0, 100).Draw(t, "values")
		cut := rapid.IntRange(0, len(values)).Draw(t, "cut")
		var whole, left, right Sketch
		for i, v := range values {
			whole.Add(v)
			if i < cut {
				left.Add(v)
			} else {
				right.Add(v)
			}
		}
		right.Merge(&left)
		if right.Distribution() != whole.Distribution() || right.count > 0 && !reflect.DeepEqual(right, whole) {
			t.Fatalf("merged %+v\n whole %+v", right, whole)
		}
	})
}

func TestSketchIsBounded(t *testing.T) {
	var s Sketch
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		s.Add(int64(rng.Uint64() >> (1 + rng.UintN(62))))
	}
	s.Add(0)
	s.Add(math.MaxInt64)
	if kib := float64(len(s.counts)) * 8 / 1024; kib > 30 {
		t.Fatalf("%.1f KiB of buckets", kib)
	}
	s = Sketch{}
	s.Add(1_000_000)
	s.Add(60_000_000_000)
	if kib := float64(len(s.counts)) * 8 / 1024; kib > 8.5 {
		t.Fatalf("%.1f KiB of buckets for 1 ms to 1 min", kib)
	}
}

func TestEmptySketch(t *testing.T) {
	var s Sketch
	if s.Distribution() != (Distribution{}) {
		t.Fatalf("%+v", s.Distribution())
	}
}

func BenchmarkSketchAdd(b *testing.B) {
	var s Sketch
	b.ReportAllocs()
	for i := int64(0); b.Loop(); i++ {
		s.Add(i * 7919 % 1_000_000_000)
	}
}
