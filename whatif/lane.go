package whatif

import (
	"cmp"
	"fmt"

	"slicescheduler/batching"
)

// newLane makes an empty lane.
func newLane(spec *LaneSpec, tenant int32) (lane, error) {
	l := lane{spec: spec, tenant: tenant, coldNs: spec.ColdNs, shared: sharedParts(spec), quota: cmp.Or(spec.QuotaBlocks, spec.Batching.KVBlocks), turnNs: spec.TurnNs}
	inFlight := max(spec.Batching.InFlight, 1)
	for range spec.Ranks {
		s, err := batching.New(spec.Batching)
		if err != nil {
			return lane{}, err
		}
		l.ranks = append(l.ranks, s)
		l.live, l.inbox = append(l.live, nil), append(l.inbox, nil)
	}
	l.flights = make([]flight, inFlight)
	slices := spec.Ranks[0].Slices
	for i := range l.flights {
		f := &l.flights[i]
		f.steps, f.took, f.shapes = make([]batching.Step, len(l.ranks)), make([]bool, len(l.ranks)), make([]Shape, len(l.ranks))
		f.ns, f.total, f.lag = make([][]int64, len(slices)), make([]int64, len(slices)), make([]int64, len(slices))
		for k := range slices {
			f.ns[k] = make([]int64, slices[k].Program.distinct())
		}
	}
	return l, nil
}

// receive puts a request into a rank's inbox, and wakes the engine if it sleeps or is eager.
func (w *island) receive(li int32, rank int, request int32) {
	l := &w.lanes[li]
	l.inbox[rank] = append(l.inbox[rank], request)
	l.pending += int64(w.tenants[l.tenant].spec.Requests[request].PromptTokens)
	if l.flying == 0 || l.spec.Engine.Eager {
		w.pump(li)
	} else if w.spec.Order != OrderArrival && l.spec.Batching.Separate == 0 {
		w.hurry(li, request)
	}
}

// pump is the engine's loop between two waits: take in what has come, form steps until as many are in flight as may be.
func (w *island) pump(li int32) {
	l := &w.lanes[li]
	l.starved = false
	for w.now >= l.warmAt && l.state != laneGone && !l.moving {
		for r := range l.ranks {
			w.takeIn(l, r)
		}
		if l.flying == len(l.flights) {
			return
		}
		at := l.freeFlight()
		f := &l.flights[at]
		any := false
		w.offer(l)
		for r, s := range l.ranks {
			f.took[r] = s.Schedule(w.now, &f.steps[r])
			any = any || f.took[r]
			w.noteScheduled(l, r, &f.steps[r])
		}
		w.charge(l)
		if !any {
			l.starved = l.shared != nil && l.wants()
			return
		}
		l.flying++
		l.number64++
		f.used, f.number, f.formed = true, l.number64, w.now
		w.launch(li, int32(at))
	}
}

// freeFlight is where the next flight goes: behind the newest, or anywhere when they may complete in any order.
func (l *lane) freeFlight() int {
	if l.spec.Batching.Separate > 0 {
		for i := range l.flights {
			if !l.flights[i].used {
				return i
			}
		}
	}
	return (l.head + l.flying) % len(l.flights)
}

// takeIn moves a rank's inbox into its queue.
func (w *island) takeIn(l *lane, rank int) {
	if len(l.inbox[rank]) == 0 {
		return
	}
	t := &w.tenants[l.tenant]
	for _, q := range l.inbox[rank] {
		r := &t.spec.Requests[q]
		err := l.ranks[rank].Add(batching.Request{
			ID: batching.SeqID(q), PromptTokens: r.PromptTokens, MaxTokens: r.OutputTokens, Blocks: r.Blocks, Priority: r.Priority, ArrivalNs: r.ArrivalNs,
		})
		if err != nil {
			t.refuse(q, w.now)
			l.pending -= int64(r.PromptTokens)
			continue
		}
		slot := l.ranks[rank].SlotOf(batching.SeqID(q))
		l.setLive(rank, slot, liveRequest{
			request: q, prompt: int32(r.PromptTokens), output: int32(r.OutputTokens), todo: int32(r.PromptTokens), arrival: r.ArrivalNs, queued: w.now,
		})
	}
	l.inbox[rank] = l.inbox[rank][:0]
}

func (l *lane) setLive(rank, slot int, r liveRequest) {
	r.lent = 0 // all of its KV is in the lane
	for len(l.live[rank]) <= slot {
		l.live[rank] = append(l.live[rank], liveRequest{})
	}
	l.live[rank][slot] = r
}

// noteScheduled keeps when each request first ran and how often it lost its pages.
func (w *island) noteScheduled(l *lane, rank int, step *batching.Step) {
	for _, id := range step.Preempted {
		if slot := l.ranks[rank].SlotOf(id); slot >= 0 {
			q := &l.live[rank][slot]
			q.preemptions++
			if p, err := l.ranks[rank].ProgressOf(id); err == nil {
				l.pending += int64(p.Tokens) - int64(q.todo)
				q.todo = int32(p.Tokens)
			}
		}
	}
	for i := range step.Items {
		it := &step.Items[i]
		q := &l.live[rank][it.Slot()]
		if q.todo == 0 {
			continue
		}
		n := min(q.todo, int32(it.Tokens+it.Cached))
		q.todo -= n
		l.pending -= int64(n)
		if q.scheduled == 0 {
			q.scheduled, q.cached = max(w.now, 1), int32(it.Cached)
		}
	}
}

// launch computes what a step takes on every slice and sends it to the first.
func (w *island) launch(li, at int32) {
	l := &w.lanes[li]
	f := &l.flights[at]
	for r := range l.ranks {
		if f.took[r] {
			f.shapes[r].set(&f.steps[r])
		} else {
			f.shapes[r] = Shape{}
		}
	}
	l.cost(f)
	if len(l.helpers) > 0 {
		w.split(l, f)
	}
	if l.coldNs > 0 {
		f.ahead += l.coldNs
		l.warmAt, l.coldNs = w.now+l.coldNs, 0
		w.at(l.warmAt, eventWarm, li, 0)
	}
	f.done = false
	w.stretch(l, f)
	if l.prefills(f) {
		l.prompts++
	} else if l.spec.Batching.Separate == 0 {
		l.decodeNs = f.sum()
	}
	if w.spec.Order != OrderArrival {
		w.setDue(l, f)
	}
	w.steps++
	w.enqueue(run{lane: li, flight: at, pc: -1, due: f.due, borrowed: l.spec.Borrowed}, l.spec.Ranks[0].Slices[0].Device)
}

// cost fills in the times of a flight from its shapes, which it pads.
func (l *lane) cost(f *flight) {
	e := l.spec.Engine
	e.prepare(f.shapes)
	layers := 0
	slices := l.spec.Ranks[0].Slices
	for k := range slices {
		p := slices[k].Program
		f.total[k] = p.times(f.shapes, f.ns[k])
		layers += p.layers
	}
	f.ahead = e.overheadNs(f.shapes, layers)
}

// sliceDone moves a flight on after a slice: to the next device, over a link where it isn't the same, or to the lane's engine.
func (w *island) sliceDone(li, at, slice int32) {
	l := &w.lanes[li]
	slices := l.spec.Ranks[0].Slices
	if int(slice)+1 == len(slices) {
		l.flights[at].done = true
		w.settle(li)
		return
	}
	from, to := slices[slice].Device, slices[slice+1].Device
	next := l.runOf(li, at, slice+1)
	if from == to {
		w.enqueue(next, to)
		return
	}
	bytes := int64(l.flights[at].shapes[0].Tokens) * int64(slices[slice].Program.hiddenBytes)
	arrives := w.send(from, to, bytes)
	w.at(arrives, eventTransfer, li, at<<8|(slice+1))
}

// runOf is a flight's run on a later slice.
func (l *lane) runOf(li, at, slice int32) run {
	r := run{lane: li, flight: at, slice: slice, due: l.flights[at].due, borrowed: l.spec.Borrowed}
	if l.flights[at].lag[slice] > 0 {
		r.pc = -1
	}
	return r
}

// prefills says whether a flight holds prompts.
func (l *lane) prefills(f *flight) bool {
	for r := range f.shapes {
		if f.took[r] && f.shapes[r].PrefillTokens > 0 {
			return true
		}
	}
	return false
}

// sum is what a flight takes on its devices.
func (f *flight) sum() int64 {
	ns := f.ahead
	for _, t := range f.total {
		ns += t
	}
	return ns
}

// throughFlight is the next flight that may complete, or nil: the oldest, or any where they may complete in any order.
func (l *lane) throughFlight() *flight {
	if l.flying == 0 {
		return nil
	}
	if l.spec.Batching.Separate == 0 {
		f := &l.flights[l.head]
		if !f.done {
			return nil
		}
		l.head = (l.head + 1) % len(l.flights)
		return f
	}
	for i := range l.flights {
		if f := &l.flights[i]; f.used && f.done {
			return f
		}
	}
	return nil
}

// settle completes the flights that are through, oldest first, and lets the engine go on.
func (w *island) settle(li int32) {
	l := &w.lanes[li]
	for f := l.throughFlight(); f != nil; f = l.throughFlight() {
		f.done, f.used = false, false
		if len(l.helpers) > 0 {
			w.freeHelpers(l, f)
		}
		l.flying--
		if l.prefills(f) {
			l.prompts--
		} else if l.spec.Batching.Separate > 0 {
			l.decodeNs = w.now - f.formed
		}
		for r := range l.ranks {
			if f.took[r] {
				w.complete(l, r, &f.steps[r])
			}
		}
	}
	w.charge(l)
	if l.moving && l.flying == 0 {
		w.quiet(li)
	}
	w.pump(li)
	if l.state == laneDraining && l.idle() {
		w.retire(li)
	}
}

// complete counts a step's tokens and ends answers.
func (w *island) complete(l *lane, rank int, step *batching.Step) {
	s, t := l.ranks[rank], &w.tenants[l.tenant]
	if err := s.Complete(step); err != nil {
		panic(fmt.Sprintf("whatif: %v", err)) // steps are completed in order, so this is a bug
	}
	for i := range step.Items {
		it := &step.Items[i]
		if !it.Sample {
			continue
		}
		q := &l.live[rank][it.Slot()]
		answer := int32(it.Start+it.Tokens) + 1 - q.prompt
		if answer == 1 {
			q.first = w.now
			t.totals.first(w.now - q.arrival)
		}
		t.totals.OutputTokens++
		if answer == q.output {
			t.finish(q, w.now)
			t.record(q, w.now, l, rank)
			if err := s.Finish(it.ID); err != nil {
				panic(fmt.Sprintf("whatif: %v", err))
			}
		} else if answer == 1 && l.spec.Prefill {
			w.handOver(l, it.ID)
		}
	}
}

// idle says whether nothing waits, runs or is in flight.
func (l *lane) idle() bool {
	if l.flying > 0 {
		return false
	}
	for r := range l.ranks {
		if st := l.ranks[r].Stats(); st.Waiting+st.Running+len(l.inbox[r]) > 0 {
			return false
		}
	}
	return true
}
