package actors

import (
	"fmt"
	goruntime "runtime"
	"runtime/debug"
	"sync"

	"slicescheduler/actors/protocol"
	"slicescheduler/gpuworker"
	"slicescheduler/gpuworker/sampling"
)

// sequenceSampler samples one sequence.
type sequenceSampler struct {
	*sampling.Sampler
	logprobs bool // wanted
}

// openAndClose learns how new sequences are sampled and forgets those that ended; only the last slice needs to.
func (a *sliceActor) openAndClose(m *protocol.RunStep) error {
	if !a.slice.last() {
		return nil
	}
	for _, seq := range m.Close {
		delete(a.samplers, seq)
	}
	for _, o := range m.Open {
		s, err := sampling.New(samplingConfig(a.slice.tenant, o), o.Prompt, o.Generated)
		if err != nil {
			return fmt.Errorf("sequence %d: %w", o.Seq, err)
		}
		a.samplers[o.Seq] = sequenceSampler{s, o.Logprobs >= 0}
	}
	return nil
}

func samplingConfig(e *tenantEntry, o *protocol.OpenSequence) sampling.Config {
	return sampling.Config{
		Params: paramsFromProto(o.Sampling), Vocab: e.model.Graph.Vocab, Ends: e.ends,
		MinTokens: int(o.MinTokens), Logprobs: int(o.Logprobs),
	}
}

// sample chooses a token for each row of logits, several rows at a time. A row that can't be sampled fails its own sequence only.
func (a *sliceActor) sample(m *protocol.RunStep) ([]*protocol.StepToken, error) {
	n := len(a.sampled)
	if n == 0 {
		return nil, nil
	}
	if err := a.wait(a.slice.runner.FetchLogits(gpuworker.QueueHome, int(m.Slot), n)); err != nil {
		return nil, err
	}
	backing, tokens := make([]protocol.StepToken, n), make([]*protocol.StepToken, n)
	for i := range tokens {
		tokens[i] = &backing[i]
	}
	workers := min(goruntime.GOMAXPROCS(0), (n+rowsPerSampler-1)/rowsPerSampler)
	var others sync.WaitGroup
	for w := 1; w < workers; w++ {
		others.Go(func() { a.sampleRows(int(m.Slot), tokens, w, workers) })
	}
	a.sampleRows(int(m.Slot), tokens, 0, workers)
	others.Wait()
	return tokens, nil
}

// rowsPerSampler is how many rows of logits are worth a goroutine.
const rowsPerSampler = 2

// sampleRows samples every stride-th row. A panic is an error of its row, since nobody supervises these goroutines.
func (a *sliceActor) sampleRows(slot int, tokens []*protocol.StepToken, first, stride int) {
	for i := first; i < len(tokens); i += stride {
		a.sampleRow(slot, i, tokens[i])
	}
}

func (a *sliceActor) sampleRow(slot, row int, t *protocol.StepToken) {
	defer func() {
		if p := recover(); p != nil {
			a.rt.log.Error("sampling panicked", "slice", a.slice.name(), "panic", p, "stack", string(debug.Stack()))
			t.Error = fmt.Sprintf("internal error in sampling: %v", p)
		}
	}()
	t.Seq = a.sampled[row]
	s, ok := a.samplers[t.Seq]
	if !ok {
		t.Error = fmt.Sprintf("sequence %d was never opened on %s", t.Seq, a.slice.name())
		return
	}
	r, err := s.Sample(a.slice.runner.Logits(slot, row))
	if err != nil {
		t.Error = err.Error()
		return
	}
	t.Token = r.Token
	if s.logprobs {
		t.Logprob = logprobToProto(r)
	}
}

func logprobToProto(r sampling.Result) *protocol.TokenLogprob {
	p := &protocol.TokenLogprob{Token: r.Token, Logprob: r.Logprob}
	for _, t := range r.Top {
		p.Top = append(p.Top, &protocol.TokenLogprob{Token: t.Token, Logprob: t.Logprob})
	}
	return p
}

func paramsToProto(p sampling.Params) *protocol.Sampling {
	return &protocol.Sampling{
		Temperature: p.Temperature, TopK: int32(p.TopK), TopP: p.TopP, MinP: p.MinP, RepetitionPenalty: p.RepetitionPenalty,
		PresencePenalty: p.PresencePenalty, FrequencyPenalty: p.FrequencyPenalty, Seed: p.Seed, LogitBias: p.LogitBias,
	}
}

func paramsFromProto(p *protocol.Sampling) sampling.Params {
	return sampling.Params{
		Temperature: p.Temperature, TopK: int(p.TopK), TopP: p.TopP, MinP: p.MinP, RepetitionPenalty: p.RepetitionPenalty,
		PresencePenalty: p.PresencePenalty, FrequencyPenalty: p.FrequencyPenalty, Seed: p.Seed, HasSeed: true, LogitBias: p.LogitBias,
	}
}
