// Package sampling turns logits into tokens. It is pure and deterministic: a token depends on the logits, the parameters, the sequence's own tokens and
// its index, never on what else is in the batch, so a seed gives the same text under every placement, preemption and restart.
package sampling

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// ErrParams is returned for sampling parameters that can't be; the error is a FieldError.
var ErrParams = errors.New("invalid sampling parameter")

// Limits of parameters, as OpenAI's API and vLLM set them.
const (
	MaxPenalty   = 2   // presence and frequency penalties, either sign
	MaxLogitBias = 100 // either sign
	MaxLogprobs  = 20  // alternatives a token
)

// Params are a request's sampling parameters, in OpenAI's and vLLM's terms. The zero value is not valid; start from Default.
type Params struct {
	Temperature       float32 // 0: greedy
	TopK              int     // 0 or -1: off
	TopP              float32 // 1: off
	MinP              float32 // 0: off
	RepetitionPenalty float32 // 1: off
	PresencePenalty   float32 // 0: off
	FrequencyPenalty  float32 // 0: off
	// Seed of the answer; when HasSeed is false the gateway picks one at random and keeps it with the request.
	Seed      uint64
	HasSeed   bool
	LogitBias map[int32]float32
}

// Default returns the parameters that leave the model's distribution as it is.
func Default() Params {
	return Params{Temperature: 1, TopP: 1, RepetitionPenalty: 1}
}

// FieldError names the parameter at fault as the API spells it. It is an ErrParams.
type FieldError struct {
	Field, Reason string
}

func (e *FieldError) Error() string        { return e.Field + ": " + e.Reason }
func (e *FieldError) Is(target error) bool { return target == ErrParams }

// Validate says which parameter is wrong and what it may be, as a *FieldError. vocab bounds the ids of LogitBias; 0 means that it isn't known yet.
func (p Params) Validate(vocab int) error {
	inf := math.Inf(1)
	for _, f := range [...]struct {
		field    string
		value    float32
		from, to float64
		open     bool // from itself is excluded
		want     string
	}{
		{"temperature", p.Temperature, 0, inf, false, "at least 0"},
		{"top_p", p.TopP, 0, 1, true, "above 0 and at most 1"},
		{"min_p", p.MinP, 0, 1, false, "0 to 1"},
		{"repetition_penalty", p.RepetitionPenalty, 0, inf, true, "above 0"},
		{"presence_penalty", p.PresencePenalty, -MaxPenalty, MaxPenalty, false, "-2 to 2"},
		{"frequency_penalty", p.FrequencyPenalty, -MaxPenalty, MaxPenalty, false, "-2 to 2"},
	} {
		v := float64(f.value)
		if math.IsNaN(v) || math.IsInf(v, 0) || v < f.from || v > f.to || f.open && v == f.from {
			return &FieldError{f.field, fmt.Sprintf("must be %s, got %v", f.want, f.value)}
		}
	}
	if p.TopK < -1 {
		return &FieldError{"top_k", fmt.Sprintf("must be positive, or 0 or -1 for all, got %d", p.TopK)}
	}
	for _, id := range slices.Sorted(maps.Keys(p.LogitBias)) {
		bias := float64(p.LogitBias[id])
		if id < 0 || vocab > 0 && int(id) >= vocab {
			return &FieldError{"logit_bias", fmt.Sprintf("token %d is beyond the vocabulary of %d", id, vocab)}
		}
		if math.IsNaN(bias) || math.Abs(bias) > MaxLogitBias {
			return &FieldError{"logit_bias", fmt.Sprintf("must be -100 to 100, got %v for token %d", bias, id)}
		}
	}
	return nil
}
