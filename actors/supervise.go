package actors

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// An actor that panics more often than restartLimit times in restartWindow stays stopped.
const (
	restartLimit  = 5
	restartWindow = 10 * time.Second
)

// crashable is an actor that can answer whoever waits for it when handling a message panicked. After crashed it is restarted.
type crashable interface {
	actor.Actor
	crashed(ctx actor.Context, reason string)
}

// guarded logs an actor's panics with their stacks, lets it answer who waits, and leaves the rest to its supervisor.
type guarded struct {
	rt    *runtime
	name  string
	actor crashable
	core  bool // one of those without which the node can't go on
}

// Receive implements actor.Actor.
func (g *guarded) Receive(ctx actor.Context) {
	defer func() {
		if r := recover(); r != nil {
			g.rt.log.Error("actor panicked", "actor", g.name, "message", fmt.Sprintf("%T", ctx.Message()), "panic", r, "stack", string(debug.Stack()))
			g.actor.crashed(ctx, fmt.Sprintf("internal error in %s: %v", g.name, r))
			panic(r)
		}
	}()
	if g.rt.config.inject != nil {
		g.rt.config.inject(g.name, ctx.Message())
	}
	g.actor.Receive(ctx)
	if _, stopped := ctx.Message().(*actor.Stopped); stopped && g.core {
		g.rt.breakDown(g.name)
	}
}

// spawn starts a top-level actor under a name; produce makes it anew for each of its lives.
func (rt *runtime) spawn(name string, produce func() crashable) (*actor.PID, error) {
	return rt.spawnGuarded(name, false, produce)
}

// spawnCore starts an actor without which the node can't go on.
func (rt *runtime) spawnCore(name string, produce func() crashable) (*actor.PID, error) {
	return rt.spawnGuarded(name, true, produce)
}

func (rt *runtime) spawnGuarded(name string, core bool, produce func() crashable) (*actor.PID, error) {
	props := actor.PropsFromProducer(
		func() actor.Actor { return &guarded{rt, name, produce(), core} },
		actor.WithGuardian(rt.supervisor), actor.WithSupervisor(rt.supervisor),
	)
	pid, err := rt.system.Root.SpawnNamed(props, name)
	if err != nil {
		return nil, fmt.Errorf("start actor %s: %w", name, err)
	}
	return pid, nil
}

// breakDown notes that one of the node's own actors has stopped for good.
func (rt *runtime) breakDown(name string) {
	if rt.brokenBy.CompareAndSwap(nil, &name) {
		close(rt.broken)
	}
}

func newSupervisor() actor.SupervisorStrategy {
	return actor.NewOneForOneStrategy(restartLimit, restartWindow, func(any) actor.Directive { return actor.RestartDirective })
}
