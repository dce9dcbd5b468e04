package actors

import (
	"cmp"
	"errors"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"slicescheduler/actors/protocol"
	"slicescheduler/batching"
	"slicescheduler/gmg"
)

// submit takes a request into the queue or refuses it. The queue is the same whether the tenant is loaded or loading.
func (t *tenantActor) submit(ctx actor.Context, m *protocol.Submit) {
	refusal := t.refuse(m)
	if refusal == nil {
		s := newSequence(m, ctx.Sender(), t.salt)
		t.sequences[m.Seq] = s
		if refusal = t.schedule(s); refusal != nil {
			delete(t.sequences, m.Seq)
		}
	}
	t.counts.submitted(refusal)
	ctx.Respond(&protocol.SubmitReply{Seq: m.Seq, Refusal: refusal})
	if refusal == nil {
		t.pump(ctx)
	}
}

// refuse returns why a request can't be taken, or nil.
func (t *tenantActor) refuse(m *protocol.Submit) *protocol.Refusal {
	switch {
	case t.state == stateFailed || t.state == stateRemoving:
		return &protocol.Refusal{Code: protocol.Refusal_NOT_READY, Reason: cmp.Or(t.reason, "it is being removed")}
	case t.waiting() >= t.limits.queue:
		return &protocol.Refusal{Code: protocol.Refusal_QUEUE_FULL, RetryAfterNs: int64(t.rate.retryAfter(t.limits.queue))}
	case len(m.Prompt)+int(m.MaxTokens) > t.limits.context:
		return &protocol.Refusal{Code: protocol.Refusal_CONTEXT, LimitTokens: int32(t.limits.context)}
	}
	return nil
}

func (t *tenantActor) waiting() int {
	if t.sched == nil {
		return len(t.held)
	}
	return t.sched.Stats().Waiting
}

// schedule gives a sequence to the scheduler or, while there is none, holds it. A sequence that could never fit the lane's pages is refused.
func (t *tenantActor) schedule(s *sequence) *protocol.Refusal {
	if t.sched == nil {
		t.held = append(t.held, s)
		return nil
	}
	t.fitOpenEnd(s)
	s.opened = false
	err := t.sched.Add(s.toSchedule())
	if err == nil {
		if s.paused {
			_ = t.sched.Pause(batching.SeqID(s.submit.Seq)) // it was added just now, so it is there
		}
		return nil
	}
	refusal := &protocol.Refusal{Code: protocol.Refusal_FAILED, Reason: err.Error()}
	if errors.Is(err, batching.ErrTooLarge) {
		refusal = &protocol.Refusal{Code: protocol.Refusal_POOL, LimitTokens: int32(t.poolTokens())}
	}
	return refusal
}

// fitOpenEnd shortens the answer of a request that asked for as much as there is room for.
func (t *tenantActor) fitOpenEnd(s *sequence) {
	if s.submit.OpenEnd {
		if room := t.poolTokens() - len(s.submit.Prompt); room >= 1 {
			s.most = min(s.most, room)
		}
	}
}

// poolTokens returns the length of the longest request that the lane's pages hold; the last token is never computed and needs no room.
func (t *tenantActor) poolTokens() int {
	return t.sched.Config().KVBlocks*batching.DefaultBlockTokens + 1
}

// rescheduleHeld gives all held sequences to the scheduler; those that don't fit fail.
func (t *tenantActor) rescheduleHeld() {
	held := t.held
	t.held = nil
	for _, s := range held {
		t.reschedule(s)
	}
}

// reschedule gives an accepted sequence to the scheduler; it fails if it can't fit any more.
func (t *tenantActor) reschedule(s *sequence) {
	if refusal := t.schedule(s); refusal != nil {
		t.post(s, &protocol.Answer{Seq: s.submit.Seq, Finish: protocol.Answer_ERROR, Error: refusal.Reason, Refusal: refusal})
		t.sla.failed(s)
		t.forget(s)
	}
}

// cancel ends a request: its pages are free at once or with the step in flight that uses them.
func (t *tenantActor) cancel(ctx actor.Context, m *protocol.Cancel) {
	s := t.sequences[m.Seq]
	if s == nil {
		return
	}
	if m.Reason == protocol.Cancel_COMPLETE {
		t.sla.finished(s)
		t.rate.finished(t.rt.nowNs())
	}
	t.forget(s)
	t.pump(ctx)
}

// forget takes a sequence out of everything that knows it.
func (t *tenantActor) forget(s *sequence) {
	seq := s.submit.Seq
	delete(t.sequences, seq)
	if i := slices.Index(t.held, s); i >= 0 {
		t.held = slices.Delete(t.held, i, i+1)
	}
	if t.sched != nil && t.sched.Contains(batching.SeqID(seq)) {
		_ = t.sched.Cancel(batching.SeqID(seq)) // Contains has just said that it is there
	}
	if s.opened {
		t.closing = append(t.closing, seq)
	}
}

// pausedSlotNs is how long a request whose client doesn't read keeps its slot while others wait for one.
const pausedSlotNs = 1_000_000_000

func (t *tenantActor) setPaused(seq uint64, paused bool) {
	s := t.sequences[seq]
	if s == nil || s.paused == paused {
		return
	}
	s.paused, s.sinceNs = paused, t.rt.nowNs()
	if s.aside && !paused {
		s.aside = false
		t.reschedule(s)
		return
	}
	if t.sched == nil || !t.sched.Contains(batching.SeqID(seq)) {
		return
	}
	if paused {
		_ = t.sched.Pause(batching.SeqID(seq))
	} else {
		_ = t.sched.Resume(batching.SeqID(seq))
	}
}

// setAside takes requests that paused long ago out of the scheduler when others wait and every slot is taken. They are computed again when their clients
// read on.
func (t *tenantActor) setAside(nowNs int64) {
	if t.sched == nil {
		return
	}
	if stats := t.sched.Stats(); stats.Waiting == 0 || stats.Paused == 0 || stats.Running < t.limits.sequences {
		return
	}
	for seq, s := range t.sequences {
		id := batching.SeqID(seq)
		if s.paused && !s.aside && nowNs-s.sinceNs >= pausedSlotNs && t.sched.Contains(id) && !t.inFlight(id) {
			s.aside = true
			_ = t.sched.Cancel(id) // it is there, as Contains said
		}
	}
}

func (t *tenantActor) inFlight(id batching.SeqID) bool {
	for _, st := range t.flight {
		for i := range st.step.Items {
			if st.step.Items[i].ID == id {
				return true
			}
		}
	}
	return false
}

// outAnswer is an answer with the gateway it goes to.
type outAnswer struct {
	gateway *actor.PID
	answer  *protocol.Answer
}

// post puts an answer into the outbox; flush sends what is there, one message for each gateway.
func (t *tenantActor) post(s *sequence, a *protocol.Answer) {
	t.outbox = append(t.outbox, outAnswer{s.gateway, a})
}

func (t *tenantActor) flush(ctx actor.Context) {
	for len(t.outbox) > 0 {
		to := t.outbox[0].gateway
		m := &protocol.Answers{Tenant: string(t.entry.spec.ID), Answers: make([]*protocol.Answer, 0, len(t.outbox))}
		rest := t.outbox[:0]
		for _, o := range t.outbox {
			if o.gateway == to || o.gateway.Equal(to) {
				m.Answers = append(m.Answers, o.answer)
			} else {
				rest = append(rest, o)
			}
		}
		clear(t.outbox[len(rest):])
		t.outbox = rest
		ctx.Request(to, m)
	}
}

func sortByArrival(s []*sequence) {
	slices.SortFunc(s, func(a, b *sequence) int {
		return cmp.Or(cmp.Compare(a.submit.ArrivalNs, b.submit.ArrivalNs), cmp.Compare(a.submit.Seq, b.submit.Seq))
	})
}

func sortSequences(s []gmg.SequenceState) {
	slices.SortFunc(s, func(a, b gmg.SequenceState) int { return cmp.Compare(a.ID, b.ID) })
}
