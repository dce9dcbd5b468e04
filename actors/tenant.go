package actors

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"slicescheduler/actors/protocol"
	"slicescheduler/batching"
	"slicescheduler/gmg"
)

// States of a tenant, as listings show them.
const (
	stateLoading  = "loading"
	stateReady    = "ready"
	stateFailed   = "failed"
	stateRemoving = "removing"
)

// Queries of the tenant's own node, with their reply channels.
type (
	tenantQuery   struct{ reply chan<- TenantStatus }
	requestsQuery struct{ reply chan<- []RequestStatus }
	// removeTenant ends all requests and gives back the lane; the actor stops when that is done.
	removeTenant struct{}
	// beginTenant says that the tenant is in the directory, where others look it up.
	beginTenant struct{}
)

// tenantActor owns a tenant's batching scheduler. A step is schedule, run, postprocess: pump, then the slices, then stepDone.
type tenantActor struct {
	rt     *runtime
	entry  *tenantEntry
	salt   uint64 // of prefix hashes: unknown to others, so nobody can search for collisions
	limits tenantLimits
	sla    *slaAccount
	rate   drainRate
	counts *tenantMetrics
	onLane *laneFlight

	state      string
	reason     string
	lane       *protocol.LaneState
	first      *actor.PID // the lane's first slice
	generation uint64     // of the scheduler
	sched      *batching.Scheduler
	sequences  map[uint64]*sequence
	held       []*sequence // in order of arrival, while there is no lane
	flight     []*tenantStep
	spare      []*tenantStep
	opening    []*protocol.OpenSequence // to go with the next step
	closing    []uint64
	outbox     []outAnswer
}

// tenantLimits are a tenant's bounds, from its spec or the node's limits.
type tenantLimits struct {
	sequences, queue, context, batchTokens int
}

func newTenantLimits(e *tenantEntry, l Limits) tenantLimits {
	t := tenantLimits{sequences: l.MaxSequences, queue: l.MaxQueue, context: e.contextTokens()}
	if e.spec.MaxSequences > 0 {
		t.sequences = min(e.spec.MaxSequences, MaxSequencesBound)
	}
	if e.spec.MaxQueue > 0 {
		t.queue = e.spec.MaxQueue
	}
	t.batchTokens = max(l.BatchTokens, t.sequences)
	return t
}

// newTenantActor returns the actor for one of its lives; flight, sla and counts are the same in all of them.
func newTenantActor(rt *runtime, e *tenantEntry, salt uint64, flight *laneFlight, sla *slaAccount, counts *tenantMetrics) *tenantActor {
	return &tenantActor{
		rt: rt, entry: e, salt: salt, limits: newTenantLimits(e, rt.config.Limits), sla: sla, counts: counts, onLane: flight,
		state: stateLoading, sequences: make(map[uint64]*sequence), generation: rt.generation.Add(1),
	}
}

// Receive implements actor.Actor.
func (t *tenantActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		if t.rt.tenants.get(t.entry.spec.ID) == t.entry { // not the first life
			t.place(ctx)
		}
	case beginTenant:
		t.place(ctx)
	case *protocol.Submit:
		t.submit(ctx, m)
	case *protocol.StepDone:
		t.stepDone(ctx, m)
	case *protocol.Cancel:
		t.cancel(ctx, m)
	case *protocol.Pause:
		t.setPaused(m.Seq, true)
	case *protocol.Resume:
		t.setPaused(m.Seq, false)
		t.pump(ctx)
		t.flush(ctx)
	case *protocol.LaneState:
		t.laneState(ctx, m)
	case *protocol.TenantDropped:
		if t.state == stateRemoving {
			ctx.Stop(ctx.Self())
		}
	case removeTenant:
		t.remove(ctx)
	case tenantQuery:
		m.reply <- t.status()
	case requestsQuery:
		m.reply <- t.requests()
	case tick:
		t.setAside(m.nowNs)
		t.pump(ctx) // ageing alone can make a waiting request schedulable
		t.publish()
	case *actor.Stopping:
		t.abandon(fmt.Sprintf("tenant %s has stopped", t.entry.spec.ID))
		if t.state != stateRemoving { // after too many failures; nobody else will give the lane back
			ctx.Request(t.rt.planner, &protocol.DropTenant{Tenant: string(t.entry.spec.ID)})
		}
	case *actor.Stopped:
		// Whatever was submitted and not read any more fails: the gateway sends nothing here once it knows.
		close(t.entry.gone)
		t.rt.send(t.rt.gateway, tenantGone{entry: t.entry, err: stoppedError(t.entry)})
	}
}

// stoppedError is what requests to a tenant get whose actor failed too often.
func stoppedError(e *tenantEntry) error {
	return fmt.Errorf("%w: %s stopped after too many failures; remove it and submit it again", ErrTenantNotReady, e.spec.ID)
}

// place asks the planner for a lane. After a restart there is one already, which it tells at once.
func (t *tenantActor) place(ctx actor.Context) {
	g := t.entry.model.Graph
	perContext := pagesFor(t.limits.context)
	ctx.Request(t.rt.planner, &protocol.PlaceTenant{
		Tenant: string(t.entry.spec.ID), Stages: int32(len(g.Stages)), SplitOver: int32(t.entry.spec.SplitOver),
		ContextBlocks: int32(perContext), WantBlocks: int32(min(perContext*t.limits.sequences, batching.MaxKVBlocks)),
	})
}

func pagesFor(tokens int) int {
	return (tokens + batching.DefaultBlockTokens - 1) / batching.DefaultBlockTokens
}

// remove ends all requests and asks the planner to give back what the tenant holds.
func (t *tenantActor) remove(ctx actor.Context) {
	t.state = stateRemoving
	t.abandon(fmt.Sprintf("tenant %s was removed", t.entry.spec.ID))
	ctx.Request(t.rt.planner, &protocol.DropTenant{Tenant: string(t.entry.spec.ID)})
}

// abandon forgets all requests; the gateways fail them.
func (t *tenantActor) abandon(reason string) {
	gateways := map[string]*actor.PID{t.rt.gateway.String(): t.rt.gateway}
	for _, s := range t.sequences {
		gateways[s.gateway.String()] = s.gateway
	}
	for _, pid := range gateways {
		t.rt.send(pid, &protocol.TenantLost{Tenant: string(t.entry.spec.ID), Reason: reason})
	}
	t.dropScheduler()
	clear(t.sequences)
	t.held = nil
}

// crashed fails all requests: what the scheduler holds can't be trusted. The next life asks for its lane again.
func (t *tenantActor) crashed(ctx actor.Context, reason string) {
	switch m := ctx.Message().(type) {
	case *protocol.Submit:
		ctx.Respond(&protocol.SubmitReply{Seq: m.Seq, Refusal: &protocol.Refusal{Code: protocol.Refusal_FAILED, Reason: reason}})
	case *protocol.StepDone:
		t.onLane.land(m)
	case tenantQuery:
		m.reply <- TenantStatus{Spec: t.entry.spec, State: stateFailed, Reason: reason}
	case requestsQuery:
		m.reply <- nil
	case *actor.Stopping:
		return
	}
	t.abandon(reason)
	if t.state == stateRemoving {
		t.rt.send(ctx.Self(), removeTenant{})
	}
}

// laneState follows the planner's word on the tenant's lane.
func (t *tenantActor) laneState(ctx actor.Context, m *protocol.LaneState) {
	if t.state == stateRemoving || t.lane != nil && m.Epoch < t.lane.Epoch {
		return
	}
	t.lane, t.reason = m, m.Reason
	switch m.State {
	case protocol.LaneState_READY:
		t.ready(ctx)
	case protocol.LaneState_FAILED:
		t.state = stateFailed
		t.abandon(fmt.Sprintf("tenant %s: %s", t.entry.spec.ID, m.Reason))
	default:
		t.state = stateLoading
		t.holdAll()
	}
}

// ready starts a scheduler on the lane and gives it all that waited.
func (t *tenantActor) ready(ctx actor.Context) {
	t.holdAll()
	t.state = stateReady
	t.first = t.rt.pid(sliceName(t.lane.Lane, t.lane.Epoch, 0))
	if err := t.newScheduler(); err != nil {
		t.state, t.reason = stateFailed, err.Error()
		t.abandon(t.reason)
		return
	}
	t.rescheduleHeld()
	t.pump(ctx)
	t.flush(ctx)
}

func (t *tenantActor) newScheduler() error {
	c := batching.Config{
		KVBlocks: int(t.lane.KvBlocks), MaxBatchTokens: t.limits.batchTokens, MaxSequences: t.limits.sequences, MaxContext: t.limits.context,
		InFlight: len(t.lane.Slices), PrefixReuse: true,
	}
	if len(t.lane.Slices) > 1 {
		c.Overlap = batching.OverlapPrefill
	}
	s, err := batching.New(c)
	if err != nil {
		return fmt.Errorf("tenant %s: %w", t.entry.spec.ID, err)
	}
	t.sched, t.generation = s, t.rt.generation.Add(1)
	return nil
}

// dropScheduler forgets the scheduler and its steps in flight, which still belong to slices.
func (t *tenantActor) dropScheduler() {
	t.sched, t.flight, t.spare = nil, nil, nil
	t.opening, t.closing = nil, nil
	t.generation = t.rt.generation.Add(1)
}

// holdAll takes all requests out of the scheduler, to be computed again on the next lane. Nothing they streamed is lost or repeated.
func (t *tenantActor) holdAll() {
	if t.sched == nil {
		return
	}
	held := make([]*sequence, 0, len(t.sequences))
	t.sched.Each(func(p batching.Progress) {
		if s := t.sequences[uint64(p.ID)]; s != nil {
			held = append(held, s)
		}
	})
	sortByArrival(held)
	t.held = held
	t.dropScheduler()
}

// publish tells the GMG the tenant's execution state.
func (t *tenantActor) publish() {
	state := gmg.TenantState{Tenant: t.entry.spec.ID}
	for _, s := range t.sequences {
		one := gmg.SequenceState{
			ID: s.submit.Seq, PromptTokens: len(s.submit.Prompt), ContextTokens: len(s.tokens), OutputTokens: s.output,
			ArrivalNs: s.submit.ArrivalNs, DeadlineNs: t.sla.deadlineNs(s),
		}
		if s.scheduledNs == 0 {
			state.Waiting = append(state.Waiting, one)
		} else {
			state.Running = append(state.Running, one)
		}
	}
	sortSequences(state.Waiting)
	sortSequences(state.Running)
	if t.sched != nil {
		stats := t.sched.Stats()
		state.KVBlocksFree, state.KVBlocksTotal = stats.FreeBlocks+stats.CachedBlocks, t.sched.Config().KVBlocks
	}
	t.counts.gauges(state)
	t.rt.send(t.rt.gmg, putFacts{values: []gmg.Value{state}})
}
