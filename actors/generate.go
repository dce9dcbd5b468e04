package actors

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"slicescheduler/actors/protocol"
	"slicescheduler/gmg"
	"slicescheduler/gpuworker/sampling"
	"slicescheduler/model"
)

// maxPriority bounds a request's priority, either way: each level puts it forward by what a request may wait, so more would mean nothing.
const maxPriority = 1000

// requestIDBytes of randomness name a request that came without an id.
const requestIDBytes = 12

// Generate admits a request or refuses it at once. Its text is encoded here, in the caller's goroutine, so that a long prompt holds nobody else up.
func (n *Node) Generate(ctx context.Context, r GenerateRequest) (Stream, error) {
	if n.rt.closing.Load() {
		return nil, ErrShutdown
	}
	e, done, err := n.useTenant(r.Tenant)
	if err != nil {
		return nil, err
	}
	defer done()
	prompt, err := encodePrompt(e, &r)
	if err != nil {
		return nil, err
	}
	q, err := n.newRequest(e, &r, prompt)
	if err != nil {
		return nil, err
	}
	n.rt.send(n.rt.gateway, admitRequest{q})
	select {
	case err = <-q.admitted:
	case <-ctx.Done():
		err = ctx.Err()
	case <-n.rt.broken:
		err = n.rt.brokenError()
	}
	if err != nil {
		q.stream.Close()
		return nil, err
	}
	return q.stream, nil
}

// useTenant returns a tenant whose model stays open until done is called.
func (n *Node) useTenant(t gmg.TenantID) (e *tenantEntry, done func(), err error) {
	if e = n.rt.tenants.get(t); e == nil {
		return nil, nil, fmt.Errorf("%w: %s", ErrNoTenant, t)
	}
	if e.broken != nil {
		return nil, nil, fmt.Errorf("%w: %s: %w", ErrTenantNotReady, t, e.broken)
	}
	done, ok := e.use()
	if !ok {
		return nil, nil, fmt.Errorf("%w: %s", ErrNoTenant, t)
	}
	return e, done, nil
}

// encodePrompt turns a request's input into tokens.
func encodePrompt(e *tenantEntry, r *GenerateRequest) ([]int32, error) {
	given := 0
	for _, is := range []bool{r.Messages != nil, r.Prompt != "", r.PromptTokens != nil} {
		if is {
			given++
		}
	}
	if given > 1 {
		return nil, &FieldError{"prompt", "give only one of messages, prompt and prompt tokens"}
	}
	switch {
	case r.Messages != nil:
		return encodeChat(e, r.Messages, r.Tools)
	case r.PromptTokens != nil:
		for i, t := range r.PromptTokens {
			if t < 0 || int(t) >= e.model.Graph.Vocab {
				return nil, &FieldError{"prompt", fmt.Sprintf("token %d at place %d is beyond the vocabulary of %d", t, i, e.model.Graph.Vocab)}
			}
		}
		return orBOS(e, append([]int32(nil), r.PromptTokens...))
	default:
		return orBOS(e, e.model.Tokenizer.Encode(r.Prompt, model.EncodeOptions{AddSpecial: true}))
	}
}

// orBOS makes an empty prompt one that the model can start from.
func orBOS(e *tenantEntry, prompt []int32) ([]int32, error) {
	if len(prompt) > 0 {
		return prompt, nil
	}
	if bos := e.model.Tokenizer.BOS(); bos >= 0 {
		return []int32{bos}, nil
	}
	return nil, &FieldError{"prompt", "is empty, and the model has no token to begin a text with"}
}

func encodeChat(e *tenantEntry, messages []model.Message, tools []byte) ([]int32, error) {
	if len(messages) == 0 {
		return nil, &FieldError{"messages", "is empty; a chat needs at least one message"}
	}
	prompt, err := e.model.EncodeChat(messages, model.ChatOptions{Template: e.template, Tools: tools})
	switch {
	case errors.Is(err, ErrNoTemplate):
		return nil, err
	case err != nil:
		return nil, &FieldError{"messages", err.Error()}
	}
	return orBOS(e, prompt)
}

// newRequest checks a request and makes its journal.
func (n *Node) newRequest(e *tenantEntry, r *GenerateRequest, prompt []int32) (*request, error) {
	if err := n.checkRequest(e, r); err != nil {
		return nil, err
	}
	limit, most := e.contextTokens(), r.MaxTokens
	if most == 0 {
		most = max(1, limit-len(prompt))
	}
	switch {
	case most > limit-len(prompt):
		return nil, &LengthError{PromptTokens: len(prompt), MaxTokens: most, LimitTokens: limit}
	case r.MinTokens > most:
		return nil, &FieldError{"min_tokens", fmt.Sprintf("must be at most the %d tokens that the answer may have, got %d", most, r.MinTokens)}
	}
	if !r.Sampling.HasSeed {
		var seed [8]byte
		_, _ = rand.Read(seed[:]) // never fails
		r.Sampling.Seed, r.Sampling.HasSeed = binary.LittleEndian.Uint64(seed[:]), true
	}
	q := &request{seq: n.rt.sequence.Add(1), id: r.ID, entry: e, logprobs: r.Logprobs, admitted: make(chan error, 1)}
	if q.id == "" {
		var id [requestIDBytes]byte
		_, _ = rand.Read(id[:]) // never fails
		q.id = fmt.Sprintf("req-%x", id)
	}
	now := n.rt.nowNs()
	q.timing.ArrivalNs = now
	q.submit = &protocol.Submit{
		Seq: q.seq, Id: q.id, Prompt: prompt, MaxTokens: int32(most), OpenEnd: r.MaxTokens == 0, MinTokens: int32(r.MinTokens), IgnoreEos: r.IgnoreEOS,
		Sampling: paramsToProto(r.Sampling), Logprobs: int32(r.Logprobs), Priority: int32(r.Priority), ArrivalNs: now,
	}
	var shown []int32
	if r.Tools != nil {
		shown = e.model.ToolMarks(e.model.ToolFormat(e.template))
	}
	q.transcript = newTranscript(model.NewStreamDecoder(e.model.Tokenizer, shown...), r.Stop, r.MinTokens, r.Logprobs >= 0)
	q.stream = newStream(q.id, n.rt.config.Limits.StreamTokens)
	q.stream.resume = func() { n.rt.send(n.rt.gateway, resumeRequest{q.seq}) }
	q.stream.cancel = func() { n.rt.send(n.rt.gateway, cancelRequest{q.seq}) }
	return q, nil
}

// checkRequest names the first field that is wrong.
func (n *Node) checkRequest(e *tenantEntry, r *GenerateRequest) error {
	l := n.rt.config.Limits
	switch {
	case r.MaxTokens < 0:
		return &FieldError{"max_tokens", fmt.Sprintf("must not be negative, got %d", r.MaxTokens)}
	case r.MinTokens < 0:
		return &FieldError{"min_tokens", fmt.Sprintf("must not be negative, got %d", r.MinTokens)}
	case r.Priority < -maxPriority || r.Priority > maxPriority:
		return &FieldError{"priority", fmt.Sprintf("must be %d to %d, got %d", -maxPriority, maxPriority, r.Priority)}
	case r.Logprobs > l.MaxLogprobs:
		return &FieldError{"logprobs", fmt.Sprintf("must be at most %d, got %d", l.MaxLogprobs, r.Logprobs)}
	case len(r.Stop) > l.MaxStops:
		return &FieldError{"stop", fmt.Sprintf("at most %d stop strings, got %d", l.MaxStops, len(r.Stop))}
	}
	for i, s := range r.Stop {
		if s == "" || len(s) > l.MaxStopBytes || !utf8.ValidString(s) {
			return &FieldError{"stop", fmt.Sprintf("stop string %d must be valid text of 1 to %d bytes", i, l.MaxStopBytes)}
		}
	}
	err := r.Sampling.Validate(e.model.Graph.Vocab)
	var field *sampling.FieldError
	if errors.As(err, &field) {
		return &FieldError{field.Field, field.Reason}
	}
	return err
}

// Tokenize encodes text as the tenant's model does.
func (n *Node) Tokenize(_ context.Context, t gmg.TenantID, text string, o model.EncodeOptions) ([]int32, error) {
	e, done, err := n.useTenant(t)
	if err != nil {
		return nil, err
	}
	defer done()
	return e.model.Tokenizer.Encode(text, o), nil
}

// TenantModel tells what is served.
func (n *Node) TenantModel(_ context.Context, t gmg.TenantID) (TenantModel, error) {
	e, done, err := n.useTenant(t)
	if err != nil {
		return TenantModel{}, err
	}
	defer done()
	return TenantModel{
		Tenant: t, Model: e.spec.Model, ContextTokens: e.contextTokens(), VocabSize: e.model.Graph.Vocab,
		HasTemplate: e.template != nil || e.model.Template != nil, ToolFormat: e.model.ToolFormat(e.template), CreatedUnixS: e.createdUnixS,
	}, nil
}
