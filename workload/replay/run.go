package replay

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"slicescheduler/planner"
	"slicescheduler/whatif"
	"slicescheduler/workload"
)

// Times of a run.
const (
	sampleNs      = 5_000_000_000
	minMessageNs  = 500_000 // a decision's way to the devices
	messageSpread = 1_500_000
	observeNs     = 50_000_000 // how often states are kept for a planner that sees old ones
	forever       = int64(1) << 62
)

// runner advances one world with its policy.
type runner struct {
	*world
	random   *rand.Rand // of messages and losses
	pending  []pendingDecision
	states   []*whatif.State // oldest first, with disturbances that need them
	state    whatif.State
	period   int64
	planAt   int64
	seeAt    int64 // next state to be kept
	sampleAt int64
	plans    workload.Sketch
	watch    *watch
	detail   *Detail
	lender   []bool // by tenant
	past     []int64
	result   *Result

	windowTokens float64 // worked on while requests arrived
	windowDone   bool
}

type pendingDecision struct {
	planner.Decision
	atNs int64
}

// Run replays one policy at one load. Errors are ErrOptions, ErrPlacement, ErrInterrupted or a planner.ErrPolicy.
func (p *Setup) Run(o RunOptions) (*Result, error) {
	var began int64
	if o.Clock != nil {
		began = o.Clock()
	}
	r, err := p.newRunner(&o)
	if err != nil {
		return nil, err
	}
	if err := r.loop(); err != nil {
		return nil, err
	}
	r.settle()
	if o.Clock != nil {
		r.result.WallS = float64(o.Clock()-began) / 1e9
	}
	return r.result, nil
}

// newRunner sets up a run.
func (p *Setup) newRunner(o *RunOptions) (*runner, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	w, err := p.newWorld(o)
	if err != nil {
		return nil, err
	}
	r := &runner{
		world: w, random: seeded(o.Seed, "messages"), period: w.policy.PeriodNs(), lender: make([]bool, len(p.Tenants)), watch: newWatch(w),
		result: &Result{
			Scenario: p.Scenario.Name, Policy: o.Policy, Load: o.Load, Seed: o.Seed, Knobs: o.Knobs, Part: cmp.Or(o.Part, Scored), Actions: map[string]int64{},
			WindowS: float64(w.windowNs) / 1e9,
		},
	}
	r.planAt, r.seeAt, r.sampleAt = r.period, 0, sampleNs
	if r.period <= 0 {
		r.planAt = forever
	}
	if o.Disturb.StaleNs == 0 || r.period <= 0 {
		r.seeAt = forever
	}
	if o.Detail {
		r.detail = &Detail{On: w.cluster, Devices: make([][]DeviceSample, len(w.spec.Devices))}
		r.past = make([]int64, 2*len(w.spec.Devices))
	}
	for ti := range w.spec.Tenants {
		for i := range w.spec.Tenants[ti].Lanes {
			r.noteLenders(ti, &w.spec.Tenants[ti].Lanes[i])
		}
	}
	return r, nil
}

// loop goes from one moment of interest to the next until all is answered, time is up, or the run is lost.
func (r *runner) loop() error {
	for {
		next := min(r.sampleAt, r.planAt, r.seeAt, r.endNs)
		if len(r.pending) > 0 {
			next = min(next, r.pending[0].atNs)
		}
		if !r.windowDone {
			next = min(next, r.windowNs)
		}
		r.sim.Run(next)
		for len(r.pending) > 0 && r.pending[0].atNs <= next {
			r.apply(&r.pending[0])
			r.pending = r.pending[1:]
		}
		if next >= r.windowNs && !r.windowDone {
			r.closeWindow()
		}
		if next >= r.seeAt {
			r.keepState()
			r.seeAt = next + observeNs
		}
		if next >= r.planAt {
			r.plan(next)
		}
		if next >= r.sampleAt || next >= r.endNs {
			r.sampleAt = next + sampleNs
			r.sample()
			if r.opts.Interrupted != nil && r.opts.Interrupted() {
				return ErrInterrupted
			}
			done, lost := r.watch.look(r)
			if r.result.Stopped = lost; lost || done && r.windowDone || next >= r.endNs {
				return nil
			}
		}
	}
}

// keepState remembers a state for later and drops those that are too old to be needed.
func (r *runner) keepState() {
	s := &whatif.State{}
	r.mask.observe(r.sim, s)
	r.states = append(r.states, s)
	for len(r.states) > 1 && r.states[1].NowNs <= s.NowNs-r.opts.Disturb.StaleNs {
		r.states = r.states[1:]
	}
}

// plan asks the policy and sends its decisions on their way.
func (r *runner) plan(now int64) {
	state := &r.state
	if stale := r.opts.Disturb.StaleNs; stale == 0 {
		r.mask.observe(r.sim, state)
	} else if state = r.states[0]; state.NowNs > now-stale {
		r.planAt = now + r.period // nothing is old enough to be seen yet
		return
	}
	cost := r.opts.PlanCostNs
	var began int64
	if cost == 0 {
		began = r.opts.Clock()
	}
	decisions := r.policy.Plan(state)
	if cost == 0 {
		cost = r.opts.Clock() - began
	}
	r.plans.Add(cost)
	r.planAt = now + max(r.period, cost)
	at := now + cost + minMessageNs + r.random.Int64N(messageSpread)
	if n := len(r.pending); n > 0 {
		at = max(at, r.pending[n-1].atNs)
	}
	for _, d := range decisions {
		r.pending = append(r.pending, pendingDecision{d, at})
	}
}

// apply carries a decision out as far as the world still allows it.
func (r *runner) apply(d *pendingDecision) {
	log := DecisionResult{AtNs: r.sim.Now(), Kind: d.Kind, Tenant: d.Tenant, Reason: d.Reason, ForecastGoodTokens: d.GoodTokens, HorizonNs: d.HorizonNs}
	if p := r.opts.Disturb.FailPct; p > 0 && 100*r.random.Float64() < p {
		r.result.Lost++
		log.Refusal = "lost on its way"
	} else if err := r.sim.Apply(actionWithoutPrograms(d.Action)); err != nil {
		r.result.Refused++
		if errors.Is(err, whatif.ErrMemory) {
			r.result.RefusedForMemory++
		}
		log.Refusal = err.Error()
	} else {
		log.Applied = true
		r.result.Actions[d.Kind]++
		r.noteAction(d.Action)
	}
	if r.detail != nil {
		r.detail.Decisions = append(r.detail.Decisions, log)
	}
}

// noteAction remembers who lends.
func (r *runner) noteAction(a whatif.Action) {
	switch a := a.(type) {
	case whatif.AddLane:
		r.noteLenders(a.Tenant, &a.Lane)
	case whatif.MoveLane:
		r.noteLenders(a.Tenant, &a.To)
	case whatif.Reshape:
		for i := range a.Moves {
			r.noteLenders(a.Moves[i].Tenant, &a.Moves[i].To)
		}
	case whatif.BorrowAttention:
		r.noteLender(a.Tenant, a.Helper)
	case whatif.BorrowRows:
		r.noteLender(a.Tenant, a.Helper)
	}
}

func (r *runner) noteLenders(tenant int, l *whatif.LaneSpec) {
	for _, rank := range l.Ranks {
		for _, s := range rank.Slices {
			r.noteLender(tenant, s.Device)
		}
	}
}

// noteLender marks those whose home a tenant works on, unless it is at home there too.
func (r *runner) noteLender(tenant, device int) {
	tenants := r.cluster.Tenants
	if tenants[tenant].Home == device {
		return
	}
	for i := range tenants {
		r.lender[i] = r.lender[i] || tenants[i].Home == device
	}
}

// closeWindow counts what was worked on while requests arrived.
func (r *runner) closeWindow() {
	r.windowDone = true
	r.mask.observe(r.sim, &r.state)
	for i := range r.state.Tenants {
		t := &r.state.Tenants[i]
		r.windowTokens += float64(t.Totals.PromptTokens + t.Totals.OutputTokens)
		for k := range t.Lanes {
			for _, s := range t.Lanes[k].Sequences {
				r.windowTokens += float64(min(s.ComputedTokens, s.PromptTokens))
			}
		}
	}
}

// sample looks at every device: whether its memory suffices, and what it did since the last sample.
func (r *runner) sample() {
	r.mask.observe(r.sim, &r.state)
	for i := range r.state.Devices {
		d := &r.state.Devices[i]
		if d.FreeBytes < 0 {
			r.result.MemoryViolations++
		}
		if r.detail == nil {
			continue
		}
		since := sampleNs
		if n := len(r.detail.AtNs); n > 0 {
			since = int(max(1, r.state.NowNs-r.detail.AtNs[n-1]))
		}
		r.detail.Devices[i] = append(r.detail.Devices[i], DeviceSample{
			Busy: float64(d.BusyNs-r.past[2*i]) / float64(since), Borrowed: float64(d.BorrowedNs-r.past[2*i+1]) / float64(since),
			WeightBytes: d.WeightBytes, KVBytes: d.KVBytes, FreeBytes: d.FreeBytes,
		})
		r.past[2*i], r.past[2*i+1] = d.BusyNs, d.BorrowedNs
	}
	if r.detail != nil {
		r.detail.AtNs = append(r.detail.AtNs, r.state.NowNs)
	}
}

// settle draws up the result.
func (r *runner) settle() {
	res := r.result
	f := r.sim.Forecast()
	res.Steps = f.Steps
	// A shortage that a refused action left was prevented, not suffered.
	if f.Shortage != nil && res.RefusedForMemory == 0 {
		res.MemoryViolations++
	}
	res.Plans = r.plans.Count()
	res.PlanMsP50, res.PlanMsP99, res.PlanMsMax = float64(r.plans.Quantile(0.5))/1e6, float64(r.plans.Quantile(0.99))/1e6, float64(r.plans.Quantile(1))/1e6
	r.account()
	if res.Stopped {
		res.ViolationsPct = 100 * r.watch.rate()
	}
	res.TokensPerS = r.windowTokens / res.WindowS
	if r.detail != nil {
		r.judgeDecisions()
		r.detail.shareOut(r.sim.Timeline())
		res.Detail = r.detail
	}
}

// account judges every request.
func (r *runner) account() {
	res := r.result
	var tenants, lenders []workload.Summary
	var all workload.Account
	good := int64(0)
	for i := range r.setup.Tenants {
		var a workload.Account
		for k, rec := range r.sim.Records(i) {
			q := &r.spec.Tenants[i].Requests[k]
			if rec.LastNs > 0 {
				res.EndS = max(res.EndS, float64(rec.LastNs)/1e9)
			}
			w := recordOf(q, &rec)
			a.Add(w, r.setup.alone[i].request(q.PromptTokens, q.OutputTokens))
			if r.detail != nil && w.Finished {
				r.detail.TTFT.Add(w.TTFTNs())
				if w.HasTPOT() {
					r.detail.TPOT.Add(w.TPOTNs())
				}
			}
		}
		s := a.Summary()
		t := &r.setup.Tenants[i]
		goodTokens := s.GoodPromptTokens + s.GoodOutputTokens
		res.Tenants = append(res.Tenants, TenantResult{
			ID: t.ID, Model: t.Model, Requests: s.Requests, Finished: s.Finished, ViolationsPct: 100 * s.ViolationRate(), LateFirst: s.LateFirstToken,
			SlowTokens: s.SlowTokens, GoodTokensPerS: float64(goodTokens) / res.WindowS, Lender: r.lender[i], TTFT: figuresOf(s.TTFT), TPOT: figuresOf(s.TPOT),
		})
		res.Requests, res.Finished, good = res.Requests+s.Requests, res.Finished+s.Finished, good+goodTokens
		tenants = append(tenants, s)
		if r.lender[i] {
			lenders = append(lenders, s)
		}
		all.Merge(&a)
	}
	res.ViolationsPct, res.LenderPct = 100*workload.ViolationRate(tenants), 100*workload.ViolationRate(lenders)
	res.GoodTokensPerS = float64(good) / res.WindowS
	s := all.Summary()
	res.TTFT, res.TPOT = figuresOf(s.TTFT), figuresOf(s.TPOT)
}

// recordOf turns what the simulator noted of a request into what is judged.
func recordOf(q *whatif.Request, r *whatif.Record) workload.Record {
	return workload.Record{
		ArrivalNs: q.ArrivalNs, FirstTokenNs: r.FirstNs, LastTokenNs: r.LastNs, PromptTokens: q.PromptTokens, OutputTokens: q.OutputTokens,
		Finished: r.LastNs > 0 && !r.Refused,
	}
}

// judgeDecisions adds to each decision what its tenant then got.
func (r *runner) judgeDecisions() {
	type ended struct{ atNs, tokens int64 }
	byTenant := make([][]ended, len(r.setup.Tenants))
	for i := range byTenant {
		for k, rec := range r.sim.Records(i) {
			q := &r.spec.Tenants[i].Requests[k]
			if v := workload.Judge(recordOf(q, &rec), workload.SLA{}, r.setup.alone[i].request(q.PromptTokens, q.OutputTokens)); !v.Violates() {
				byTenant[i] = append(byTenant[i], ended{rec.LastNs, int64(q.PromptTokens + q.OutputTokens)})
			}
		}
		slices.SortFunc(byTenant[i], func(a, b ended) int { return int(min(1, max(-1, a.atNs-b.atNs))) })
	}
	for k := range r.detail.Decisions {
		d := &r.detail.Decisions[k]
		if d.HorizonNs <= 0 || d.Tenant < 0 || d.Tenant >= len(byTenant) {
			continue
		}
		for _, e := range byTenant[d.Tenant] {
			switch {
			case e.atNs > d.AtNs && e.atNs <= d.AtNs+d.HorizonNs:
				d.GoodTokens += e.tokens
			case e.atNs > d.AtNs-d.HorizonNs && e.atNs <= d.AtNs:
				d.GoodTokensBefore += e.tokens
			}
		}
	}
}

// String names a run in a line.
func (r *Result) String() string {
	return fmt.Sprintf("%s %s at %.3g, seed %d", r.Scenario, r.Policy, r.Load, r.Seed)
}
