package actors

import (
	"errors"
	"fmt"
)

func (e *LengthError) Error() string {
	what := "context"
	if e.Pool {
		what = "tenant's KV memory"
	}
	return fmt.Sprintf("the prompt has %d tokens and %d more were asked for, but the %s holds %d tokens; shorten the prompt or lower max_tokens",
		e.PromptTokens, e.MaxTokens, what, e.LimitTokens)
}

// Is makes a LengthError an ErrTooLarge when the KV pool is the limit, else an ErrTooLong.
func (e *LengthError) Is(target error) bool {
	if e.Pool {
		return target == ErrTooLarge
	}
	return target == ErrTooLong
}

func (e *QueueError) Error() string {
	return fmt.Sprintf("tenant %q: queue is full, retry after %v", e.Tenant, e.RetryAfter)
}

// Is makes a QueueError an ErrQueueFull.
func (e *QueueError) Is(target error) bool { return target == ErrQueueFull }

// Errors of Stream.Next.
var (
	ErrStreamClosed = errors.New("stream is closed")
	ErrStreamEnded  = errors.New("stream has ended")
)

// ErrFailed is a request that was accepted and could not be finished: a device or an actor failed.
var ErrFailed = errors.New("request failed")

// internalError is a failure of the runtime itself; it is an ErrFailed.
type internalError struct{ reason string }

func (e *internalError) Error() string        { return e.reason }
func (e *internalError) Is(target error) bool { return target == ErrFailed }
