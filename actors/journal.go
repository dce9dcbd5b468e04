package actors

import (
	"slicescheduler/actors/protocol"
	"slicescheduler/gmg"
)

// request is a request's journal in the gateway: the prompt, how it is answered (with its seed), and every token so far. It is all that is needed to
// submit the request again and go on where it stopped.
type request struct {
	seq      uint64
	id       string
	entry    *tenantEntry
	submit   *protocol.Submit
	logprobs int // wanted in events; below 0: none

	tokens     []int32 // generated so far, an end token included
	transcript *transcript
	stream     *stream
	admitted   chan error // one answer: nil, or why it was refused
	decided    bool       // admitted was answered

	cached int
	timing Timing
}

// decide answers whoever waits for the admission, once.
func (r *request) decide(err error) {
	if !r.decided {
		r.decided = true
		r.admitted <- err
	}
}

// usage counts the request's tokens so far.
func (r *request) usage() Usage {
	return Usage{PromptTokens: len(r.submit.Prompt), CachedTokens: r.cached, CompletionTokens: len(r.tokens)}
}

// take notes what an answer says beside its token. The token's time is the tenant's: by the time the gateway gets to it, later ones may be made, and the time
// between two tokens would be that between two messages.
func (r *request) take(a *protocol.Answer) {
	if a.CachedTokens > 0 {
		r.cached = int(a.CachedTokens)
	}
	if a.ScheduledNs > 0 && r.timing.ScheduledNs == 0 {
		r.timing.ScheduledNs = a.ScheduledNs
	}
	if a.Lane != "" {
		r.timing.Lane = gmg.LaneID(a.Lane)
	}
	r.timing.Preemptions = int(a.Preemptions)
	if !a.HasToken {
		return
	}
	r.tokens = append(r.tokens, a.Token)
	r.timing.LastTokenNs = a.TokenNs
	if r.timing.FirstTokenNs == 0 {
		r.timing.FirstTokenNs = a.TokenNs
	}
}
