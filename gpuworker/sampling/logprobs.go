package sampling

import "math"

// logprobs returns the chosen token's log probability in the softmax of the raw logits, and those of the most likely tokens when asked for.
func (s *Sampler) logprobs(logits []float32, token int32) (float32, []Logprob) {
	largest := s.selection.kernels.Largest(logits)
	norm := float64(largest) + math.Log(s.selection.sum(logits, scale{largest: largest, inverse: 1, least: masked}))
	of := func(t int32) float32 { return float32(float64(logits[t]) - norm) }
	if s.config.Logprobs == 0 {
		return of(token), nil
	}
	s.selection.heap.fill(logits, s.config.Logprobs)
	s.selection.heap.sort()
	s.top = s.top[:0]
	for _, r := range s.selection.heap.items {
		s.top = append(s.top, Logprob{r.token, of(r.token)})
	}
	return of(token), s.top
}
