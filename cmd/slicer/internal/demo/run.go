package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"slicescheduler/actors"
	"slicescheduler/gmg"
	"slicescheduler/gpuworker/sampling"
	"slicescheduler/model"
)

// maxAnswerTokens is more than any of the demo's answers takes.
const maxAnswerTokens = 400

// ErrAnswer is an answer that is not as it should be.
var ErrAnswer = errors.New("bad answer")

// Update is one thing that happened to a tenant. Exactly one of Question, Text and Done is set.
type Update struct {
	Tenant   int
	Question string
	Text     string
	Done     *Answer
}

// Answer is what was measured of one answer.
type Answer struct {
	Tokens   int
	TTFT     time.Duration
	Decoding time.Duration // from the first token to the last
}

// TPOT is the time per token after the first.
func (a Answer) TPOT() time.Duration { return a.Decoding / time.Duration(max(1, a.Tokens-1)) }

// Run asks all tenants at once, each its questions in turn, and returns when all is answered. show gets the updates, from one goroutine at a time; next is
// called before each question and may hold it back. firstToken is the wait from the given start to the first token of all.
func Run(ctx context.Context, api actors.API, tenants []Tenant, start time.Time, show func(Update), next func(context.Context, int) error) (firstToken time.Duration, err error) {
	var mu sync.Mutex
	report := func(u Update) {
		mu.Lock()
		defer mu.Unlock()
		if u.Text != "" && firstToken == 0 {
			firstToken = time.Since(start)
		}
		show(u)
	}
	errs := make([]error, len(tenants))
	var all sync.WaitGroup
	for i, t := range tenants {
		all.Go(func() { errs[i] = converse(ctx, api, i, t, report, next) })
	}
	all.Wait()
	return firstToken, errors.Join(errs...)
}

// converse asks one tenant its questions; each question comes with what was said before.
func converse(ctx context.Context, api actors.API, index int, t Tenant, report func(Update), next func(context.Context, int) error) error {
	var said []model.Message
	for _, q := range t.Questions {
		if err := next(ctx, index); err != nil {
			return err
		}
		report(Update{Tenant: index, Question: q})
		said = append(said, model.Message{Role: "user", Content: q})
		text, answer, err := ask(ctx, api, t.Spec.ID, said, func(piece string) { report(Update{Tenant: index, Text: piece}) })
		if err != nil {
			return fmt.Errorf("tenant %s, asked %q: %w", t.Spec.ID, q, err)
		}
		report(Update{Tenant: index, Done: &answer})
		said = append(said, model.Message{Role: "assistant", Content: text})
	}
	return nil
}

// ask streams one answer with the likeliest token always, so that every run says the same.
func ask(ctx context.Context, api actors.API, t gmg.TenantID, said []model.Message, onText func(string)) (string, Answer, error) {
	params := sampling.Default()
	params.Temperature = 0
	stream, err := api.Generate(ctx, actors.GenerateRequest{Tenant: t, Messages: said, MaxTokens: maxAnswerTokens, Sampling: params, Logprobs: -1})
	if err != nil {
		return "", Answer{}, err
	}
	defer stream.Close()
	text := ""
	for {
		e, err := stream.Next(ctx)
		if err != nil {
			return "", Answer{}, err
		}
		if e.Text != "" {
			text += e.Text
			onText(e.Text)
		}
		switch {
		case e.Err != nil:
			return "", Answer{}, e.Err
		case e.Finish == "":
			continue
		case e.Finish != actors.FinishStop || text == "":
			return "", Answer{}, fmt.Errorf("%w: %d bytes of text, ended by %s", ErrAnswer, len(text), e.Finish)
		}
		return text, Answer{
			Tokens:   e.Usage.CompletionTokens,
			TTFT:     time.Duration(e.Timing.FirstTokenNs - e.Timing.ArrivalNs),
			Decoding: time.Duration(e.Timing.LastTokenNs - e.Timing.FirstTokenNs),
		}, nil
	}
}
