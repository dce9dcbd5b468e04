package actors

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"slicescheduler/actors/protocol"
	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
)

// sliceName names the actor of a slice of one epoch of a lane.
func sliceName(lane string, epoch uint64, index int) string {
	return fmt.Sprintf("%s%s@%d/%d", slicePrefix, lane, epoch, index)
}

// loadedSlice is a slice that is resident on a device of this node, with its counters.
type loadedSlice struct {
	lane   string
	epoch  uint64
	index  int
	count  int // slices of the lane
	tenant *tenantEntry
	device *deviceCounters
	gpu    *actor.PID
	steps  atomic.Int64
	busyNs atomic.Int64

	// runner is closed after the slices before are gone, so none of them copies into it any more.
	runner *gpuworker.SliceRunner
	stuck  atomic.Bool // a step never ended: the device may still use the memory
}

func (s *loadedSlice) name() string { return sliceName(s.lane, s.epoch, s.index) }
func (s *loadedSlice) last() bool   { return s.index == s.count-1 }

// close gives the slice's memory back. What a hung device may still use stays held until the device is closed.
func (s *loadedSlice) close() error {
	if s.stuck.Load() {
		return fmt.Errorf("%s hangs on its device: %w", s.name(), errHung)
	}
	if s.runner == nil {
		return nil
	}
	err := s.runner.Close()
	s.runner = nil
	return err
}

// deviceCounters add up what a device did. Any goroutine may add.
type deviceCounters struct {
	busyNs  atomic.Int64
	pending atomic.Int32 // steps handed to the device
	running atomic.Pointer[tenantEntry]
}

// sliceActor runs the steps of its slice, one at a time and in order: the device runs the operators while the actor waits, and steps of other slices queue
// behind on the device. The last slice of a lane samples.
type sliceActor struct {
	rt         *runtime
	slice      *loadedSlice
	next       *loadedSlice
	nextPID    *actor.PID
	tenantPID  *actor.PID
	generation uint64
	samplers   map[uint64]sequenceSampler
	batch      gpuworker.Batch
	timer      *time.Timer // of wait
	sampled    []uint64    // sequences whose rows ask for logits, in order
}

func newSliceActor(rt *runtime, s *loadedSlice) *sliceActor {
	return &sliceActor{rt: rt, slice: s, samplers: make(map[uint64]sequenceSampler)}
}

// Receive implements actor.Actor.
func (a *sliceActor) Receive(ctx actor.Context) {
	m, ok := ctx.Message().(*protocol.RunStep)
	if !ok {
		return
	}
	if err := a.run(ctx, m); err != nil {
		a.fail(ctx, m, err)
	}
}

// run takes a step through this slice and on to the next, or back to the tenant.
func (a *sliceActor) run(ctx actor.Context, m *protocol.RunStep) error {
	start := time.Now()
	if m.Epoch != a.slice.epoch {
		return fmt.Errorf("step of epoch %d came to %s", m.Epoch, a.slice.name())
	}
	if m.Generation != a.generation {
		a.generation = m.Generation
		clear(a.samplers)
	}
	if err := a.openAndClose(m); err != nil {
		return err
	}
	a.fill(m)
	busyNs, waitNs, err := a.compute(int(m.Slot))
	if err != nil {
		return err
	}
	m.BusyNs += busyNs
	if !a.slice.last() {
		if err := a.passOn(ctx, m); err != nil {
			return err
		}
		m.HostNs += time.Since(start).Nanoseconds() - waitNs
		ctx.Send(a.nextPID, m)
		return nil
	}
	done := &protocol.StepDone{Lane: m.Lane, Epoch: m.Epoch, Generation: m.Generation, Step: m.Step, BusyNs: m.BusyNs}
	sampling := time.Now()
	if done.Tokens, err = a.sample(m); err != nil {
		return err
	}
	done.SampleNs = time.Since(sampling).Nanoseconds()
	done.HostNs = m.HostNs + time.Since(start).Nanoseconds() - waitNs - done.SampleNs
	ctx.Send(a.tenant(m), done)
	return nil
}

// compute runs the filled batch on the device. waitNs is the time from handing it over until it was done, other slices' work included.
func (a *sliceActor) compute(slot int) (busyNs, waitNs int64, err error) {
	d := a.slice.device
	d.pending.Add(1)
	d.running.Store(a.slice.tenant)
	handed := time.Now()
	e := a.slice.runner.Run(gpuworker.QueueHome, slot, &a.batch)
	err = a.wait(e)
	waitNs = time.Since(handed).Nanoseconds()
	if d.pending.Add(-1) == 0 {
		d.running.Store(nil)
	}
	if err == nil {
		busyNs = e.BusyNs()
		d.busyNs.Add(busyNs)
		a.slice.busyNs.Add(busyNs)
		a.slice.steps.Add(1)
	}
	return busyNs, waitNs, err
}

// wait blocks until a piece of work is done. A device that takes longer than any step can is given up: nothing else would end the requests on it.
func (a *sliceActor) wait(e gpuworker.Event) error {
	if a.slice.stuck.Load() {
		return errHung
	}
	limit := a.rt.config.Limits.StepTimeout
	if a.timer == nil {
		a.timer = time.NewTimer(limit)
	} else {
		a.timer.Reset(limit)
	}
	defer a.timer.Stop()
	select {
	case <-e.Done():
		return e.Err()
	case <-a.timer.C:
		a.slice.stuck.Store(true)
		return fmt.Errorf("%w: no answer within %v", errHung, limit)
	}
}

// errHung is a device that took a step and never ended it.
var errHung = fmt.Errorf("%w: it hangs", gpuworker.ErrUnhealthy)

// fill makes the device's batch of a step's items.
func (a *sliceActor) fill(m *protocol.RunStep) {
	b := &a.batch
	b.Tokens, b.Sequences, b.LogitRows, a.sampled = b.Tokens[:0], b.Sequences[:0], b.LogitRows[:0], a.sampled[:0]
	for _, it := range m.Items {
		b.Sequences = append(b.Sequences, gpuworker.Span{First: len(b.Tokens), Rows: len(it.Tokens), Start: int(it.Start), Blocks: it.Blocks})
		b.Tokens = append(b.Tokens, it.Tokens...)
		if it.Sample && a.slice.last() {
			b.LogitRows = append(b.LogitRows, int32(len(b.Tokens)-1))
			a.sampled = append(a.sampled, it.Seq)
		}
	}
}

// passOn moves the hidden rows to the next slice.
func (a *sliceActor) passOn(ctx actor.Context, m *protocol.RunStep) error {
	if a.next == nil {
		name := sliceName(m.Lane, m.Epoch, a.slice.index+1)
		next, ok := a.rt.slices.Load(name)
		if !ok {
			return fmt.Errorf("%s is not here", name)
		}
		a.next, a.nextPID = next.(*loadedSlice), a.rt.pid(name)
	}
	return a.wait(a.slice.runner.PassTo(gpuworker.QueueHome, int(m.Slot), a.next.runner, int(m.Rows)))
}

func (a *sliceActor) tenant(m *protocol.RunStep) *actor.PID {
	if a.tenantPID == nil || a.tenantPID.Address != m.ReplyAddress {
		a.tenantPID = actor.NewPID(m.ReplyAddress, tenantPrefix+string(a.slice.tenant.spec.ID))
	}
	return a.tenantPID
}

// fail tells the tenant that a step came to nothing, and the GPU actor when its device is to blame.
func (a *sliceActor) fail(ctx actor.Context, m *protocol.RunStep, err error) {
	lost := errors.Is(err, gpuworker.ErrUnhealthy) || errors.Is(err, gpuworker.ErrDeviceClosed)
	if lost {
		ctx.Send(a.slice.gpu, deviceLost{err})
	}
	ctx.Send(a.tenant(m), &protocol.StepDone{
		Lane: m.Lane, Epoch: m.Epoch, Generation: m.Generation, Step: m.Step, DeviceLost: lost,
		Error: fmt.Sprintf("slice %d on device %s: %v", a.slice.index, a.deviceID(), err),
	})
}

func (a *sliceActor) deviceID() gmg.DeviceID { return a.slice.runner.Device().Describe().ID }

// crashed fails the step at hand. The next life knows no sequences, nor does it need to: after a failed step the tenant starts over.
func (a *sliceActor) crashed(ctx actor.Context, reason string) {
	if m, ok := ctx.Message().(*protocol.RunStep); ok {
		a.fail(ctx, m, &internalError{reason})
	}
}
