package faulty

import (
	"context"
	"fmt"
	"sync"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
)

// Sleep blocks for a time or until ctx is done; it is the clock of slow calls.
type Sleep func(ctx context.Context, ns int64)

// Device wraps a device. Buffers and programs are the inner device's own.
type Device struct {
	gpuworker.Device
	plan  Plan
	sleep Sleep

	alive context.Context
	end   context.CancelCauseFunc
	calls sync.WaitGroup // goroutines of pending events

	mu    sync.Mutex
	count [NumCalls]int
	log   []string
}

var _ gpuworker.Device = (*Device)(nil)

// Wrap makes a device behave by a plan. It owns the inner device: closing it closes that. sleep may be nil when the plan has no slow calls.
func Wrap(inner gpuworker.Device, plan Plan, sleep Sleep) *Device {
	d := &Device{Device: inner, plan: plan, sleep: sleep}
	d.alive, d.end = context.WithCancelCause(context.Background())
	return d
}

// Log returns one line for each call so far: what, its number, what was done to it.
func (d *Device) Log() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.log...)
}

// Calls returns how often a kind of call was made.
func (d *Device) Calls(c Call) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count[c]
}

// MakeUnhealthy completes all pending events with ErrUnhealthy, and those of later calls too.
func (d *Device) MakeUnhealthy(reason error) {
	d.end(fmt.Errorf("%s: %w: %w", d.Device.Describe().ID, gpuworker.ErrUnhealthy, reason))
}

// decide counts and logs a call and says what happens to it.
func (d *Device) decide(c Call, what string) (Action, error) {
	d.mu.Lock()
	d.count[c]++
	n := d.count[c]
	a := d.plan.Decide(c, n)
	d.log = append(d.log, fmt.Sprintf("%v %d %s %s", c, n, what, [...]string{"ok", "fail", "slow", "hang", "sick"}[a.Kind]))
	d.mu.Unlock()
	if a.Err == nil {
		a.Err = fmt.Errorf("%v %d of %s: %w", c, n, d.Device.Describe().ID, ErrInjected)
	}
	if a.Kind == Sick {
		d.MakeUnhealthy(a.Err)
	}
	return a, context.Cause(d.alive)
}

// Describe implements gpuworker.Device.
func (d *Device) Describe() gmg.Device {
	desc := d.Device.Describe()
	if err := context.Cause(d.alive); err != nil {
		desc.Healthy, desc.Reason = false, err.Error()
	}
	return desc
}

// blocking applies an action to a call that answers directly.
func (d *Device) blocking(ctx context.Context, c Call, what string) error {
	a, err := d.decide(c, what)
	if err != nil {
		return err
	}
	switch a.Kind {
	case Fail:
		return a.Err
	case Slow:
		d.sleep(ctx, a.DelayNs)
	case Hang:
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.alive.Done():
			return context.Cause(d.alive)
		}
	}
	return nil
}

// Reserve implements gpuworker.Device. It never hangs, since it must not block: a hang fails.
func (d *Device) Reserve(class gmg.MemoryClass, bytes int64) (gpuworker.Buffer, error) {
	a, err := d.decide(Reserve, fmt.Sprintf("%v %d", class, bytes))
	if err != nil {
		return nil, err
	}
	if a.Kind == Fail || a.Kind == Hang {
		return nil, a.Err
	}
	return d.Device.Reserve(class, bytes)
}

// LoadWeight implements gpuworker.Device.
func (d *Device) LoadWeight(ctx context.Context, w gmg.Weight, host []byte) (gpuworker.Buffer, error) {
	if err := d.blocking(ctx, LoadWeight, w.Name); err != nil {
		return nil, err
	}
	return d.Device.LoadWeight(ctx, w, host)
}

// Compile implements gpuworker.Device.
func (d *Device) Compile(spec gpuworker.ProgramSpec) (gpuworker.Program, error) {
	what := fmt.Sprintf("[%d,%d)", spec.Stages.From, spec.Stages.To)
	if err := d.blocking(d.alive, Compile, what); err != nil {
		return nil, err
	}
	return d.Device.Compile(spec)
}

// Upload implements gpuworker.Device.
func (d *Device) Upload(q gpuworker.Queue, dst gpuworker.Buffer, offset int64, src []byte) gpuworker.Event {
	return d.event(Upload, fmt.Sprintf("queue %d %d", q, len(src)), func() gpuworker.Event { return d.Device.Upload(q, dst, offset, src) })
}

// Download implements gpuworker.Device.
func (d *Device) Download(q gpuworker.Queue, dst []byte, src gpuworker.Buffer, offset int64) gpuworker.Event {
	return d.event(Download, fmt.Sprintf("queue %d %d", q, len(dst)), func() gpuworker.Event { return d.Device.Download(q, dst, src, offset) })
}

// CopyPeer implements gpuworker.Device.
func (d *Device) CopyPeer(q gpuworker.Queue, dst gpuworker.Device, dstBuf gpuworker.Buffer, dstOffset int64, src gpuworker.Buffer, srcOffset, bytes int64) gpuworker.Event {
	return d.event(CopyPeer, fmt.Sprintf("queue %d %d", q, bytes), func() gpuworker.Event {
		return d.Device.CopyPeer(q, dst, dstBuf, dstOffset, src, srcOffset, bytes)
	})
}

// Enqueue implements gpuworker.Device.
func (d *Device) Enqueue(q gpuworker.Queue, p gpuworker.Program, b *gpuworker.Batch) gpuworker.Event {
	return d.event(Enqueue, fmt.Sprintf("queue %d rows %d", q, b.Rows()), func() gpuworker.Event { return d.Device.Enqueue(q, p, b) })
}

// event applies an action to a call that answers by an event.
func (d *Device) event(c Call, what string, call func() gpuworker.Event) gpuworker.Event {
	a, err := d.decide(c, what)
	if err != nil {
		return gpuworker.CompletedEvent(err)
	}
	if a.Kind == Fail {
		return gpuworker.CompletedEvent(a.Err)
	}
	done := gpuworker.NewCompletion()
	inner := gpuworker.Event(nil)
	if a.Kind != Hang {
		inner = call() // now, so that the order in the queue is the caller's
	}
	d.calls.Go(func() { d.follow(done, inner, a) })
	return done
}

func (d *Device) follow(done *gpuworker.Completion, inner gpuworker.Event, a Action) {
	if inner == nil {
		<-d.alive.Done()
		done.Complete(context.Cause(d.alive), 0)
		return
	}
	select {
	case <-inner.Done():
	case <-d.alive.Done():
		<-inner.Done() // the memory is in use until then
		done.Complete(context.Cause(d.alive), inner.BusyNs())
		return
	}
	if a.Kind == Slow {
		d.sleep(d.alive, a.DelayNs)
	}
	done.Complete(inner.Err(), inner.BusyNs())
}

// Close implements gpuworker.Device. Pending events, hung ones too, complete with ErrDeviceClosed.
func (d *Device) Close() error {
	d.end(fmt.Errorf("%s: %w", d.Device.Describe().ID, gpuworker.ErrDeviceClosed))
	err := d.Device.Close()
	d.calls.Wait()
	return err
}
