package workload

import (
	"math"
	"math/bits"
)

// A Sketch's buckets: values below 2*subBuckets are exact, above that each power of two has subBuckets equal buckets.
const (
	subBits    = 6
	subBuckets = 1 << subBits
	// RelativeError bounds how far a Sketch's quantile lies from the exact one: half a bucket.
	RelativeError = 0.5 / subBuckets
)

// Sketch summarises durations in nanoseconds: quantiles within RelativeError, mean, minimum and maximum exactly. It is a histogram with
// log-linear buckets (as in HdrHistogram), so it needs no randomness and no floating point to fill: the same values in any order and any
// grouping give the same sketch. It takes 8 bytes for each bucket between the smallest and the largest value, at most 30 KiB; values of one millisecond to
// one minute span 8.3 KiB. Negative values count as 0. The zero Sketch is empty and ready.
type Sketch struct {
	counts   []uint64 // of buckets from first on
	first    int
	count    uint64
	sum      [2]uint64 // 128 bits, high word first
	min, max int64
}

// bucketOf returns the bucket of a value >= 0.
func bucketOf(v int64) int {
	shift := max(0, bits.Len64(uint64(v))-subBits-1)
	return shift<<subBits + int(v>>shift)
}

// bucketMiddle returns the middle of a bucket's values, rounded down.
func bucketMiddle(bucket int) int64 {
	shift := max(0, bucket>>subBits-1)
	low := int64(bucket-shift<<subBits) << shift
	return low + (int64(1)<<shift-1)/2
}

// Add counts one value.
func (s *Sketch) Add(ns int64) {
	ns = max(0, ns)
	b := bucketOf(ns)
	s.reach(b, b+1)
	s.counts[b-s.first]++
	s.addTotals(1, [2]uint64{0, uint64(ns)}, ns, ns)
}

// Merge adds another sketch's values.
func (s *Sketch) Merge(o *Sketch) {
	if o.count == 0 {
		return
	}
	s.reach(o.first, o.first+len(o.counts))
	for i, c := range o.counts {
		s.counts[o.first-s.first+i] += c
	}
	s.addTotals(o.count, o.sum, o.min, o.max)
}

func (s *Sketch) addTotals(count uint64, sum [2]uint64, low, high int64) {
	if s.count == 0 {
		s.min, s.max = low, high
	}
	s.count += count
	var carry uint64
	s.sum[1], carry = bits.Add64(s.sum[1], sum[1], 0)
	s.sum[0] += sum[0] + carry
	s.min, s.max = min(s.min, low), max(s.max, high)
}

// reach makes room for the buckets [from, to).
func (s *Sketch) reach(from, to int) {
	if len(s.counts) == 0 {
		s.first = from
	}
	from, to = min(from, s.first), max(to, s.first+len(s.counts))
	if from == s.first && to == s.first+len(s.counts) {
		return
	}
	counts := make([]uint64, to-from)
	copy(counts[s.first-from:], s.counts)
	s.counts, s.first = counts, from
}

// Count returns the number of values.
func (s *Sketch) Count() int64 { return int64(s.count) }

// Mean returns the mean, 0 of nothing.
func (s *Sketch) Mean() float64 {
	if s.count == 0 {
		return 0
	}
	const highWord = 1 << 64
	return (float64(s.sum[0])*highWord + float64(s.sum[1])) / float64(s.count)
}

// Quantile returns the smallest value that at least the share q of all values don't exceed, within RelativeError; 0 of nothing. q is held within 0 and 1.
func (s *Sketch) Quantile(q float64) int64 {
	if s.count == 0 {
		return 0
	}
	rank := uint64(math.Ceil(min(1, max(0, q)) * float64(s.count)))
	rank = min(max(1, rank), s.count)
	var seen uint64
	for i, c := range s.counts {
		if seen += c; seen >= rank {
			return min(s.max, max(s.min, bucketMiddle(s.first+i)))
		}
	}
	return s.max
}

// Distribution is a sketch's figures as reports show them.
type Distribution struct {
	Count               int64
	MeanNs              float64
	P50Ns, P90Ns, P99Ns int64
	MaxNs               int64
}

// Distribution returns the sketch's figures.
func (s *Sketch) Distribution() Distribution {
	return Distribution{Count: s.Count(), MeanNs: s.Mean(), P50Ns: s.Quantile(0.5), P90Ns: s.Quantile(0.9), P99Ns: s.Quantile(0.99), MaxNs: s.max}
}
