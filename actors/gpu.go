package actors

import (
	"cmp"
	"context"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"slicescheduler/actors/protocol"
	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
)

// Messages to a GPU actor from its own node.
type (
	// loadProgress and loadDone come from the goroutine that loads a slice's weights.
	loadProgress struct {
		plan        string
		done, total int64
	}
	loadDone struct {
		plan   string
		runner *gpuworker.SliceRunner
		err    error
	}
	// deviceLost comes from a slice whose device won't come back.
	deviceLost  struct{ err error }
	deviceQuery struct{ reply chan<- DeviceStatus }
	slicesQuery struct{ reply chan<- []SliceStatus }
	// closeDevice drops all that is on the device; done is closed when nothing is left.
	closeDevice struct{ done chan<- struct{} }
)

// gpuActor is the one authority over a device's memory: it promises it to plans, loads slices and starts their actors. Its messages are idempotent, by plan.
// The state outlives a restart of the actor.
type gpuActor struct {
	rt       *runtime
	device   gpuworker.Device
	id       gmg.DeviceID
	holdings map[string]*holding // by plan
	counters *deviceCounters
	busy     *busyWindow
	lost     string // why the device is lost
	closing  chan<- struct{}
}

// holding is what a plan has of the device.
type holding struct {
	plan     string
	slice    *loadedSlice // without runner until it is resident
	config   gpuworker.SliceConfig
	bytes    int64 // promised, loading or held
	state    protocol.SliceState_State
	loading  context.CancelFunc // while weights are loaded
	pid      *actor.PID
	loaded   int64
	total    int64
	dropping bool
	waiters  []*actor.PID // to be told when it is dropped
	planner  *actor.PID
}

func newGPUActor(rt *runtime, d gpuworker.Device) *gpuActor {
	return &gpuActor{
		rt: rt, device: d, id: d.Describe().ID, holdings: make(map[string]*holding), counters: &deviceCounters{},
		busy: newBusyWindow(rt.config.Limits.BusyWindow, rt.config.Limits.PublishInterval),
	}
}

// Receive implements actor.Actor.
func (g *gpuActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		g.busy.add(g.rt.nowNs(), g.counters.busyNs.Load())
		g.rt.send(g.rt.gmg, putFacts{values: []gmg.Value{g.describe(), g.deviceState()}})
	case *protocol.SizeQuery:
		ctx.Respond(g.sizes(m))
	case *protocol.Reserve:
		ctx.Respond(g.reserve(ctx, m))
	case *protocol.Commit:
		g.commit(ctx.Self(), m)
	case *protocol.Drop:
		g.drop(ctx, m)
	case loadProgress:
		if h := g.holdings[m.plan]; h != nil && !h.dropping {
			h.loaded, h.total = m.done, m.total
			g.tell(h, "")
		}
	case loadDone:
		g.loaded(ctx, m)
	case *actor.Terminated:
		g.terminated(ctx, m.Who)
	case deviceLost:
		g.lose(ctx, m.err)
	case deviceQuery:
		m.reply <- g.status()
	case slicesQuery:
		m.reply <- g.slices()
	case tick:
		if d := g.device.Describe(); !d.Healthy && g.lost == "" {
			g.lose(ctx, fmt.Errorf("%w: %s", gpuworker.ErrUnhealthy, d.Reason))
		}
		g.busy.add(m.nowNs, g.counters.busyNs.Load())
		g.rt.send(g.rt.gmg, putFacts{values: []gmg.Value{g.deviceState()}})
	case closeDevice:
		g.closing = m.done
		for _, h := range g.holdings {
			g.dropHolding(ctx, h)
		}
		g.checkClosed()
	}
}

// freeBytes is what is neither held nor promised.
func (g *gpuActor) freeBytes() int64 {
	free := g.device.Ledger().CapacityBytes
	for _, h := range g.holdings {
		free -= h.bytes
	}
	return free
}

// sizes tells what a tenant's graph would take here.
func (g *gpuActor) sizes(m *protocol.SizeQuery) *protocol.SizeReply {
	r := &protocol.SizeReply{Plan: m.Plan, Device: string(g.id), CapacityBytes: g.device.Ledger().CapacityBytes, FreeBytes: g.freeBytes()}
	entry := g.rt.tenants.get(gmg.TenantID(m.Tenant))
	if g.lost != "" || entry == nil || entry.model == nil {
		r.Error = cmp.Or(g.lost, "the node doesn't serve tenant "+m.Tenant)
		return r
	}
	l := newTenantLimits(entry, g.rt.config.Limits)
	one := gpuworker.GraphSizes(g.device, entry.model.Graph, l.batchTokens, l.sequences, 1)
	two := gpuworker.GraphSizes(g.device, entry.model.Graph, l.batchTokens, l.sequences, 2)
	r.StageBytes, r.BlockBytes, r.TiedBytes = one.StageBytes, one.BlockBytes, one.TiedBytes
	r.FixedBytes, r.SlotBytes = one.FixedBytes, two.FixedBytes-one.FixedBytes
	return r
}

// reserve promises a slice's memory to a plan.
func (g *gpuActor) reserve(ctx actor.Context, m *protocol.Reserve) *protocol.ReserveReply {
	r := &protocol.ReserveReply{Plan: m.Plan, Device: string(g.id), Index: m.Index}
	if h := g.holdings[m.Plan]; h != nil {
		r.Ok = !h.dropping
		return r
	}
	entry := g.rt.tenants.get(gmg.TenantID(m.Tenant))
	if g.lost != "" || g.closing != nil || entry == nil || entry.model == nil {
		r.Reason = cmp.Or(g.lost, "the node doesn't serve tenant "+m.Tenant)
		return r
	}
	l := newTenantLimits(entry, g.rt.config.Limits)
	h := &holding{
		plan: m.Plan, planner: ctx.Sender(),
		config: gpuworker.SliceConfig{
			Graph: entry.model.Graph, Stages: gmg.Range{From: int(m.Slice.FromStage), To: int(m.Slice.ToStage)},
			KVBlocks: int(m.KvBlocks), MaxRows: l.batchTokens, MaxLogits: l.sequences, Slots: int(m.Slices),
		},
		slice: &loadedSlice{
			lane: m.Lane, epoch: m.Epoch, index: int(m.Index), count: int(m.Slices), tenant: entry, device: g.counters, gpu: ctx.Self(),
		},
	}
	if err := h.config.Validate(); err != nil {
		r.Reason = err.Error()
		return r
	}
	h.bytes = gpuworker.SliceBytes(g.device, h.config).Total()
	if free := g.freeBytes(); h.bytes > free {
		r.Reason = fmt.Sprintf("%d bytes wanted, %d free", h.bytes, free)
		return r
	}
	g.holdings[m.Plan] = h
	r.Ok = true
	return r
}

// commit starts to load a promised slice. A plan that was dropped, or is loading already, is left as it is.
func (g *gpuActor) commit(self *actor.PID, m *protocol.Commit) {
	h := g.holdings[m.Plan]
	if h == nil || h.dropping || h.state != protocol.SliceState_UNSPECIFIED {
		return
	}
	ctx, cancel := context.WithCancel(g.rt.life)
	h.state, h.loading = protocol.SliceState_LOADING, cancel
	plan, source, config := h.plan, h.slice.tenant.model, h.config
	g.rt.goroutine(func() {
		defer cancel()
		report := throttledProgress(func(done, total int64) { g.rt.send(self, loadProgress{plan, done, total}) })
		runner, err := loadSlice(ctx, g.device, source, config, report)
		g.rt.send(self, loadDone{plan, runner, err})
	})
	g.tell(h, "")
}

// loadSlice is gpuworker.LoadSlice, with a device's panic turned into an error.
func loadSlice(ctx context.Context, d gpuworker.Device, s gpuworker.WeightSource, c gpuworker.SliceConfig, progress func(done, total int64)) (
	r *gpuworker.SliceRunner, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &internalError{fmt.Sprintf("loading panicked: %v", p)}
		}
	}()
	return gpuworker.LoadSlice(ctx, d, s, c, progress)
}

// progressSteps is how often the loading of a slice is reported at most.
const progressSteps = 50

func throttledProgress(report func(done, total int64)) func(done, total int64) {
	var reported int64
	return func(done, total int64) {
		if done == total || done-reported >= total/progressSteps {
			reported = done
			report(done, total)
		}
	}
}

// loaded starts the actor of a slice that is resident, or says why there is none.
func (g *gpuActor) loaded(ctx actor.Context, m loadDone) {
	h := g.holdings[m.plan]
	if h == nil { // the actor's state can't be without it, unless it was dropped twice
		if m.runner != nil {
			g.closed(m.runner.Close())
		}
		return
	}
	h.loading, h.slice.runner = nil, m.runner
	if m.err == nil && !h.dropping {
		g.start(ctx, h)
		return
	}
	if h.dropping {
		g.finishDrop(ctx, h)
		return
	}
	h.state, h.bytes = protocol.SliceState_FAILED, 0
	g.tell(h, m.err.Error())
}

// start runs a resident slice's actor.
func (g *gpuActor) start(ctx actor.Context, h *holding) {
	s := h.slice
	g.rt.slices.Store(s.name(), s)
	pid, err := g.rt.spawn(s.name(), func() crashable { return newSliceActor(g.rt, s) })
	if err != nil {
		h.state = protocol.SliceState_FAILED
		g.tell(h, err.Error())
		return
	}
	ctx.Watch(pid)
	h.pid, h.state = pid, protocol.SliceState_RESIDENT
	g.tell(h, "")
}

// drop gives back what a plan holds: at once, or when its loading or its last step has ended.
func (g *gpuActor) drop(ctx actor.Context, m *protocol.Drop) {
	h := g.holdings[m.Plan]
	if h == nil {
		ctx.Respond(&protocol.Dropped{Plan: m.Plan, Device: string(g.id)})
		return
	}
	h.waiters = append(h.waiters, ctx.Sender())
	g.dropHolding(ctx, h)
}

func (g *gpuActor) dropHolding(ctx actor.Context, h *holding) {
	if h.dropping {
		return
	}
	h.dropping = true
	switch {
	case h.loading != nil:
		h.loading()
	case h.pid != nil:
		ctx.Stop(h.pid)
	default:
		g.finishDrop(ctx, h)
	}
}

// terminated follows a slice's actor to its end.
func (g *gpuActor) terminated(ctx actor.Context, who *actor.PID) {
	for _, h := range g.holdings {
		if h.pid == nil || !h.pid.Equal(who) {
			continue
		}
		h.pid = nil
		if h.dropping {
			g.finishDrop(ctx, h)
			return
		}
		h.state = protocol.SliceState_FAILED
		g.tell(h, "the slice's actor stopped after too many failures")
		return
	}
}

// finishDrop gives the memory back and tells who waits.
func (g *gpuActor) finishDrop(ctx actor.Context, h *holding) {
	g.rt.slices.Delete(h.slice.name())
	g.closed(h.slice.close())
	delete(g.holdings, h.plan)
	for _, w := range h.waiters {
		ctx.Send(w, &protocol.Dropped{Plan: h.plan, Device: string(g.id)})
	}
	g.checkClosed()
}

func (g *gpuActor) checkClosed() {
	if g.closing != nil && len(g.holdings) == 0 {
		close(g.closing)
		g.closing = nil
	}
}

func (g *gpuActor) closed(err error) {
	if err != nil {
		g.rt.log.Error("memory not given back", "device", g.id, "error", err)
	}
}

// lose gives the device up.
func (g *gpuActor) lose(ctx actor.Context, err error) {
	if g.lost != "" {
		return
	}
	g.lost = fmt.Sprintf("device %s is lost: %v", g.id, err)
	g.rt.log.Error("device lost", "device", g.id, "error", err)
	g.rt.send(g.rt.gmg, putFacts{values: []gmg.Value{g.describe()}})
	ctx.Request(g.rt.planner, &protocol.DeviceFailed{Device: string(g.id), Reason: g.lost})
}

// tell tells the planner how a slice stands.
func (g *gpuActor) tell(h *holding, reason string) {
	memory := gpuworker.SliceBytes(g.device, h.config)
	g.rt.send(h.planner, &protocol.SliceState{
		Plan: h.plan, Lane: h.slice.lane, Index: int32(h.slice.index), Device: string(g.id), State: h.state, Reason: reason,
		LoadedBytes: h.loaded, WeightBytes: memory[gmg.MemWeights], KvBytes: memory[gmg.MemKV],
	})
}

// crashed answers the planner, whose plan then fails or is tried again.
func (g *gpuActor) crashed(ctx actor.Context, reason string) {
	switch m := ctx.Message().(type) {
	case *protocol.SizeQuery:
		ctx.Respond(&protocol.SizeReply{Plan: m.Plan, Device: string(g.id), Error: reason})
	case *protocol.Reserve:
		ctx.Respond(&protocol.ReserveReply{Plan: m.Plan, Device: string(g.id), Index: m.Index, Reason: reason})
	case *protocol.Commit:
		if h := g.holdings[m.Plan]; h != nil {
			h.state = protocol.SliceState_FAILED
			g.tell(h, reason)
		}
	case deviceQuery:
		m.reply <- DeviceStatus{Device: g.device.Describe()}
	case slicesQuery:
		m.reply <- nil
	case *protocol.Drop, loadDone, closeDevice:
		ctx.Forward(ctx.Self()) // what gives memory back is tried again
	}
}
