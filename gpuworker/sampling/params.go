// Package sampling turns logits into tokens. It is pure and deterministic: a token depends on the logits, the parameters, the sequence's own tokens and
// its index, never on what else is in the batch, so a seed gives the same text under every placement, preemption and restart.
package sampling

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
