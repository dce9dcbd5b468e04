package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// busySpins is how often a waiting core looks before it parks: about 50 us, longer than the leader needs between two operators of a step, so that within
// a step nobody parks, and short enough that an idle device costs nothing.
const busySpins = 50_000

// call is one operator's work of a step. It runs on all of a device's cores at once, each doing the share that its index says; no share reads what another
// one writes.
type call interface {
	run(s *stepState, core, cores int)
}

// pool runs calls on several cores: the goroutine that owns the device leads, the others follow. A pool of one core has no others, and a call is a call.
type pool struct {
	cores int
	spins int // before parking

	// Written by the leader before round rises, read by the followers after.
	call call
	step *stepState
	done bool

	round atomic.Uint64 // calls begun
	left  atomic.Int32  // followers that have not ended the call

	mu     sync.Mutex
	wake   sync.Cond
	parked atomic.Int32

	followers sync.WaitGroup
}

// newPool starts the followers. around wraps each of their goroutines.
func newPool(cores int, around func(run func())) *pool {
	p := &pool{cores: cores, spins: busySpins}
	if cores > runtime.GOMAXPROCS(0) {
		p.spins = 1 // a core that spins would keep another from running
	}
	p.wake.L = &p.mu
	for core := 1; core < cores; core++ {
		p.followers.Go(func() { around(func() { p.follow(core) }) })
	}
	return p
}

// run runs a call on all cores and returns when every share is done.
func (p *pool) run(c call, s *stepState) {
	if p.cores == 1 {
		c.run(s, 0, 1)
		return
	}
	p.call, p.step = c, s
	p.left.Store(int32(p.cores - 1))
	p.begin()
	c.run(s, 0, p.cores)
	p.await(func() bool { return p.left.Load() == 0 })
}

func (p *pool) begin() {
	p.round.Add(1)
	p.unpark()
}

// unpark wakes whoever parked. A core counts itself as parked before it looks a last time, so either it sees what changed or it is seen here.
func (p *pool) unpark() {
	if p.parked.Load() > 0 {
		p.mu.Lock()
		p.wake.Broadcast()
		p.mu.Unlock()
	}
}

// await spins until ready, then parks.
func (p *pool) await(ready func() bool) {
	for range p.spins {
		if ready() {
			return
		}
	}
	p.mu.Lock()
	p.parked.Add(1)
	for !ready() {
		p.wake.Wait()
	}
	p.parked.Add(-1)
	p.mu.Unlock()
}

func (p *pool) follow(core int) {
	for round := uint64(1); ; round++ {
		p.await(func() bool { return p.round.Load() >= round })
		if p.done {
			return
		}
		p.call.run(p.step, core, p.cores)
		if p.left.Add(-1) == 0 {
			p.unpark()
		}
	}
}

// close ends the followers. Only the leader, or who knows that there is none any more, may call it.
func (p *pool) close() {
	p.done = true
	p.begin()
	p.followers.Wait()
}

// share returns the part [from, to) of n units, in multiples of step, that a core has.
func share(n, step, core, cores int) (from, to int) {
	pieces := (n + step - 1) / step
	from, to = pieces*core/cores*step, pieces*(core+1)/cores*step
	return min(from, n), min(to, n)
}
