// Package dispatch runs a device's queues: home and borrowed work on one goroutine, home first, and copies on another beside it. Backends say what a task
// does; order, priority, completion, failure and closing are the same for all of them.
package dispatch

import (
	"fmt"
	"sync"
	"sync/atomic"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
)

// Task is one piece of work. Run calls Boundary between operators and stops with its error.
type Task interface {
	Run(b *Boundary) error
	// Shares says whether the task and another one write the same memory, so that neither may run in the middle of the other.
	Shares(other Task) bool
}

// Func is a Task without boundaries.
type Func func() error

// Run implements Task.
func (f Func) Run(*Boundary) error { return f() }

// Shares implements Task: what has no boundaries is never interrupted.
func (f Func) Shares(Task) bool { return false }

// item is a task in a queue.
type item struct {
	task Task
	done *gpuworker.Completion
}

// Dispatcher owns a device's queues and goroutines.
type Dispatcher struct {
	device gmg.DeviceID
	nowNs  func() int64

	mu     sync.Mutex
	wake   [2]*sync.Cond // compute, copy
	queues [gpuworker.NumQueues]fifo
	ended  error // why no more work is taken: closed or unhealthy

	home    atomic.Int32 // tasks in the home queue, read at boundaries without the lock
	stopped atomic.Bool  // ended is set
	busyNs  atomic.Int64
	workers sync.WaitGroup
}

// The goroutines of a dispatcher.
const (
	compute = iota
	copying
)

// New starts a dispatcher. nowNs is the clock by which busy time is measured. around, which may be nil, wraps the goroutine that runs home and
// borrowed work, so that a backend can prepare its thread.
func New(device gmg.DeviceID, nowNs func() int64, around func(run func())) *Dispatcher {
	d := &Dispatcher{device: device, nowNs: nowNs}
	d.wake[compute], d.wake[copying] = sync.NewCond(&d.mu), sync.NewCond(&d.mu)
	if around == nil {
		around = func(run func()) { run() }
	}
	d.workers.Go(func() { around(func() { d.loop(compute) }) })
	d.workers.Go(func() { d.loop(copying) })
	return d
}

// Submit appends a task to a queue.
func (d *Dispatcher) Submit(q gpuworker.Queue, t Task) gpuworker.Event {
	done := gpuworker.NewCompletion()
	if q >= gpuworker.NumQueues {
		done.Complete(fmt.Errorf("queue %d of %s: %w", q, d.device, gpuworker.ErrNotSupported), 0)
		return done
	}
	d.mu.Lock()
	if err := d.ended; err != nil {
		d.mu.Unlock()
		done.Complete(err, 0)
		return done
	}
	d.queues[q].push(item{t, done})
	if q == gpuworker.QueueHome {
		d.home.Add(1)
	}
	worker := compute
	if q == gpuworker.QueueCopy {
		worker = copying
	}
	d.wake[worker].Signal()
	d.mu.Unlock()
	return done
}

// next takes the first task of the highest queue that has one. The lock is held.
func (d *Dispatcher) next(worker int) (item, gpuworker.Queue, bool) {
	order := [...]gpuworker.Queue{gpuworker.QueueHome, gpuworker.QueueBorrowed}
	queues := order[:]
	if worker == copying {
		queues = []gpuworker.Queue{gpuworker.QueueCopy}
	}
	for _, q := range queues {
		if it, ok := d.queues[q].pop(); ok {
			if q == gpuworker.QueueHome {
				d.home.Add(-1)
			}
			return it, q, true
		}
	}
	return item{}, 0, false
}

func (d *Dispatcher) loop(worker int) {
	b := Boundary{dispatcher: d}
	for {
		d.mu.Lock()
		it, q, ok := d.next(worker)
		for !ok && d.ended == nil {
			d.wake[worker].Wait()
			it, q, ok = d.next(worker)
		}
		d.mu.Unlock()
		if !ok {
			return
		}
		d.run(&b, it, q)
	}
}

// run runs a task and completes it. What a device that has ended still finishes is reported as ended, for its memory is no longer the caller's.
func (d *Dispatcher) run(b *Boundary, it item, q gpuworker.Queue) (spentNs int64) {
	outer := *b
	b.task, b.queue, b.otherNs = it.task, q, 0
	start := d.nowNs()
	err := it.task.Run(b)
	spentNs = d.nowNs() - start
	busy := spentNs - b.otherNs
	*b = outer
	d.busyNs.Add(busy)
	if err == nil && d.stopped.Load() {
		err = d.Err()
	}
	it.done.Complete(err, busy)
	return spentNs
}

// Err says why the dispatcher takes no more work, nil while it does.
func (d *Dispatcher) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ended
}

// BusyNs is the time spent in tasks since the start.
func (d *Dispatcher) BusyNs() int64 { return d.busyNs.Load() }

// Fail ends the dispatcher: all pending tasks complete with err, which wraps ErrUnhealthy, and new ones at once. The task that runs stops at its next
// boundary. Only the first reason counts.
func (d *Dispatcher) Fail(reason error) {
	d.end(fmt.Errorf("%s: %w: %w", d.device, gpuworker.ErrUnhealthy, reason))
}

func (d *Dispatcher) end(err error) {
	d.mu.Lock()
	if d.ended == nil {
		d.ended = err
		d.stopped.Store(true)
	}
	err = d.ended
	var pending []item
	for q := range d.queues {
		for it, ok := d.queues[q].pop(); ok; it, ok = d.queues[q].pop() {
			pending = append(pending, it)
		}
	}
	d.home.Store(0)
	d.wake[compute].Broadcast()
	d.wake[copying].Broadcast()
	d.mu.Unlock()
	for _, it := range pending {
		it.done.Complete(err, 0)
	}
}

// Close completes all pending tasks with ErrDeviceClosed and returns when nothing runs any more. It must not be called from a task.
func (d *Dispatcher) Close() {
	d.end(fmt.Errorf("%s: %w", d.device, gpuworker.ErrDeviceClosed))
	d.workers.Wait()
}

// Boundary is what a task sees of its dispatcher between two operators.
type Boundary struct {
	dispatcher *Dispatcher
	task       Task
	queue      gpuworker.Queue
	otherNs    int64 // spent on tasks that came between
}

// Pass is called between operators. It runs home tasks that came while a borrowed one runs, and returns an error when the device has ended, upon which
// the task must stop. When nothing is to be done it costs two atomic loads.
func (b *Boundary) Pass() error {
	d := b.dispatcher
	if b.queue == gpuworker.QueueBorrowed && d.home.Load() > 0 {
		d.runHome(b)
	}
	if d.stopped.Load() {
		return d.Err()
	}
	return nil
}

// Queue says which queue the task came by.
func (b *Boundary) Queue() gpuworker.Queue { return b.queue }

// runHome runs the home tasks that don't share memory with the interrupted one, in order, up to the first that does.
func (d *Dispatcher) runHome(b *Boundary) {
	for {
		d.mu.Lock()
		first, ok := d.queues[gpuworker.QueueHome].peek()
		if !ok || first.task.Shares(b.task) || b.task.Shares(first.task) {
			d.mu.Unlock()
			return
		}
		d.queues[gpuworker.QueueHome].pop()
		d.home.Add(-1)
		d.mu.Unlock()
		spentNs := d.run(b, first, gpuworker.QueueHome)
		b.otherNs += spentNs
	}
}
