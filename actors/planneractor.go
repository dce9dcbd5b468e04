package actors

import (
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"slicescheduler/actors/protocol"
	"slicescheduler/gmg"
	"slicescheduler/planner"
)

// phase is how far a tenant's placement is.
type phase uint8

const (
	phaseQueued phase = iota // waits for its turn
	phaseSizing
	phaseReserving
	phaseLoading
	phaseReady
	phaseDropping
	phaseWaiting // for memory
	phaseFailed
)

// placement is a tenant's lane on its way to the devices and back.
type placement struct {
	tenant  string
	actor   *actor.PID // the tenant's
	demand  *protocol.PlaceTenant
	phase   phase
	plan    string
	epoch   uint64
	sizes   map[string]*protocol.SizeReply
	open    map[string]bool // devices whose reply is awaited
	refused string          // why a device refused
	lane    gmg.Lane
	after   phase // what follows dropping
	reason  string
	tries   int        // plans in a row that a device refused
	removed bool       // the tenant is to go
	again   *placement // of a tenant with the same name that came meanwhile
}

// planTries is how often a refused plan is made anew at once, before it waits until memory frees.
const planTries = 3

// plannerActor places tenants' lanes by first fit, one plan at a time: sizes of all devices, reserve on those chosen, commit on all, else drop and try again
// when memory frees. Its state outlives a restart.
type plannerActor struct {
	rt         *runtime
	gpus       map[string]*actor.PID
	order      []string // devices, as configured
	placements map[string]*placement
	queue      []*placement
	active     *placement // being sized or reserved
	plans      uint64
}

func newPlannerActor(rt *runtime) *plannerActor {
	p := &plannerActor{rt: rt, gpus: make(map[string]*actor.PID), placements: make(map[string]*placement)}
	for _, d := range rt.config.Devices {
		p.order = append(p.order, string(d.Describe().ID))
	}
	return p
}

// Receive implements actor.Actor.
func (p *plannerActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		for _, d := range p.order {
			p.gpus[d] = p.rt.pid(gpuPrefix + d)
			ctx.Watch(p.gpus[d])
		}
		p.next(ctx)
	case *protocol.PlaceTenant:
		p.place(ctx, m)
	case *protocol.DropTenant:
		p.remove(ctx, m)
	case *protocol.SizeReply:
		p.sized(ctx, m)
	case *protocol.ReserveReply:
		p.reserved(ctx, m)
	case *protocol.SliceState:
		p.sliceState(ctx, m)
	case *protocol.Dropped:
		p.dropped(ctx, m)
	case *protocol.DeviceFailed:
		p.deviceFailed(ctx, m.Device, m.Reason)
	case *actor.Terminated:
		p.deviceGone(ctx, m.Who)
	}
}

// place queues a tenant's placement, or tells where it is.
func (p *plannerActor) place(ctx actor.Context, m *protocol.PlaceTenant) {
	pl := &placement{tenant: m.Tenant, actor: ctx.Sender(), demand: m}
	pl.lane = gmg.Lane{ID: gmg.LaneID(m.Tenant + "#0"), Tenant: gmg.TenantID(m.Tenant)}
	switch old := p.placements[m.Tenant]; {
	case old == nil:
		p.placements[m.Tenant] = pl
		p.enqueue(ctx, pl)
	case old.removed:
		old.again = pl
	default:
		old.actor = ctx.Sender()
		p.tell(ctx, old)
	}
}

func (p *plannerActor) enqueue(ctx actor.Context, pl *placement) {
	pl.phase = phaseQueued
	p.queue = append(p.queue, pl)
	p.next(ctx)
}

// next begins the plan of the first tenant in the queue, if none is under way.
func (p *plannerActor) next(ctx actor.Context) {
	if p.active != nil || len(p.queue) == 0 {
		return
	}
	pl := p.queue[0]
	p.queue = p.queue[1:]
	p.active = pl
	p.plans++
	pl.epoch++
	pl.plan = fmt.Sprintf("%s/%d", p.rt.config.Name, p.plans)
	pl.phase, pl.refused = phaseSizing, ""
	pl.sizes, pl.open = make(map[string]*protocol.SizeReply), make(map[string]bool)
	for _, d := range p.order {
		if gpu := p.gpus[d]; gpu != nil {
			pl.open[d] = true
			ctx.Request(gpu, &protocol.SizeQuery{Plan: pl.plan, Tenant: pl.tenant})
		}
	}
	if len(pl.open) == 0 {
		p.settle(ctx, pl, phaseFailed, "no device is left")
	}
}

// done ends the turn of the active plan.
func (p *plannerActor) done(ctx actor.Context, pl *placement) {
	if p.active == pl {
		p.active = nil
		p.next(ctx)
	}
}

// sized takes in a device's sizes and, with the last of them, chooses.
func (p *plannerActor) sized(ctx actor.Context, m *protocol.SizeReply) {
	pl := p.active
	if pl == nil || pl.plan != m.Plan || pl.phase != phaseSizing || !pl.open[m.Device] {
		return
	}
	delete(pl.open, m.Device)
	if m.Error == "" {
		pl.sizes[m.Device] = m
	} else {
		pl.refused = m.Error
	}
	if len(pl.open) > 0 {
		return
	}
	if pl.removed {
		p.gone(ctx, pl)
		return
	}
	chosen, err := p.choose(pl)
	switch {
	case errors.Is(err, planner.ErrNoRoom) && len(pl.sizes) > 0:
		p.settle(ctx, pl, phaseWaiting, "waits for memory: "+err.Error())
	case err != nil:
		p.settle(ctx, pl, phaseFailed, err.Error())
	default:
		p.reserve(ctx, pl, chosen)
	}
}

// choose asks first fit, at first with room for a whole context, else with what there is.
func (p *plannerActor) choose(pl *placement) (planner.Placement, error) {
	var devices []planner.Sizes
	for _, id := range p.order {
		if s := pl.sizes[id]; s != nil {
			devices = append(devices, planner.Sizes{
				Device: gmg.DeviceID(id), CapacityBytes: s.CapacityBytes, FreeBytes: s.FreeBytes, StageBytes: s.StageBytes,
				TiedBytes: s.TiedBytes, BlockBytes: s.BlockBytes, FixedBytes: s.FixedBytes, SlotBytes: s.SlotBytes,
			})
		}
	}
	if len(devices) == 0 {
		return planner.Placement{}, fmt.Errorf("no device can take it: %s", pl.refused)
	}
	want := int(pl.demand.WantBlocks)
	d := planner.Demand{
		Stages: int(pl.demand.Stages), WantBlocks: want, MinBlocks: min(want, int(pl.demand.ContextBlocks)),
		KVSharePct: p.rt.config.Limits.KVSharePct, SplitOver: min(int(pl.demand.SplitOver), int(pl.demand.Stages)),
	}
	chosen, err := planner.FirstFit(d, devices)
	if least := min(d.MinBlocks, p.rt.config.Limits.MinKVBlocks); err != nil && least < d.MinBlocks {
		d.MinBlocks = least
		chosen, err = planner.FirstFit(d, devices)
	}
	return chosen, err
}

// reserve asks the chosen devices to promise the memory.
func (p *plannerActor) reserve(ctx actor.Context, pl *placement, chosen planner.Placement) {
	pl.phase, pl.refused, pl.lane.Slices, pl.lane.Epoch = phaseReserving, "", chosen.Slices, pl.epoch
	for i, s := range chosen.Slices {
		pl.open[string(s.Device)] = true
		ctx.Request(p.gpus[string(s.Device)], &protocol.Reserve{
			Plan: pl.plan, Epoch: pl.epoch, Tenant: pl.tenant, Lane: string(pl.lane.ID), Index: int32(i), Slices: int32(len(chosen.Slices)),
			KvBlocks: int32(chosen.KVBlocks),
			Slice:    &protocol.SlicePlan{Device: string(s.Device), FromStage: int32(s.Stages.From), ToStage: int32(s.Stages.To)},
		})
	}
}

// reserved commits when all devices have promised, else drops.
func (p *plannerActor) reserved(ctx actor.Context, m *protocol.ReserveReply) {
	pl := p.active
	if pl == nil || pl.plan != m.Plan || pl.phase != phaseReserving || !pl.open[m.Device] {
		return
	}
	delete(pl.open, m.Device)
	if !m.Ok {
		pl.refused = m.Device + ": " + m.Reason
	}
	if len(pl.open) > 0 {
		return
	}
	switch {
	case pl.removed:
		p.drop(ctx, pl, phaseFailed, "")
	case pl.refused != "" && pl.tries < planTries:
		pl.tries++
		p.drop(ctx, pl, phaseQueued, pl.refused) // what it was planned with has changed
	case pl.refused != "":
		p.drop(ctx, pl, phaseWaiting, "waits for memory: "+pl.refused)
	default:
		pl.phase, pl.tries = phaseLoading, 0
		for _, s := range pl.lane.Slices {
			ctx.Request(p.gpus[string(s.Device)], &protocol.Commit{Plan: pl.plan, Epoch: pl.epoch})
		}
		p.tell(ctx, pl)
		p.done(ctx, pl)
	}
}
