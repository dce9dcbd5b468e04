package sampling

import (
	"math"
	"slices"
)

// Sizes of selection's passes. Probabilities are summed in blocks of consecutive ids, so that a draw finds its block without a second look at all
// tokens. The histogram of top-p has buckets by distance from the largest logit, in units of the temperature.
const (
	sumBlock     = 512
	buckets      = 1024
	bucketsPer1  = 16
	lastBucketAt = float32(buckets-1) / bucketsPer1
)

// selection draws a token. Every truncation comes down to a cut in the order of tokens: what isn't after the cut is kept. So no list of candidates
// is made or sorted beyond the k of top-k and the one bucket in which top-p ends.
type selection struct {
	heap   topHeap
	sums   []float64
	hist   []float64
	border []ranked
}

// sample draws one of the tokens that min-p, top-k and top-p leave; u is uniform in [0, 1), largest the largest logit.
func (s *selection) sample(logits []float32, largest float32, p Params, u float64) int32 {
	inv := 1 / p.Temperature
	cut := ranked{masked, math.MaxInt32}
	if p.MinP > 0 {
		cut.logit = largest + float32(p.Temperature*float32(math.Log(float64(p.MinP))))
	}
	switch {
	case p.TopK > 0 && p.TopK < len(logits):
		s.heap.fill(logits, p.TopK)
		s.heap.sort()
		cut = s.cutSorted(cut, largest, inv, p.TopP)
	case p.TopP < 1:
		cut = s.cutTopP(logits, cut, largest, inv, p.TopP)
	}
	return s.draw(logits, cut, largest, inv, u)
}

// weight is a token's probability up to a common factor.
func weight(logit, largest, inv float32) float32 { return exp32(float32((logit - largest) * inv)) }

// kept says whether a token isn't after the cut.
func (cut ranked) kept(logit float32, token int32) bool {
	return logit > cut.logit || logit == cut.logit && token <= cut.token
}

// cutSorted returns the last token that is kept of the heap's items, which are in order: those not after cut whose predecessors' share is below topP.
func (s *selection) cutSorted(cut ranked, largest, inv, topP float32) ranked {
	items := s.heap.items
	n := len(items)
	for n > 1 && !cut.kept(items[n-1].logit, items[n-1].token) {
		n--
	}
	if topP >= 1 {
		return items[n-1]
	}
	var total, sum float64
	for _, r := range items[:n] {
		total += float64(weight(r.logit, largest, inv))
	}
	for _, r := range items[:n] {
		if sum += float64(weight(r.logit, largest, inv)); sum >= float64(topP)*total {
			return r
		}
	}
	return items[n-1]
}

// bucket returns a token's place in the histogram, 0 for the largest logit.
func bucket(logit, largest, inv float32) int {
	d := float32((largest - logit) * inv)
	if d >= lastBucketAt {
		return buckets - 1
	}
	return int(d * bucketsPer1)
}

// cutTopP returns the last token of the smallest set, in order, that has topP of the probability of all tokens up to cut.
func (s *selection) cutTopP(logits []float32, cut ranked, largest, inv, topP float32) ranked {
	if s.hist == nil {
		s.hist = make([]float64, buckets)
	}
	clear(s.hist)
	for i, x := range logits {
		if cut.kept(x, int32(i)) {
			s.hist[bucket(x, largest, inv)] += float64(weight(x, largest, inv))
		}
	}
	var total float64
	for _, h := range s.hist {
		total += h
	}
	want, sum, at := float64(topP)*total, 0.0, 0
	for at < buckets-1 && sum+s.hist[at] < want {
		sum += s.hist[at]
		at++
	}
	s.border = s.border[:0]
	for i, x := range logits {
		if cut.kept(x, int32(i)) && bucket(x, largest, inv) == at {
			s.border = append(s.border, ranked{x, int32(i)})
		}
	}
	slices.SortFunc(s.border, func(a, b ranked) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	for _, r := range s.border {
		if sum += float64(weight(r.logit, largest, inv)); sum >= want {
			return r
		}
	}
	return cut // rounding left a little missing
}

// draw picks a kept token by its probability, in the order of ids.
func (s *selection) draw(logits []float32, cut ranked, largest, inv float32, u float64) int32 {
	s.sums = s.sums[:0]
	var total float64
	for from := 0; from < len(logits); from += sumBlock {
		var sum float64
		for i, x := range logits[from:min(from+sumBlock, len(logits))] {
			if cut.kept(x, int32(from+i)) {
				sum += float64(weight(x, largest, inv))
			}
		}
		s.sums = append(s.sums, sum)
		total += sum
	}
	left, block := float64(u*total), 0
	for block < len(s.sums)-1 && left >= s.sums[block] {
		left -= s.sums[block]
		block++
	}
	last := int32(-1)
	for block >= 0 && last < 0 { // rounding can end in a block with nothing kept; go back to one that has
		last = pick(logits, block*sumBlock, cut, largest, inv, left)
		block--
	}
	return last
}

// pick returns the token of a block at which the running sum of probabilities passes left, the last kept one when rounding left a little over, -1 when none is
// kept.
func pick(logits []float32, from int, cut ranked, largest, inv float32, left float64) int32 {
	last := int32(-1)
	for i := from; i < min(from+sumBlock, len(logits)); i++ {
		if !cut.kept(logits[i], int32(i)) {
			continue
		}
		w := float64(weight(logits[i], largest, inv))
		if w == 0 {
			continue
		}
		last = int32(i)
		if left < w {
			return last
		}
		left -= w
	}
	return last
}
