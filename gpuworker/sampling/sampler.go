package sampling

import (
	"errors"
	"fmt"
	"slices"

	"slicescheduler/gpuworker/cpu/kernels"
)

// ErrBadLogits is returned when a row of logits holds NaN or infinity, or leaves no token to choose.
var ErrBadLogits = errors.New("logits are not finite")

// greedyBelow is the temperature under which vLLM samples greedily.
const greedyBelow = 1e-5

// Config is all that decides a sequence's tokens beside its logits.
type Config struct {
	Params Params
	Vocab  int
	// Ends are the tokens that end an answer. They can't be chosen before MinTokens tokens were.
	Ends      []int32
	MinTokens int
	// Logprobs < 0: none; 0: the chosen token's; n: with the n most likely.
	Logprobs int
}

// Validate says what is wrong with a configuration, as a *FieldError.
func (c Config) Validate() error {
	if c.Vocab < 1 {
		return &FieldError{"vocab", fmt.Sprintf("must be positive, got %d", c.Vocab)}
	}
	if c.MinTokens < 0 {
		return &FieldError{"min_tokens", fmt.Sprintf("must not be negative, got %d", c.MinTokens)}
	}
	if c.Logprobs > MaxLogprobs {
		return &FieldError{"logprobs", fmt.Sprintf("at most %d, got %d", MaxLogprobs, c.Logprobs)}
	}
	return c.Params.Validate(c.Vocab)
}

// Logprob is a token with its log probability in the softmax of the raw logits.
type Logprob struct {
	Token   int32
	Logprob float32
}

// Result is a sampled token. Logprob and Top are set as Config.Logprobs asks; Top is the sampler's own and valid until its next Sample.
type Result struct {
	Token   int32
	Logprob float32
	Top     []Logprob
}

// Sampler samples one sequence. It remembers the sequence's tokens, for penalties, and how many of them are answer. A sampler made anew from the prompt and
// the answer so far goes on exactly as the old one would have. It is not safe for concurrent use.
type Sampler struct {
	config    Config
	bias      []Logprob // Params.LogitBias by id
	history   history
	answer    int // tokens of the answer so far
	changed   []change
	selection selection
	top       []Logprob
}

// change is a logit as it was.
type change struct {
	token int32
	logit float32
}

// New returns a sampler for a sequence of a prompt and the part of its answer that is there already (nil for a fresh one).
func New(c Config, prompt, answer []int32) (*Sampler, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := &Sampler{config: c, selection: newSelection(kernels.Best())} // every path gives the same tokens
	for id, b := range c.Params.LogitBias {
		s.bias = append(s.bias, Logprob{id, b})
	}
	slices.SortFunc(s.bias, func(a, b Logprob) int { return int(a.Token) - int(b.Token) })
	s.history = newHistory(c.Params)
	for _, t := range prompt {
		s.history.add(t, false)
	}
	for _, t := range answer {
		s.accept(t)
	}
	return s, nil
}

// Answer returns the number of tokens of the answer so far.
func (s *Sampler) Answer() int { return s.answer }

func (s *Sampler) accept(t int32) {
	s.history.add(t, true)
	s.answer++
}

// Sample chooses the answer's next token from a row of logits and remembers it. The row is changed while it works and as before when it returns. The order
// of steps is vLLM's: end tokens, bias, penalties, temperature, min-p, top-k, top-p. On ErrBadLogits nothing is remembered. After the first calls it
// allocates nothing.
func (s *Sampler) Sample(logits []float32) (Result, error) {
	if len(logits) != s.config.Vocab {
		return Result{}, fmt.Errorf("%w: %d logits for a vocabulary of %d", ErrBadLogits, len(logits), s.config.Vocab)
	}
	if !s.selection.kernels.Finite(logits) {
		at := slices.IndexFunc(logits, func(x float32) bool { return x-x != 0 })
		return Result{}, fmt.Errorf("%w: %v for token %d, answer token %d", ErrBadLogits, logits[at], at, s.answer)
	}
	s.adjust(logits)
	token := s.choose(logits)
	s.restore(logits)
	if token < 0 {
		return Result{}, fmt.Errorf("%w: no token is allowed", ErrBadLogits)
	}
	r := Result{Token: token}
	if s.config.Logprobs >= 0 {
		r.Logprob, r.Top = s.logprobs(logits, token)
	}
	s.accept(token)
	return r, nil
}

func (s *Sampler) choose(logits []float32) int32 {
	largest := s.selection.kernels.Largest(logits)
	if largest == masked {
		return -1
	}
	if s.config.Params.Temperature < greedyBelow {
		return int32(slices.Index(logits, largest)) // the lowest of several
	}
	return s.selection.sample(logits, largest, s.config.Params, uniform(s.config.Params.Seed, uint64(s.answer)))
}
