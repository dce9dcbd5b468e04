package actors

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"slicescheduler/gmg"
)

// Names of a node's actors. Those of tenants, devices and slices carry an identifier.
const (
	gatewayName  = "gateway"
	gmgName      = "gmg"
	plannerName  = "planner"
	tenantPrefix = "tenant/"
	gpuPrefix    = "gpu/"
	slicePrefix  = "slice/"
)

// runtime is what all actors of a node share. Its fields don't change after the start, but for what they point to.
type runtime struct {
	config     NodeConfig
	log        *slog.Logger
	system     *actor.ActorSystem
	supervisor actor.SupervisorStrategy
	gateway    *actor.PID
	gmg        *actor.PID
	planner    *actor.PID
	gpus       []*actor.PID
	tenants    *directory
	metrics    *metrics
	slices     sync.Map                     // *loadedSlice by name of its actor
	snapshot   atomic.Pointer[gmg.Snapshot] // the newest
	generation atomic.Uint64                // of tenants' schedulers, so that an old one's steps are recognised
	sequence   atomic.Uint64                // of requests
	background sync.WaitGroup               // goroutines that are no actors
	life       context.Context              // ends with the node
	closing    atomic.Bool                  // no new requests
	broken     chan struct{}                // closed when one of the node's own actors has stopped for good
	brokenBy   atomic.Pointer[string]       // its name
}

func (rt *runtime) nowNs() int64 { return time.Now().UnixNano() }

// pid returns the address of an actor of this node.
func (rt *runtime) pid(name string) *actor.PID { return rt.system.NewLocalPID(name) }

func (rt *runtime) send(to *actor.PID, message any) { rt.system.Root.Send(to, message) }

// goroutine runs f beside the actors; the node's Close waits for it.
func (rt *runtime) goroutine(f func()) { rt.background.Go(f) }

// ask sends a local query that carries its reply channel and waits for the answer.
func ask[T any](ctx context.Context, rt *runtime, to *actor.PID, query func(chan<- T) any) (answer T, err error) {
	reply := make(chan T, 1)
	rt.send(to, query(reply))
	select {
	case answer = <-reply:
		return answer, nil
	case <-ctx.Done():
		return answer, ctx.Err()
	case <-rt.broken:
		return answer, rt.brokenError()
	}
}

func (rt *runtime) brokenError() error {
	if name := rt.brokenBy.Load(); name != nil {
		return fmt.Errorf("%w: %s has stopped", ErrShutdown, *name)
	}
	return ErrShutdown
}

// await blocks until done is closed, or nobody is left to close it.
func (rt *runtime) await(done <-chan struct{}) {
	select {
	case <-done:
	case <-rt.broken:
	}
}

// tick asks an actor to publish its state.
type tick struct{ nowNs int64 }

// ticker sends ticks to the actors that publish state until the node's life ends.
func (rt *runtime) ticker(to func() []*actor.PID) {
	t := time.NewTicker(rt.config.Limits.PublishInterval)
	defer t.Stop()
	for {
		select {
		case now := <-t.C:
			for _, pid := range to() {
				rt.send(pid, tick{now.UnixNano()})
			}
		case <-rt.life.Done():
			return
		}
	}
}
