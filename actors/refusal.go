package actors

import (
	"fmt"
	"time"

	"slicescheduler/actors/protocol"
)

// refusalError is a tenant's refusal as the error that callers of Generate tell apart.
func refusalError(r *request, f *protocol.Refusal) error {
	length := &LengthError{PromptTokens: len(r.submit.Prompt), MaxTokens: int(r.submit.MaxTokens), LimitTokens: int(f.LimitTokens)}
	if r.submit.OpenEnd {
		length.MaxTokens = 1 // would have been enough
	}
	switch f.Code {
	case protocol.Refusal_QUEUE_FULL:
		return &QueueError{Tenant: r.entry.spec.ID, RetryAfter: time.Duration(f.RetryAfterNs)}
	case protocol.Refusal_CONTEXT:
		return length
	case protocol.Refusal_POOL:
		length.Pool = true
		return length
	case protocol.Refusal_NOT_READY:
		return fmt.Errorf("%w: %s: %s", ErrTenantNotReady, r.entry.spec.ID, f.Reason)
	case protocol.Refusal_SHUTDOWN:
		return ErrShutdown
	default:
		return &internalError{f.Reason}
	}
}
