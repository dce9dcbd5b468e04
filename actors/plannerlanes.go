package actors

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"slicescheduler/actors/protocol"
	"slicescheduler/gmg"
)

// sliceState follows a lane's slices: the lane is ready when all are resident, and comes to nothing when one fails.
func (p *plannerActor) sliceState(ctx actor.Context, m *protocol.SliceState) {
	pl := p.byPlan(m.Plan)
	if pl == nil || pl.phase != phaseLoading && pl.phase != phaseReady || int(m.Index) >= len(pl.lane.Slices) {
		return
	}
	s := &pl.lane.Slices[m.Index]
	s.LoadedBytes, s.WeightBytes, s.KVBytes = m.LoadedBytes, m.WeightBytes, m.KvBytes
	switch m.State {
	case protocol.SliceState_RESIDENT:
		s.Weights = gmg.Resident
	case protocol.SliceState_FAILED:
		s.Weights = gmg.Failed
		p.drop(ctx, pl, phaseFailed, m.Reason)
		return
	default:
		s.Weights = gmg.Loading
	}
	for i := range pl.lane.Slices {
		if pl.lane.Slices[i].Weights != gmg.Resident {
			p.publish(pl)
			return
		}
	}
	p.settle(ctx, pl, phaseReady, "")
}

func (p *plannerActor) byPlan(plan string) *placement {
	for _, pl := range p.placements {
		if pl.plan == plan {
			return pl
		}
	}
	return nil
}

// settle ends a placement's way, for now, and tells the tenant.
func (p *plannerActor) settle(ctx actor.Context, pl *placement, to phase, reason string) {
	pl.phase, pl.reason = to, reason
	p.tell(ctx, pl)
	p.done(ctx, pl)
}

// drop takes a plan back from every device; after says what follows when all of its memory is free. Slices go in the lane's order, each when the one before
// is gone, so that none copies rows into one that is being dropped.
func (p *plannerActor) drop(ctx actor.Context, pl *placement, after phase, reason string) {
	if pl.phase == phaseDropping {
		return
	}
	pl.phase, pl.after, pl.reason = phaseDropping, after, reason
	clear(pl.open)
	for _, s := range pl.lane.Slices {
		pl.open[string(s.Device)] = true
	}
	if after == phaseQueued {
		p.tell(ctx, pl) // the tenant must not use the lane any more
	}
	p.dropNext(ctx, pl)
}

// dropNext drops the first slice that is left, or goes on when none is. A device whose actor is gone holds nothing that could be dropped.
func (p *plannerActor) dropNext(ctx actor.Context, pl *placement) {
	for _, s := range pl.lane.Slices {
		if !pl.open[string(s.Device)] {
			continue
		}
		if gpu := p.gpus[string(s.Device)]; gpu != nil {
			ctx.Request(gpu, &protocol.Drop{Plan: pl.plan})
			return
		}
		delete(pl.open, string(s.Device))
	}
	p.allDropped(ctx, pl)
}

func (p *plannerActor) dropped(ctx actor.Context, m *protocol.Dropped) {
	if pl := p.byPlan(m.Plan); pl != nil && pl.phase == phaseDropping && pl.open[m.Device] {
		delete(pl.open, m.Device)
		p.dropNext(ctx, pl)
	}
}

// allDropped goes on when the last device has given the memory back. Others that wait for memory get their turn.
func (p *plannerActor) allDropped(ctx actor.Context, pl *placement) {
	pl.lane.Slices = nil
	waiting := p.waiting()
	switch {
	case pl.removed:
		p.gone(ctx, pl)
	case pl.after == phaseQueued:
		p.done(ctx, pl)
		p.enqueue(ctx, pl)
	default:
		p.settle(ctx, pl, pl.after, pl.reason)
	}
	for _, w := range waiting {
		p.enqueue(ctx, w)
	}
}

// waiting returns the placements that wait for memory, the tenants that came first at the front.
func (p *plannerActor) waiting() []*placement {
	var list []*placement
	for _, e := range p.rt.tenants.all() {
		if pl := p.placements[string(e.spec.ID)]; pl != nil && pl.phase == phaseWaiting {
			list = append(list, pl)
		}
	}
	return list
}

// remove takes a tenant's lane away, whatever its phase.
func (p *plannerActor) remove(ctx actor.Context, m *protocol.DropTenant) {
	pl := p.placements[m.Tenant]
	if pl == nil {
		ctx.Respond(&protocol.TenantDropped{Tenant: m.Tenant})
		return
	}
	pl.removed, pl.actor = true, ctx.Sender()
	switch pl.phase {
	case phaseSizing, phaseReserving, phaseDropping:
		// the reply that is awaited goes on
	case phaseLoading, phaseReady:
		p.drop(ctx, pl, phaseFailed, "")
	default:
		p.gone(ctx, pl)
	}
}

// gone forgets a tenant that holds nothing any more.
func (p *plannerActor) gone(ctx actor.Context, pl *placement) {
	delete(p.placements, pl.tenant)
	for i, q := range p.queue {
		if q == pl {
			p.queue = append(p.queue[:i:i], p.queue[i+1:]...)
			break
		}
	}
	p.rt.send(p.rt.gmg, putFacts{deletes: []gmg.Key{gmg.LaneKey(pl.lane.ID)}})
	ctx.Send(pl.actor, &protocol.TenantDropped{Tenant: pl.tenant})
	if pl.again != nil {
		p.placements[pl.tenant] = pl.again
		p.enqueue(ctx, pl.again)
	}
	p.done(ctx, pl)
}

// deviceFailed takes all lanes off a lost device and places their tenants anew on the others.
func (p *plannerActor) deviceFailed(ctx actor.Context, device, reason string) {
	for _, pl := range p.placements {
		if pl.phase != phaseLoading && pl.phase != phaseReady {
			continue
		}
		for _, s := range pl.lane.Slices {
			if string(s.Device) == device {
				p.drop(ctx, pl, phaseQueued, reason)
				break
			}
		}
	}
}

// deviceGone stands in for a GPU actor that stopped for good: its replies will not come.
func (p *plannerActor) deviceGone(ctx actor.Context, who *actor.PID) {
	const reason = "the device's actor has stopped"
	for device, pid := range p.gpus {
		if !pid.Equal(who) {
			continue
		}
		delete(p.gpus, device)
		p.deviceFailed(ctx, device, reason)
		if pl := p.active; pl != nil {
			p.sized(ctx, &protocol.SizeReply{Plan: pl.plan, Device: device, Error: reason})
			p.reserved(ctx, &protocol.ReserveReply{Plan: pl.plan, Device: device, Reason: reason})
		}
		for _, pl := range p.placements {
			p.dropped(ctx, &protocol.Dropped{Plan: pl.plan, Device: device})
		}
	}
}

// tell tells a tenant how its lane stands, and the GMG too.
func (p *plannerActor) tell(ctx actor.Context, pl *placement) {
	m := &protocol.LaneState{Tenant: pl.tenant, Lane: string(pl.lane.ID), Epoch: pl.epoch, Reason: pl.reason, State: laneStates[pl.phase]}
	for _, s := range pl.lane.Slices {
		m.KvBlocks = int32(s.KVBlocks)
		m.Slices = append(m.Slices, &protocol.SlicePlan{
			Device: string(s.Device), FromStage: int32(s.Stages.From), ToStage: int32(s.Stages.To),
		})
	}
	p.publish(pl)
	ctx.Send(pl.actor, m)
}

// laneStates says what a placement's phase means to its tenant.
var laneStates = [...]protocol.LaneState_State{
	phaseQueued: protocol.LaneState_WAITING, phaseSizing: protocol.LaneState_WAITING, phaseReserving: protocol.LaneState_WAITING,
	phaseLoading: protocol.LaneState_LOADING, phaseReady: protocol.LaneState_READY, phaseDropping: protocol.LaneState_WAITING,
	phaseWaiting: protocol.LaneState_WAITING, phaseFailed: protocol.LaneState_FAILED,
}

// publish makes the lane a fact.
func (p *plannerActor) publish(pl *placement) {
	lane := pl.lane
	lane.Slices = slices.Clone(lane.Slices) // the GMG's from now on
	lane.Ready, lane.Reason = pl.phase == phaseReady, pl.reason
	p.rt.send(p.rt.gmg, putFacts{values: []gmg.Value{lane}})
}

// crashed lets a plan that is under way start over, and tries again what others wait for.
func (p *plannerActor) crashed(ctx actor.Context, reason string) {
	switch m := ctx.Message().(type) {
	case *protocol.PlaceTenant:
		delete(p.placements, m.Tenant)
		ctx.Respond(&protocol.LaneState{Tenant: m.Tenant, State: protocol.LaneState_FAILED, Reason: reason})
	case *protocol.DropTenant, *protocol.Dropped:
		ctx.Forward(ctx.Self())
	}
	pl := p.active
	p.active = nil
	if pl == nil || p.placements[pl.tenant] != pl {
		return
	}
	if pl.phase == phaseReserving {
		p.drop(ctx, pl, phaseQueued, reason)
		return
	}
	pl.phase = phaseQueued
	p.queue = append(p.queue, pl)
}
