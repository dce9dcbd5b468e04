package whatif

import (
	"math"
	"slices"

	"slicescheduler/batching"
)

// oracle simulates a world the slow and obvious way: it looks at everything to find what happens next, runs one operator at a time, and keeps no more
// than it needs. It shares the scheduler and the costs with the simulator, nothing else.
type oracle struct {
	spec    *Spec
	now     int64
	next    []int // by tenant: request that arrives next
	lanes   []*oracleLane
	devices []oracleDevice
	linkAt  []int64 // when each link is free
	moving  []oracleTransfer
	out     [][]Record
	orders  int
	later   []oracleEvent
}

type oracleLane struct {
	tenant, number int
	spec           *LaneSpec
	ranks          []*batching.Scheduler
	inbox          [][]int
	flying         []*oracleStep // oldest first
	warmAt         int64         // 0 until the first step
	held           bool          // until warmAt
	helpers        []*oracleHelper
	links          []LinkSpec
}

type oracleStep struct {
	lane   *oracleLane
	steps  []*batching.Step
	shapes []Shape
	cold   int64
	extra  int64 // what a device of several streams or of swapped weights adds
	tenths int
	slice  int
	op     int // next operator of the slice; -1 is the engine's own time
	done   bool
	order  int
	queued int64
	shares []*oracleShare
	part   *oracleShare // of a helper's run
	out    int          // shares of this slice that are not back
	ended  bool
}

type oracleDevice struct {
	queue   []*oracleStep
	current *oracleStep
	ends    int64
	rota    oracleRota
}

type oracleTransfer struct {
	step *oracleStep
	at   int64
}

func newOracle(s *Spec) *oracle {
	o := &oracle{spec: s, next: make([]int, len(s.Tenants)), devices: make([]oracleDevice, len(s.Devices)), linkAt: make([]int64, len(s.Links))}
	for ti := range s.Tenants {
		t := &s.Tenants[ti]
		o.out = append(o.out, make([]Record, len(t.Requests)))
		for k := range t.Lanes {
			l := &oracleLane{tenant: ti, number: k, spec: &t.Lanes[k], links: s.Links}
			for range t.Lanes[k].Ranks {
				sch, err := batching.New(t.Lanes[k].Batching)
				if err != nil {
					panic(err)
				}
				l.ranks, l.inbox = append(l.ranks, sch), append(l.inbox, nil)
			}
			o.lanes = append(o.lanes, l)
		}
	}
	return o
}

// run goes on until nothing happens any more. At one time arrivals come first, then transfers, then operator ends, each in order of index.
func (o *oracle) run() {
	for {
		at := int64(math.MaxInt64)
		var do func()
		consider := func(t int64, f func()) {
			if t < at {
				at, do = t, f
			}
		}
		for ti, n := range o.next {
			if r := o.spec.Tenants[ti].Requests; n < len(r) {
				consider(r[n].ArrivalNs, func() { o.arrive(ti) })
			}
		}
		first := -1
		for i, m := range o.moving {
			if first < 0 || m.at < o.moving[first].at || m.at == o.moving[first].at && o.laneIndex(m.step.lane) < o.laneIndex(o.moving[first].step.lane) {
				first = i
			}
		}
		if first >= 0 {
			consider(o.moving[first].at, func() {
				s := o.moving[first].step
				o.moving = slices.Delete(o.moving, first, first+1)
				o.enqueue(s)
			})
		}
		for d := range o.devices {
			if o.devices[d].current != nil {
				consider(o.devices[d].ends, func() { o.operatorEnds(d) })
			}
		}
		for _, l := range o.lanes {
			if l.warmAt > o.now || l.warmAt == o.now && l.held {
				consider(l.warmAt, func() { l.held = false; o.pump(l) })
			}
		}
		if i := o.nextLater(); i >= 0 {
			consider(o.later[i].at, func() {
				e := o.later[i]
				o.later = slices.Delete(o.later, i, i+1)
				e.do()
			})
		}
		if do == nil {
			return
		}
		o.now = at
		do()
	}
}

func (o *oracle) laneIndex(l *oracleLane) int { return slices.Index(o.lanes, l) }

func (o *oracle) arrive(ti int) {
	q := o.next[ti]
	o.next[ti]++
	var best *oracleLane
	bestRank, least := 0, math.MaxInt
	for _, l := range o.lanes {
		if l.tenant != ti {
			continue
		}
		for r := range l.ranks {
			st := l.ranks[r].Stats()
			if load := 4*(st.Waiting+len(l.inbox[r])) + st.Running; load < least {
				best, bestRank, least = l, r, load
			}
		}
	}
	best.inbox[bestRank] = append(best.inbox[bestRank], q)
	if len(best.flying) == 0 || best.spec.Engine.Eager {
		o.pump(best)
	}
}

func (o *oracle) pump(l *oracleLane) {
	for o.now >= l.warmAt {
		for r := range l.ranks {
			for _, q := range l.inbox[r] {
				req := o.spec.Tenants[l.tenant].Requests[q]
				rec := &o.out[l.tenant][q]
				*rec = Record{ArrivalNs: req.ArrivalNs, QueuedNs: o.now, Lane: l.number, Rank: r}
				if l.ranks[r].Add(batching.Request{ID: batching.SeqID(q), PromptTokens: req.PromptTokens, MaxTokens: req.OutputTokens, Blocks: req.Blocks, ArrivalNs: req.ArrivalNs}) != nil {
					*rec = Record{ArrivalNs: req.ArrivalNs, QueuedNs: o.now, Refused: true}
				}
			}
			l.inbox[r] = nil
		}
		if len(l.flying) == max(l.spec.Batching.InFlight, 1) {
			return
		}
		s := &oracleStep{lane: l, op: -1}
		any := false
		for r, sch := range l.ranks {
			step := &batching.Step{}
			if sch.Schedule(o.now, step) {
				any = true
				s.steps = append(s.steps, step)
				s.shapes = append(s.shapes, ShapeOf(step))
			} else {
				s.steps, s.shapes = append(s.steps, nil), append(s.shapes, Shape{})
			}
			o.note(l, r, step)
		}
		if !any {
			return
		}
		l.spec.Engine.prepare(s.shapes)
		if l.warmAt == 0 && l.spec.ColdNs > 0 {
			s.cold, l.held = l.spec.ColdNs, true
			l.warmAt = o.now + s.cold
		}
		o.splitStep(s)
		l.flying = append(l.flying, s)
		o.enqueue(s)
	}
}

func (o *oracle) note(l *oracleLane, _ int, step *batching.Step) {
	for _, id := range step.Preempted {
		o.out[l.tenant][id].Preemptions++
	}
	for _, it := range step.Items {
		if rec := &o.out[l.tenant][it.ID]; rec.ScheduledNs == 0 {
			rec.ScheduledNs, rec.CachedTokens = max(o.now, 1), it.Cached
		}
	}
}

// costOf is the time of the step's next operator: of the slowest rank.
func (s *oracleStep) costOf() int64 {
	p := s.program()
	if s.part != nil {
		return s.part.costOf(s.slice, s.op)
	}
	if s.op >= 0 && len(s.shares) > 0 {
		return s.costWithHelpers()
	}
	if s.op < 0 {
		if s.slice > 0 {
			return s.extra
		}
		layers := 0
		for _, sl := range s.lane.spec.Ranks[0].Slices {
			layers += sl.Program.layers
		}
		return s.cold + s.extra + s.lane.spec.Engine.overheadNs(s.shapes, layers)
	}
	ref := int(p.sequence[s.op])
	for _, b := range p.blocks {
		if ref < b.first || ref >= b.first+len(b.costs) {
			continue
		}
		slowest, most := 0, int64(-1)
		for r := range s.shapes {
			sum := int64(0)
			for _, c := range b.costs {
				sum += c.Ns(&s.shapes[r])
			}
			if sum > most {
				slowest, most = r, sum
			}
		}
		return b.costs[ref-b.first].Ns(&s.shapes[slowest])
	}
	panic("no such operator")
}

func (s *oracleStep) program() *Program { return s.lane.spec.Ranks[0].Slices[s.slice].Program }

func (s *oracleStep) device() int {
	if s.part != nil {
		return s.part.helper.device
	}
	return s.lane.spec.Ranks[0].Slices[s.slice].Device
}

func (s *oracleStep) borrowed() bool { return s.part != nil || s.lane.spec.Borrowed }

// operators is how many operators the run has.
func (s *oracleStep) operators() int {
	if s.part != nil {
		return len(s.part.operators(s.slice))
	}
	return len(s.program().sequence)
}

func (o *oracle) enqueue(s *oracleStep) {
	d := &o.devices[s.device()]
	o.orders++
	s.order, s.queued = o.orders, o.now
	if o.managed(s.device()) {
		o.queueManaged(s)
		return
	}
	d.queue = append(d.queue, s)
	if d.current == nil {
		o.startNext(s.device())
	}
}

// startNext takes the first of the queue: home work before borrowed work, then in order.
func (o *oracle) startNext(di int) {
	d := &o.devices[di]
	if len(d.queue) == 0 {
		return
	}
	best := 0
	for i, s := range d.queue {
		b := d.queue[best]
		if !s.borrowed() && b.borrowed() || s.borrowed() == b.borrowed() && s.order < b.order {
			best = i
		}
	}
	d.current = d.queue[best]
	d.queue = slices.Delete(d.queue, best, best+1)
	d.ends = o.now + d.current.costOf()
	o.callHelpers(d.current)
}

func (o *oracle) operatorEnds(di int) {
	d := &o.devices[di]
	s := d.current
	s.op++
	if s.op < s.operators() {
		home := slices.ContainsFunc(d.queue, func(q *oracleStep) bool { return !q.borrowed() && q.queued < o.now })
		if s.borrowed() && home {
			d.current = nil
			d.queue = append(d.queue, s)
			o.startNext(di)
			return
		}
		d.ends = o.now + s.costOf()
		return
	}
	d.current = nil
	if home := o.managerOf(di); home >= 0 {
		o.devices[home].rota.held = true
		o.sliceEnds(s)
		o.devices[home].rota.held = false
		o.dispatch(home)
		return
	}
	o.startNext(di)
	o.sliceEnds(s)
}

func (o *oracle) sliceEnds(s *oracleStep) {
	if !o.allEnded(s) {
		return
	}
	l := s.lane
	if s.slice+1 == len(l.spec.Ranks[0].Slices) {
		s.done = true
		o.settle(l)
		return
	}
	from := s.device()
	bytes := s.shapes[0].Tokens * s.program().hiddenBytes
	s.slice++
	s.op, s.extra = 0, 0
	if to := s.device(); to != from {
		i := o.spec.link(from, to)
		link := o.spec.Links[i]
		o.linkAt[i] = max(o.linkAt[i], o.now) + int64(math.Ceil(float64(bytes)/link.BandwidthBytesPerS*1e9))
		o.moving = append(o.moving, oracleTransfer{s, o.linkAt[i] + link.LatencyNs})
		return
	}
	o.enqueue(s)
}

func (o *oracle) settle(l *oracleLane) {
	for len(l.flying) > 0 && l.flying[0].done {
		s := l.flying[0]
		l.flying = l.flying[1:]
		for r, step := range s.steps {
			if step == nil {
				continue
			}
			if err := l.ranks[r].Complete(step); err != nil {
				panic(err)
			}
			for _, it := range step.Items {
				req, rec := o.spec.Tenants[l.tenant].Requests[it.ID], &o.out[l.tenant][it.ID]
				if !it.Sample {
					continue
				}
				switch answer := it.Start + it.Tokens + 1 - req.PromptTokens; {
				case answer == 1 && req.OutputTokens > 1:
					rec.FirstNs = o.now
				case answer == 1:
					rec.FirstNs = o.now
					fallthrough
				case answer == req.OutputTokens:
					rec.LastNs = o.now
					if err := l.ranks[r].Finish(it.ID); err != nil {
						panic(err)
					}
				}
			}
		}
	}
	o.pump(l)
}
