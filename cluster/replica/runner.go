package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"slicescheduler/gmg"
)

// ErrClosed is a runner that was closed.
var ErrClosed = errors.New("replication has ended")

// Transport carries messages to other nodes' Deliver, each at most once or not at all; it does not block and keeps the bytes.
type Transport interface {
	Send(to gmg.NodeID, message []byte)
}

// RunnerConfig is what a runner works with. Its functions are called from the runner's goroutine and must not call the runner.
type RunnerConfig struct {
	Store     *gmg.Store // belongs to the runner from now on
	Seed      uint64
	Transport Transport
	Persist   func([]gmg.Fact) error         // keeps shared facts on disk; nil: they are kept in memory only
	OnChange  func(*gmg.Snapshot, []gmg.Key) // nil: none
	Logger    *slog.Logger                   // nil: none
}

// Runner runs a Replica in a goroutine of its own. Its methods may be called from any goroutine.
type Runner struct {
	config   RunnerConfig
	replica  *Replica
	calls    chan func(nowNs int64)
	snapshot atomic.Pointer[gmg.Snapshot]
	start    time.Time
	ended    chan struct{}
	done     chan struct{}
	once     sync.Once
	waiting  []waiter // of the runner's goroutine
}

// waiter waits until all members keep this node's facts up to a sequence number.
type waiter struct {
	seq  uint64
	kept chan struct{}
}

// Run starts a runner.
func Run(c RunnerConfig) *Runner {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Runner{config: c, calls: make(chan func(int64), 64), start: time.Now(), ended: make(chan struct{}), done: make(chan struct{})}
	r.replica = New(c.Store, c.Seed, 0)
	r.snapshot.Store(c.Store.Snapshot())
	go r.loop()
	return r
}

// Close ends the runner and waits for it.
func (r *Runner) Close() {
	r.once.Do(func() { close(r.ended) })
	<-r.done
}

// nowNs counts from the start on a clock that is never set.
func (r *Runner) nowNs() int64 { return int64(time.Since(r.start)) }

func (r *Runner) loop() {
	defer close(r.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-r.ended:
			return
		case call := <-r.calls:
			call(r.nowNs())
		case <-timer.C:
			r.publish(r.replica.Tick(r.nowNs()))
		}
		r.sendAll()
		r.wakeWaiters()
		timer.Reset(time.Duration(max(0, r.replica.WakeNs()-r.nowNs())))
	}
}

// do runs a function in the runner's goroutine, or not at all once the runner is closed.
func (r *Runner) do(f func(nowNs int64)) {
	select {
	case r.calls <- f:
	case <-r.ended:
	}
}

// publish makes the present facts visible.
func (r *Runner) publish(changed []gmg.Key) {
	s := r.replica.Snapshot()
	if r.snapshot.Swap(s) != s && r.config.OnChange != nil && len(changed) > 0 {
		r.config.OnChange(s, changed)
	}
}

func (r *Runner) sendAll() {
	for _, e := range r.replica.Take() {
		pieces, err := e.Message.Encode()
		if err != nil {
			r.config.Logger.Error("facts can't be sent", "peer", e.To, "error", err)
			continue
		}
		for _, p := range pieces {
			r.config.Transport.Send(e.To, p)
		}
	}
}

// Update changes this node's own facts. It returns f's error.
func (r *Runner) Update(f func(*gmg.Store) error) error {
	failed := make(chan error, 1)
	r.do(func(nowNs int64) {
		err := f(r.config.Store)
		r.replica.Wrote(nowNs)
		r.publish(nil)
		failed <- err
	})
	select {
	case err := <-failed:
		return err
	case <-r.done:
		return ErrClosed
	}
}

// Kept blocks until every node that is a member keeps what this node has written so far, on disk where it is shared.
func (r *Runner) Kept(ctx context.Context) error {
	w := waiter{kept: make(chan struct{})}
	r.do(func(nowNs int64) {
		w.seq = r.replica.Confirm(nowNs)
		r.waiting = append(r.waiting, w)
	})
	select {
	case <-w.kept:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-r.done:
		return ErrClosed
	}
}

func (r *Runner) wakeWaiters() {
	r.waiting = slices.DeleteFunc(r.waiting, func(w waiter) bool {
		kept := r.replica.Confirmed(w.seq)
		if kept {
			close(w.kept)
		}
		return kept
	})
}

// Deliver takes in a message from another node. Bytes that are no message are an error and change nothing.
func (r *Runner) Deliver(from gmg.NodeID, message []byte) error {
	m, err := Decode(message)
	if err != nil {
		return fmt.Errorf("message from %s: %w", from, err)
	}
	r.do(func(nowNs int64) { r.receive(from, m, nowNs) })
	return nil
}

// receive persists what must be before anything that follows from it is sent. What the disk doesn't take is told nobody as kept: the runner ends.
func (r *Runner) receive(from gmg.NodeID, m Message, nowNs int64) {
	effects, err := r.replica.Receive(from, m, nowNs)
	if err != nil {
		r.config.Logger.Warn("message refused", "peer", from, "error", err)
		return
	}
	if len(effects.Shared) > 0 && r.config.Persist != nil {
		if err := r.config.Persist(effects.Shared); err != nil {
			r.config.Logger.Error("shared facts can't be written, replication ends", "error", err)
			r.replica.Take()
			r.once.Do(func() { close(r.ended) })
			return
		}
	}
	r.publish(effects.Changed)
}

// Members says who else is alive.
func (r *Runner) Members(alive []gmg.NodeID) {
	r.do(func(nowNs int64) { r.replica.Members(alive, nowNs) })
}

// Gone says that a node has left for good.
func (r *Runner) Gone(node gmg.NodeID, incarnation uint64) {
	r.do(func(nowNs int64) { r.publish(r.replica.Gone(node, incarnation, nowNs)) })
}

// Snapshot returns the newest facts.
func (r *Runner) Snapshot() *gmg.Snapshot { return r.snapshot.Load() }

// Digest implements cluster.Digests.
func (r *Runner) Digest() []byte { return DigestOf(r.config.Store.Owner(), r.Snapshot()) }

// Compare implements cluster.Digests. It never blocks: where much is going on already, the next digest does as well.
func (r *Runner) Compare(digest []byte) {
	select {
	case r.calls <- func(int64) { r.replica.Compare(digest) }:
	default:
	}
}
