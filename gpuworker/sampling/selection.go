package sampling

import (
	"math"

	"slicescheduler/gpuworker/cpu/kernels"
)

// sumBlock is the number of consecutive ids whose weights are summed together, so that a draw finds its block without a second look at all tokens.
const sumBlock = 512

// scale turns logits into weights: a token's probability up to a common factor.
type scale struct {
	largest float32 // logit
	inverse float32 // of the temperature
	least   float32 // logits below have no weight
}

func (c scale) weight(logit float32) float32 {
	return kernels.Exp(float32((logit - c.largest) * c.inverse))
}

// selection draws a token. Nothing is sorted beyond the k of top-k, or the few tokens among which top-p ends and the draw falls.
type selection struct {
	kernels *kernels.Set
	heap    topHeap
	sums    []float64
	nucleus nucleus
}

func newSelection(k *kernels.Set) selection { return selection{kernels: k} }

// sample draws one of the tokens that min-p, top-k and top-p leave; u is uniform in [0, 1), largest the largest logit. With top-k or top-p the tokens are lined
// up from the most likely on, otherwise by id.
func (s *selection) sample(logits []float32, largest float32, p Params, u float64) int32 {
	c := scale{largest: largest, inverse: 1 / p.Temperature, least: masked}
	if p.MinP > 0 {
		c.least = largest + float32(p.Temperature*float32(math.Log(float64(p.MinP))))
	}
	switch {
	case p.TopK > 0 && p.TopK < len(logits):
		s.heap.fill(logits, p.TopK)
		s.heap.sort()
		kept := s.heap.items
		for len(kept) > 1 && kept[len(kept)-1].logit < c.least {
			kept = kept[:len(kept)-1]
		}
		return c.pick(c.firstShare(kept, float64(p.TopP)*c.mass(kept)), u)
	case p.TopP < 1:
		want := float64(p.TopP) * s.sum(logits, c)
		return s.nucleus.sample(s.kernels, logits, c, p.Temperature, want, u)
	}
	return s.draw(logits, c, u)
}

func (c scale) mass(items []ranked) (sum float64) {
	for _, r := range items {
		sum += float64(c.weight(r.logit))
	}
	return sum
}

// firstShare returns the shortest beginning of items that weighs at least want; all of them when rounding leaves a little missing.
func (c scale) firstShare(items []ranked, want float64) []ranked {
	var sum float64
	for i, r := range items {
		if sum += float64(c.weight(r.logit)); sum >= want {
			return items[:i+1]
		}
	}
	return items
}

// pick draws one of a few tokens.
func (c scale) pick(items []ranked, u float64) int32 {
	left := float64(u * c.mass(items))
	for _, r := range items {
		w := float64(c.weight(r.logit))
		if left < w {
			return r.token
		}
		left -= w
	}
	return items[0].token // rounding left a little over
}

// sum adds the weights of all tokens, by blocks, which stay in s.sums.
func (s *selection) sum(logits []float32, c scale) (total float64) {
	s.sums = s.sums[:0]
	for from := 0; from < len(logits); from += sumBlock {
		sum := float64(s.kernels.WeightSum(logits[from:min(from+sumBlock, len(logits))], c.least, c.largest, c.inverse))
		s.sums = append(s.sums, sum)
		total += sum
	}
	return total
}

// draw picks one of all tokens from least up, in the order of ids.
func (s *selection) draw(logits []float32, c scale, u float64) int32 {
	left, block := float64(u*s.sum(logits, c)), 0
	for block < len(s.sums)-1 && left >= s.sums[block] {
		left -= s.sums[block]
		block++
	}
	for { // rounding can end in a block without a token; an earlier one has the largest
		if t := c.pickByID(logits, block*sumBlock, left); t >= 0 {
			return t
		}
		block--
	}
}

// pickByID returns the token of a block at which the running sum of weights passes left, the last one when rounding left a little over, -1 when none weighs
// anything.
func (c scale) pickByID(logits []float32, from int, left float64) int32 {
	last := int32(-1)
	for i := from; i < min(from+sumBlock, len(logits)); i++ {
		if logits[i] < c.least {
			continue
		}
		w := float64(c.weight(logits[i]))
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
