package actors

import (
	"fmt"
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"

	"slicescheduler/actors/protocol"
	"slicescheduler/gmg"
	"slicescheduler/model"
)

// Messages to the gateway from its own node. They carry Go values and never cross nodes.
type (
	admitRequest  struct{ r *request }
	cancelRequest struct{ seq uint64 }
	resumeRequest struct{ seq uint64 }
	// tenantGone says that a tenant's actor has stopped for good.
	tenantGone struct {
		entry *tenantEntry
		err   error
		done  chan<- struct{}
	}
	// drainGateway refuses new requests; drained is closed when none is left. With abort set the ones that run end now.
	drainGateway struct {
		abort   bool
		drained chan struct{}
	}
)

// gatewayActor keeps the journal of every request that came in at this node. It turns tokens into text, looks for stop strings and streams. The journal
// outlives a restart of the actor; a request whose message caused it fails.
type gatewayActor struct {
	rt       *runtime
	requests map[uint64]*request
	current  *request // whose message is being handled
	closing  bool
	drained  []chan struct{}
}

// Receive implements actor.Actor.
func (g *gatewayActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case admitRequest:
		g.admit(ctx, m.r)
	case *protocol.SubmitReply:
		g.admitted(m)
	case *protocol.Answers:
		for _, a := range m.Answers {
			g.guardAnswer(ctx, a)
		}
	case cancelRequest:
		g.cancel(ctx, m.seq)
	case resumeRequest:
		if r := g.requests[m.seq]; r != nil {
			ctx.Send(r.entry.pid, &protocol.Resume{Seq: m.seq})
		}
	case *protocol.TenantLost:
		g.failTenant(g.rt.tenants.get(gmg.TenantID(m.Tenant)), &internalError{m.Reason})
	case tenantGone:
		g.failTenant(m.entry, m.err)
		if m.done != nil {
			close(m.done)
		}
	case drainGateway:
		g.drain(ctx, m)
	}
	g.current = nil
}

// admit enters a request into the journal and submits it.
func (g *gatewayActor) admit(ctx actor.Context, r *request) {
	g.current = r
	if g.closing {
		r.decide(ErrShutdown)
		return
	}
	if r.entry.isGone() {
		r.decide(g.rt.goneError(r.entry))
		return
	}
	g.requests[r.seq] = r
	ctx.Request(r.entry.pid, r.submit)
}

func (g *gatewayActor) admitted(m *protocol.SubmitReply) {
	r := g.requests[m.Seq]
	if r == nil {
		return
	}
	g.current = r
	if m.Refusal != nil {
		g.forget(r)
		r.decide(refusalError(r, m.Refusal))
		return
	}
	r.decide(nil)
}

// guardAnswer keeps what goes wrong with one request's text from the others whose tokens came with it.
func (g *gatewayActor) guardAnswer(ctx actor.Context, a *protocol.Answer) {
	defer func() {
		if p := recover(); p != nil {
			g.rt.log.Error("answer not decoded", "panic", p, "stack", string(debug.Stack()))
			g.failCurrent(ctx, fmt.Sprintf("internal error in %s: %v", gatewayName, p))
		}
	}()
	g.answer(ctx, a)
}

// answer streams one step's result for a request.
func (g *gatewayActor) answer(ctx actor.Context, a *protocol.Answer) {
	r := g.requests[a.Seq]
	if r == nil {
		if a.Finish == protocol.Answer_RUNNING {
			ctx.Send(ctx.Sender(), &protocol.Cancel{Seq: a.Seq})
		}
		return
	}
	g.current = r
	r.take(a)
	var e Event
	if a.HasToken && !a.EndToken {
		var stopped bool
		e, stopped = r.transcript.push(g.tokenLogprob(r, a))
		if stopped {
			if a.Finish == protocol.Answer_RUNNING {
				ctx.Send(r.entry.pid, &protocol.Cancel{Seq: r.seq, Reason: protocol.Cancel_COMPLETE})
			}
			g.finish(r, e, FinishStop, nil)
			return
		}
	}
	if a.Finish != protocol.Answer_RUNNING {
		g.end(r, e, a)
		return
	}
	if e.Text == "" && len(e.Tokens) == 0 {
		return
	}
	if r.stream.push(e) {
		ctx.Send(r.entry.pid, &protocol.Pause{Seq: r.seq})
	}
}

// end finishes a request as its tenant says, with what was held back for a stop string.
func (g *gatewayActor) end(r *request, e Event, a *protocol.Answer) {
	rest := r.transcript.finish()
	e.Text += rest.Text
	e.Tokens = append(e.Tokens, rest.Tokens...)
	e.Logprobs = append(e.Logprobs, rest.Logprobs...)
	switch a.Finish {
	case protocol.Answer_STOP:
		g.finish(r, e, FinishStop, nil)
	case protocol.Answer_LENGTH:
		g.finish(r, e, FinishLength, nil)
	case protocol.Answer_CANCELLED:
		g.finish(r, e, FinishCancel, nil)
	default:
		err := error(&internalError{a.Error})
		if a.Refusal != nil {
			err = refusalError(r, a.Refusal)
		}
		g.finish(r, e, FinishError, err)
	}
}

func (g *gatewayActor) finish(r *request, e Event, reason FinishReason, err error) {
	e.Finish, e.Err, e.Usage, e.Timing = reason, err, r.usage(), r.timing
	r.decide(err)
	r.stream.push(e)
	g.forget(r)
	g.rt.metrics.finished(r, reason)
}

func (g *gatewayActor) forget(r *request) {
	delete(g.requests, r.seq)
	g.checkDrained()
}

// cancel ends a request whose client is gone.
func (g *gatewayActor) cancel(ctx actor.Context, seq uint64) {
	r := g.requests[seq]
	if r == nil {
		return
	}
	g.current = r
	ctx.Send(r.entry.pid, &protocol.Cancel{Seq: seq})
	g.finish(r, Event{}, FinishCancel, nil)
}

// failTenant ends all requests of a tenant that can't answer them any more.
func (g *gatewayActor) failTenant(entry *tenantEntry, err error) {
	for _, r := range g.requests {
		if r.entry == entry {
			g.finish(r, Event{}, FinishError, err)
		}
	}
}

func (g *gatewayActor) drain(ctx actor.Context, m drainGateway) {
	g.closing = true
	if m.abort {
		for _, r := range g.requests {
			ctx.Send(r.entry.pid, &protocol.Cancel{Seq: r.seq})
			g.finish(r, Event{}, FinishError, ErrShutdown)
		}
	}
	g.drained = append(g.drained, m.drained)
	g.checkDrained()
}

func (g *gatewayActor) checkDrained() {
	if len(g.requests) > 0 {
		return
	}
	for _, d := range g.drained {
		close(d)
	}
	g.drained = nil
}

// crashed fails the request at hand; the others go on after the restart.
func (g *gatewayActor) crashed(ctx actor.Context, reason string) {
	switch m := ctx.Message().(type) {
	case admitRequest:
		g.current = m.r
	case *protocol.SubmitReply:
		g.current = g.requests[m.Seq]
	}
	g.failCurrent(ctx, reason)
}

func (g *gatewayActor) failCurrent(ctx actor.Context, reason string) {
	r := g.current
	g.current = nil
	if r == nil {
		return
	}
	ctx.Send(r.entry.pid, &protocol.Cancel{Seq: r.seq})
	g.finish(r, Event{}, FinishError, &internalError{reason})
}

// tokenLogprob turns an answer's token into an event's, with the bytes of each token when log probabilities are wanted.
func (g *gatewayActor) tokenLogprob(r *request, a *protocol.Answer) TokenLogprob {
	if r.logprobs < 0 || a.Logprob == nil {
		return TokenLogprob{Token: a.Token}
	}
	tokenizer := r.entry.model.Tokenizer
	t := withBytes(tokenizer, a.Logprob)
	for _, alternative := range a.Logprob.Top {
		t.Top = append(t.Top, withBytes(tokenizer, alternative))
	}
	return t
}

func withBytes(t model.Tokenizer, p *protocol.TokenLogprob) TokenLogprob {
	return TokenLogprob{Token: p.Token, Bytes: t.Piece(p.Token, true), Logprob: float64(p.Logprob)}
}
