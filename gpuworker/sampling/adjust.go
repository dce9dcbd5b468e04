package sampling

import "math"

// masked is the logit of a token that can't be chosen.
var masked = float32(math.Inf(-1))

// adjust applies end tokens, bias and penalties to logits in place and keeps what it changed.
func (s *Sampler) adjust(logits []float32) {
	if s.answer < s.config.MinTokens {
		for _, t := range s.config.Ends {
			if t >= 0 && int(t) < len(logits) {
				s.set(logits, t, masked)
			}
		}
	}
	for _, b := range s.bias {
		s.set(logits, b.Token, logits[b.Token]+b.Logprob)
	}
	p := s.config.Params
	for _, c := range s.history.tokens {
		if int(c.token) < len(logits) {
			s.set(logits, c.token, penalise(logits[c.token], p, c.answer))
		}
	}
}

func (s *Sampler) set(logits []float32, t int32, x float32) {
	s.changed = append(s.changed, change{t, logits[t]})
	logits[t] = x
}

// restore undoes adjust, last change first.
func (s *Sampler) restore(logits []float32) {
	for i := len(s.changed) - 1; i >= 0; i-- {
		logits[s.changed[i].token] = s.changed[i].logit
	}
	s.changed = s.changed[:0]
}

// penalise lowers the logit of a token that occurs in the prompt or the answer, answer being how often in the latter: repetition (CTRL, arXiv 1909.05858) counts
// both, frequency and presence the answer alone, as vLLM does.
func penalise(x float32, p Params, answer int32) float32 {
	if x > 0 {
		x /= p.RepetitionPenalty
	} else {
		x *= p.RepetitionPenalty
	}
	if answer > 0 {
		x -= float32(p.FrequencyPenalty * float32(answer))
		x -= p.PresencePenalty
	}
	return x
}

// history counts a sequence's tokens. Without penalties it keeps nothing.
type history struct {
	on     bool
	tokens []tokenCount
	index  map[int32]int32 // into tokens
}

type tokenCount struct {
	token  int32
	answer int32 // occurrences in the answer
}

func newHistory(p Params) history {
	h := history{on: p.RepetitionPenalty != 1 || p.PresencePenalty != 0 || p.FrequencyPenalty != 0}
	if h.on {
		h.index = make(map[int32]int32)
	}
	return h
}

func (h *history) add(t int32, answer bool) {
	if !h.on || t < 0 {
		return
	}
	i, known := h.index[t]
	if !known {
		i = int32(len(h.tokens))
		h.index[t] = i
		h.tokens = append(h.tokens, tokenCount{token: t})
	}
	if answer {
		h.tokens[i].answer++
	}
}
