package actors

import (
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"slicescheduler/actors/protocol"
	"slicescheduler/batching"
)

// tenantStep is a step in flight: what the scheduler decided and the message that carries it, both used again by later steps.
type tenantStep struct {
	step    batching.Step
	run     protocol.RunStep
	pages   []int32 // backs the items' page tables
	startNs int64
}

// laneFlight counts the steps on a lane that haven't come back, those of schedulers before included: their slots' rows may still be read, so a new
// scheduler waits for them. It outlives restarts of the tenant's actor.
type laneFlight struct {
	epoch  uint64
	steps  int
	landed *protocol.StepDone // counted last
}

func (f *laneFlight) launch(epoch uint64) {
	if f.epoch != epoch {
		*f = laneFlight{epoch: epoch}
	}
	f.steps++
}

// land counts a step that came back, once.
func (f *laneFlight) land(m *protocol.StepDone) {
	if m.Epoch == f.epoch && m != f.landed && f.steps > 0 {
		f.steps--
		f.landed = m
	}
}

// stale says whether steps of schedulers before are still on the lane.
func (t *tenantActor) stale() bool {
	return t.onLane.epoch == t.lane.Epoch && t.onLane.steps > len(t.flight)
}

// pump schedules and launches steps until there is nothing to do or enough is in flight.
func (t *tenantActor) pump(ctx actor.Context) {
	for t.sched != nil && !t.stale() {
		st := t.takeStep()
		now := t.rt.nowNs()
		ok := t.sched.Schedule(now, &st.step)
		for _, id := range st.step.Preempted {
			if s := t.sequences[uint64(id)]; ok && s != nil {
				s.preemptions++
			}
		}
		if !ok {
			t.spare = append(t.spare, st)
			return
		}
		st.startNs = now
		t.launch(ctx, st)
	}
}

func (t *tenantActor) takeStep() *tenantStep {
	if n := len(t.spare); n > 0 {
		st := t.spare[n-1]
		t.spare = t.spare[:n-1]
		return st
	}
	return new(tenantStep)
}

// launch sends a step to the lane's first slice.
func (t *tenantActor) launch(ctx actor.Context, st *tenantStep) {
	m := &st.run
	m.Lane, m.Epoch, m.Generation, m.Step = t.lane.Lane, t.lane.Epoch, t.generation, st.step.ID
	m.ReplyAddress, m.BusyNs, m.HostNs = ctx.Self().Address, 0, 0
	m.Slot = int32(st.step.ID % uint64(len(t.lane.Slices))) // steps complete in order, so as many slots as may be in flight are enough
	m.Rows = int32(st.step.Tokens)
	t.fillItems(st)
	m.Open, t.opening = t.opening, nil
	m.Close, t.closing = t.closing, nil
	t.flight = append(t.flight, st)
	t.onLane.launch(m.Epoch)
	ctx.Send(t.first, m)
}

// fillItems writes a step's items into its message: the page tables are copied, since the scheduler goes on using its own.
func (t *tenantActor) fillItems(st *tenantStep) {
	pages := 0
	for i := range st.step.Items {
		pages += len(st.step.Items[i].Blocks)
	}
	if cap(st.pages) < pages {
		st.pages = make([]int32, 0, 2*pages)
	}
	st.pages = st.pages[:0]
	items := st.run.Items[:0]
	for i := range st.step.Items {
		it := &st.step.Items[i]
		s := t.sequences[uint64(it.ID)]
		t.begin(s, it, st.startNs)
		first := len(st.pages)
		st.pages = append(st.pages, it.Blocks...)
		if len(items) < cap(items) {
			items = items[:len(items)+1]
		} else {
			items = append(items, nil)
		}
		at := len(items) - 1
		if items[at] == nil {
			items[at] = new(protocol.StepItem)
		}
		item := items[at]
		item.Seq, item.Start, item.Sample = uint64(it.ID), int32(it.Start), it.Sample
		item.Tokens = s.tokens[it.Start : it.Start+it.Tokens]
		item.Blocks = st.pages[first:len(st.pages):len(st.pages)]
	}
	st.run.Items = items
}

// begin notes that a sequence is scheduled, for the first time perhaps.
func (t *tenantActor) begin(s *sequence, it *batching.Item, nowNs int64) {
	if s.scheduledNs == 0 {
		s.scheduledNs, s.cached = nowNs, min(it.Cached, len(s.submit.Prompt))
		t.counts.queued(nowNs - s.submit.ArrivalNs)
	}
	if !s.opened {
		s.opened = true
		t.opening = append(t.opening, s.open())
	}
}

// stepDone takes in what a step sampled, launches the next one, and only then tells the gateways, so that the device doesn't wait for them.
func (t *tenantActor) stepDone(ctx actor.Context, m *protocol.StepDone) {
	t.onLane.land(m)
	at := slices.IndexFunc(t.flight, func(st *tenantStep) bool { return st.step.ID == m.Step })
	if m.Generation != t.generation || at < 0 {
		t.pump(ctx) // of an older scheduler, whose sequences are computed again as soon as the last of its steps is back
		return
	}
	st := t.flight[at]
	if m.Error != "" {
		t.stepFailed(ctx, st, m)
		return
	}
	t.flight = slices.Delete(t.flight, at, at+1)
	if err := t.sched.Complete(&st.step); err != nil {
		panic(fmt.Sprintf("tenant %s: %v", t.entry.spec.ID, err))
	}
	now := t.rt.nowNs()
	t.postprocess(st, m, now)
	t.counts.step(st, m, now)
	t.spare = append(t.spare, st)
	t.pump(ctx)
	t.flush(ctx)
}

// postprocess gives each sampled token to its sequence.
func (t *tenantActor) postprocess(st *tenantStep, m *protocol.StepDone, nowNs int64) {
	t.sla.observe(st, m.BusyNs)
	next := 0
	for i := range st.step.Items {
		if !st.step.Items[i].Sample {
			continue
		}
		if next == len(m.Tokens) {
			panic(fmt.Sprintf("tenant %s: step %d came back with %d tokens", t.entry.spec.ID, m.Step, len(m.Tokens)))
		}
		token := m.Tokens[next]
		next++
		s := t.sequences[uint64(st.step.Items[i].ID)]
		if s == nil {
			continue // cancelled meanwhile
		}
		if token.Seq != s.submit.Seq {
			panic(fmt.Sprintf("tenant %s: step %d has a token of sequence %d for %d", t.entry.spec.ID, m.Step, token.Seq, s.submit.Seq))
		}
		if token.Error != "" {
			t.failSequence(s, token.Error)
			continue
		}
		t.extend(s, token, nowNs)
	}
}

// failSequence ends a request with an error.
func (t *tenantActor) failSequence(s *sequence, reason string) {
	t.post(s, &protocol.Answer{Seq: s.submit.Seq, Finish: protocol.Answer_ERROR, Error: fmt.Sprintf("tenant %s: %s", t.entry.spec.ID, reason)})
	t.sla.failed(s)
	t.forget(s)
}

// extend adds a token to a sequence and ends its answer where it must.
func (t *tenantActor) extend(s *sequence, token *protocol.StepToken, nowNs int64) {
	s.tokens = append(s.tokens, token.Token)
	s.output++
	s.lastTokenNs = nowNs
	a := &protocol.Answer{Seq: s.submit.Seq, HasToken: true, Token: token.Token, TokenNs: nowNs, Logprob: token.Logprob, Preemptions: int32(s.preemptions)}
	if s.firstTokenNs == 0 {
		s.firstTokenNs = nowNs
		a.CachedTokens, a.ScheduledNs, a.Lane = int32(s.cached), s.scheduledNs, t.lane.Lane
	}
	end := t.entry.model.Tokenizer.IsEnd(token.Token) && !s.submit.IgnoreEos && s.output > int(s.submit.MinTokens)
	switch {
	case end:
		a.Finish, a.EndToken = protocol.Answer_STOP, true
	case s.output >= s.most:
		a.Finish = protocol.Answer_LENGTH
	}
	if len(s.tokens)%batching.DefaultBlockTokens == 0 {
		for _, h := range s.hash(t.salt) {
			_ = t.sched.SealBlock(batching.SeqID(s.submit.Seq), h) // it is running: it has just got a token
		}
	}
	t.post(s, a)
	if a.Finish != protocol.Answer_RUNNING {
		t.sla.finished(s)
		t.rate.finished(nowNs)
		t.forget(s)
	}
}

// stepFailed starts over with a new scheduler, since pages that the step should have filled can't be trusted. Sequences of the step are computed again
// a few times, then fail; all others are computed again.
func (t *tenantActor) stepFailed(ctx actor.Context, st *tenantStep, m *protocol.StepDone) {
	t.rt.log.Warn("step failed", "tenant", t.entry.spec.ID, "lane", m.Lane, "step", m.Step, "error", m.Error)
	t.counts.stepFailed()
	for i := range st.step.Items {
		s := t.sequences[uint64(st.step.Items[i].ID)]
		if s == nil {
			continue
		}
		if s.retries++; s.retries > t.rt.config.Limits.StepRetries {
			t.failSequence(s, m.Error)
		}
	}
	t.holdAll()
	if !m.DeviceLost { // else the planner will say what becomes of the lane
		if err := t.newScheduler(); err != nil {
			panic(err.Error())
		}
		t.rescheduleHeld()
		t.pump(ctx)
	}
	t.flush(ctx)
}
