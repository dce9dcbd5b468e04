package sampling

import (
	"math"
	"slices"
)

// sumBlock is the number of consecutive ids whose probabilities are summed together, so that a draw finds its block without a second look at all tokens.
const sumBlock = 512

// widths are the distances from the largest logit, in units of the temperature, within which top-p looks for its tokens: most of the time the first holds
// enough, and few tokens lie that near.
var widths = [...]float32{4, 8, 16, float32(math.Inf(1))}

// selection draws a token. Nothing is sorted beyond the k of top-k, or the few tokens among which top-p ends.
type selection struct {
	heap topHeap
	near []ranked
	sums []float64
}

// sample draws one of the tokens that min-p, top-k and top-p leave; u is uniform in [0, 1), largest the largest logit. With top-k or top-p the tokens are lined
// up from the most likely on, otherwise by id.
func (s *selection) sample(logits []float32, largest float32, p Params, u float64) int32 {
	inv, least := 1/p.Temperature, masked
	if p.MinP > 0 {
		least = largest + float32(p.Temperature*float32(math.Log(float64(p.MinP))))
	}
	switch {
	case p.TopK > 0 && p.TopK < len(logits):
		s.heap.fill(logits, p.TopK)
		s.heap.sort()
		kept := s.heap.items
		for len(kept) > 1 && kept[len(kept)-1].logit < least {
			kept = kept[:len(kept)-1]
		}
		return pickRanked(firstShare(kept, largest, inv, float64(p.TopP)*mass(kept, largest, inv)), largest, inv, u)
	case p.TopP < 1:
		want := float64(p.TopP) * s.sum(logits, least, largest, inv)
		s.collect(logits, least, largest, p.Temperature, want)
		return pickRanked(firstShare(s.near, largest, inv, want), largest, inv, u)
	}
	return s.draw(logits, least, largest, inv, u)
}

// weight is a token's probability up to a common factor.
func weight(logit, largest, inv float32) float32 { return exp32(float32((logit - largest) * inv)) }

func mass(items []ranked, largest, inv float32) (sum float64) {
	for _, r := range items {
		sum += float64(weight(r.logit, largest, inv))
	}
	return sum
}

// collect finds the most likely tokens that together weigh at least want, and some more, and puts them in order.
func (s *selection) collect(logits []float32, least, largest, temperature float32, want float64) {
	inv := 1 / temperature
	for _, width := range widths {
		from := max(least, largest-float32(width*temperature))
		s.near = s.near[:0]
		for i, x := range logits {
			if x >= from && x != masked {
				s.near = append(s.near, ranked{x, int32(i)})
			}
		}
		if mass(s.near, largest, inv) >= want {
			break
		}
	}
	slices.SortFunc(s.near, func(a, b ranked) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
}

// firstShare returns the shortest beginning of items that weighs at least want; all of them when rounding leaves a little missing.
func firstShare(items []ranked, largest, inv float32, want float64) []ranked {
	var sum float64
	for i, r := range items {
		if sum += float64(weight(r.logit, largest, inv)); sum >= want {
			return items[:i+1]
		}
	}
	return items
}

// pickRanked draws one of a few tokens.
func pickRanked(items []ranked, largest, inv float32, u float64) int32 {
	left := float64(u * mass(items, largest, inv))
	for _, r := range items {
		w := float64(weight(r.logit, largest, inv))
		if left < w {
			return r.token
		}
		left -= w
	}
	return items[0].token // rounding left a little over
}

// sum adds the weights of all tokens from least up, by blocks, which stay in s.sums.
func (s *selection) sum(logits []float32, least, largest, inv float32) (total float64) {
	s.sums = s.sums[:0]
	for from := 0; from < len(logits); from += sumBlock {
		var sum float64
		for _, x := range logits[from:min(from+sumBlock, len(logits))] {
			if x >= least {
				sum += float64(weight(x, largest, inv))
			}
		}
		s.sums = append(s.sums, sum)
		total += sum
	}
	return total
}

// draw picks one of all tokens from least up, in the order of ids.
func (s *selection) draw(logits []float32, least, largest, inv float32, u float64) int32 {
	left, block := float64(u*s.sum(logits, least, largest, inv)), 0
	for block < len(s.sums)-1 && left >= s.sums[block] {
		left -= s.sums[block]
		block++
	}
	for { // rounding can end in a block without a token; an earlier one has the largest
		if t := pick(logits, block*sumBlock, least, largest, inv, left); t >= 0 {
			return t
		}
		block--
	}
}

// pick returns the token of a block at which the running sum of weights passes left, the last one when rounding left a little over, -1 when none weighs
// anything.
func pick(logits []float32, from int, least, largest, inv float32, left float64) int32 {
	last := int32(-1)
	for i := from; i < min(from+sumBlock, len(logits)); i++ {
		if logits[i] < least {
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
