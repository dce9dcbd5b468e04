package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"slicescheduler/actors"
)

// answers are the running streams of one HTTP request, one a choice.
type answers []actors.Stream

// start admits all requests or none.
func (s *Server) start(ctx context.Context, requests []actors.GenerateRequest, inputField string) (answers, error) {
	var a answers
	for _, r := range requests {
		stream, err := s.api.Generate(ctx, r)
		if err != nil {
			a.close()
			return nil, withParam(err, inputField)
		}
		a = append(a, stream)
	}
	return a, nil
}

// withParam names the input at fault where only the entrance knows what it is called.
func withParam(err error, inputField string) error {
	if errors.Is(err, actors.ErrTooLong) || errors.Is(err, actors.ErrTooLarge) || errors.Is(err, actors.ErrNoTemplate) {
		e := *asAPIError(err)
		e.param = inputField
		return &e
	}
	return err
}

func (a answers) close() {
	for _, stream := range a {
		stream.Close()
	}
}

// each hands the events of all choices to use as they come, one at a time, until all have finished. It returns the first error: of use, of an answer that
// failed, or ctx's when the client has gone. On return all streams are closed and nothing runs any more.
func (a answers) each(ctx context.Context, use func(choice int, e actors.Event) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var (
		turn sync.Mutex
		done sync.WaitGroup
	)
	for i, stream := range a {
		done.Go(func() {
			if err := follow(ctx, stream, func(e actors.Event) error {
				turn.Lock()
				defer turn.Unlock()
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				return use(i, e)
			}); err != nil {
				cancel(err)
			}
		})
	}
	done.Wait()
	a.close()
	err := context.Cause(ctx)
	cancel(nil)
	return err
}

// follow hands on one stream's events up to its finish.
func follow(ctx context.Context, stream actors.Stream, use func(actors.Event) error) error {
	defer stream.Close()
	for {
		e, err := stream.Next(ctx)
		if err != nil {
			return err
		}
		switch e.Finish {
		case actors.FinishError:
			if e.Err == nil {
				e.Err = actors.ErrFailed
			}
			return fmt.Errorf("request %s: %w", stream.ID(), e.Err)
		case actors.FinishCancel:
			return &apiError{status: http.StatusServiceUnavailable, kind: typeUnavailable, code: "cancelled", message: "the request was cancelled by the node",
				retryAfter: notReadyRetry}
		}
		if err := use(e); err != nil {
			return err
		}
		if e.Finish != "" {
			return nil
		}
	}
}

// usage counts tokens as OpenAI's API shows them.
type usage struct {
	PromptTokens     int          `json:"prompt_tokens"`
	CompletionTokens int          `json:"completion_tokens"`
	TotalTokens      int          `json:"total_tokens"`
	Details          usageDetails `json:"prompt_tokens_details"`
}

type usageDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

// add counts a finished choice; of n answers to one prompt the first counts the prompt.
func (u *usage) add(a actors.Usage, firstOfPrompt bool) {
	if firstOfPrompt {
		u.PromptTokens += a.PromptTokens
		u.Details.CachedTokens += a.CachedTokens
	}
	u.CompletionTokens += a.CompletionTokens
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
}
