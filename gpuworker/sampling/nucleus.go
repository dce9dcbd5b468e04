package sampling

import (
	"math"
	"slices"

	"slicescheduler/gpuworker/cpu/kernels"
)

// widths are the distances from the largest logit, in units of the temperature, within which top-p looks for its tokens: most of the time the first holds
// enough, and few tokens lie that near. Beyond the last one a token weighs nothing.
var widths = [...]float32{4, 8, 16, 88}

// fan is the number of buckets over which tokens are spread by their logits, those of the largest logits first.
const fan = 2048

// nucleus draws from the most likely tokens that together hold top_p of the mass (arXiv 1904.09751). Tokens are spread over buckets by their logits, and only
// the bucket in which the nucleus ends and the one in which the draw falls are put in order: a flat distribution costs no sort of the vocabulary.
type nucleus struct {
	tokens  []int32 // of all that weigh enough, by id
	logits  []float32
	lowest  float32
	weights []float32
	bucket  []uint16
	masses  []float64 // by bucket
	some    []ranked  // a bucket in order
}

// sample returns the token at which the running sum of weights passes the share u of the nucleus. want is the weight that the nucleus has at least.
func (n *nucleus) sample(k *kernels.Set, logits []float32, c scale, temperature float32, want, u float64) int32 {
	for _, width := range widths {
		n.collect(k, logits, c, max(c.least, c.largest-float32(width*temperature)))
		var mass float64
		for _, w := range n.weights {
			mass += float64(w)
		}
		if mass >= want {
			break
		}
	}
	n.spread(c.largest)
	end, kept := n.cross(c, func(sum float64) bool { return sum >= want })
	left := float64(u * kept)
	token, _ := n.cross(c, func(sum float64) bool { return sum > left })
	if end.before(token) { // by rounding
		token = end
	}
	return token.token
}

// collect takes all tokens from a logit up.
func (n *nucleus) collect(k *kernels.Set, logits []float32, c scale, from float32) {
	n.tokens = slices.Grow(n.tokens[:0], len(logits))[:len(logits)]
	found := k.AtLeast(n.tokens, logits, max(from, -math.MaxFloat32)) // masked tokens are below any
	n.tokens = n.tokens[:found]
	n.logits = slices.Grow(n.logits[:0], found)[:found]
	n.lowest = c.largest
	for i, t := range n.tokens {
		x := logits[t]
		n.logits[i] = x
		if x < n.lowest {
			n.lowest = x
		}
	}
	n.weights = slices.Grow(n.weights[:0], found)[:found]
	k.Weights(n.weights, n.logits, c.largest, c.inverse)
}

// spread gives each token its bucket and sums their weights. Larger logits never have later buckets.
func (n *nucleus) spread(largest float32) {
	n.masses = slices.Grow(n.masses[:0], fan)[:fan]
	clear(n.masses)
	n.bucket = slices.Grow(n.bucket[:0], len(n.logits))[:len(n.logits)]
	perLogit := (fan - 1) / (largest - n.lowest)
	if !(perLogit < math.MaxFloat32) { // all equal or nearly: one bucket
		perLogit = 0
	}
	for i, x := range n.logits {
		b := uint16(float32((largest - x) * perLogit))
		n.bucket[i] = b
		n.masses[b] += float64(n.weights[i])
	}
}

// cross walks the tokens from the most likely on until their running sum of weights reaches an end, and returns the token and the sum there. Where rounding
// keeps the sum below, that is the last token.
func (n *nucleus) cross(c scale, ends func(sum float64) bool) (ranked, float64) {
	var sum, before float64
	last := 0
	for b, mass := range n.masses {
		if mass == 0 {
			continue
		}
		last, before = b, sum
		if sum += mass; ends(sum) {
			break
		}
	}
	n.order(last)
	sum = before
	for _, r := range n.some {
		if sum += float64(c.weight(r.logit)); ends(sum) {
			return r, sum
		}
	}
	return n.some[len(n.some)-1], sum
}

// order puts a bucket's tokens in order.
func (n *nucleus) order(bucket int) {
	n.some = n.some[:0]
	for i, b := range n.bucket {
		if int(b) == bucket {
			n.some = append(n.some, ranked{n.logits[i], n.tokens[i]})
		}
	}
	slices.SortFunc(n.some, func(a, b ranked) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
}
