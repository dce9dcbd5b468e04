package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"slicescheduler/actors/specstore"
	"slicescheduler/gmg"
)

// deadLetterPeriod is how long the actor system counts letters to actors that are gone before it logs their number. It does so in a goroutine that
// can't be stopped, so Close waits for it.
const deadLetterPeriod = time.Millisecond

// Node is a running node: its devices, tenants and the actors that serve them. It implements API.
type Node struct {
	rt          *runtime
	store       specstore.Store
	keys        *keyIndex
	incarnation uint64
	startUnixNs int64
	end         context.CancelFunc
	admin       chan struct{} // holds one item while tenants or keys are being changed
	closed      chan struct{} // when Close has done its work
}

var _ API = (*Node)(nil)

// StartNode starts a node with the tenants that its data directory holds. It returns once requests are taken; tenants load in the background. ctx bounds the
// start only.
func StartNode(ctx context.Context, c NodeConfig) (*Node, error) {
	c.Limits = c.Limits.withDefaults()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	store, err := openStore(c.DataDir)
	if err != nil {
		return nil, fmt.Errorf("start node %s: %w", c.Name, err)
	}
	now := time.Now().UnixNano()
	n := &Node{store: store, keys: newKeyIndex(), admin: make(chan struct{}, 1), incarnation: uint64(now), startUnixNs: now, closed: make(chan struct{})}
	n.rt = newRuntime(c)
	n.rt.life, n.end = context.WithCancel(context.Background())
	if err := n.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start node %s: %w", c.Name, err), n.Close(ctx))
	}
	return n, nil
}

// change begins a change of tenants or keys, one at a time; done ends it.
func (n *Node) change(ctx context.Context) (done func(), err error) {
	select {
	case n.admin <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if n.rt.closing.Load() {
		<-n.admin
		return nil, ErrShutdown
	}
	return func() { <-n.admin }, nil
}

func openStore(dir string) (specstore.Store, error) {
	if dir == "" {
		return specstore.OpenMemory(), nil
	}
	return specstore.Open(dir)
}

func newRuntime(c NodeConfig) *runtime {
	logger := c.Logger.With("node", c.Name)
	return &runtime{
		config: c, log: logger, supervisor: newSupervisor(), tenants: newDirectory(), metrics: newMetrics(),
		broken: make(chan struct{}),
		system: actor.NewActorSystem(
			actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quietLogger(logger) }),
			actor.WithDeadLetterThrottleInterval(deadLetterPeriod),
			actor.WithDeadLetterRequestLogging(false),
		),
	}
}

// start brings up the actors, from the GMG down to the tenants.
func (n *Node) start() error {
	facts, err := n.store.Load()
	if err != nil {
		return err
	}
	store := gmg.NewStore(n.rt.config.Name, n.incarnation)
	if err := store.Restore(facts); err != nil {
		return err
	}
	if err := n.describe(store); err != nil {
		return err
	}
	rt := n.rt
	rt.snapshot.Store(store.Snapshot())
	graph := &gmgActor{rt: rt, store: store}
	if rt.gmg, err = rt.spawnCore(gmgName, func() crashable { return graph }); err != nil {
		return err
	}
	gateway := &gatewayActor{rt: rt, requests: make(map[uint64]*request)}
	if rt.gateway, err = rt.spawnCore(gatewayName, func() crashable { return gateway }); err != nil {
		return err
	}
	rt.planner = rt.pid(plannerName)
	for _, d := range rt.config.Devices {
		gpu := newGPUActor(rt, d)
		pid, err := rt.spawnCore(gpuPrefix+string(gpu.id), func() crashable { return gpu })
		if err != nil {
			return err
		}
		rt.gpus = append(rt.gpus, pid)
	}
	plan := newPlannerActor(rt)
	if rt.planner, err = rt.spawnCore(plannerName, func() crashable { return plan }); err != nil {
		return err
	}
	rt.goroutine(func() { rt.ticker(n.publishers) })
	return n.restoreTenants()
}

// describe writes the node's own facts.
func (n *Node) describe(store *gmg.Store) error {
	c := &n.rt.config
	values := []gmg.Value{gmg.Node{
		ID: c.Name, Incarnation: n.incarnation, Version: c.Version, HTTPAddress: c.HTTPAddr, StartUnixNs: n.startUnixNs,
	}}
	for _, d := range c.Devices {
		values = append(values, d.Describe())
	}
	for _, l := range c.Links {
		values = append(values, l)
	}
	for _, v := range values {
		if err := store.Put(v); err != nil {
			return err
		}
	}
	return nil
}

// publishers are the actors that tell the GMG their state at each tick.
func (n *Node) publishers() []*actor.PID {
	list := append([]*actor.PID(nil), n.rt.gpus...)
	for _, e := range n.rt.tenants.all() {
		if e.pid != nil {
			list = append(list, e.pid)
		}
	}
	return list
}

// Close refuses new requests, lets those that run finish until ctx ends, ends the rest with ErrShutdown, and gives back all that the node holds. The devices
// stay open. It may be called more than once.
func (n *Node) Close(ctx context.Context) error {
	if n.rt.closing.Swap(true) {
		select {
		case <-n.closed:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer close(n.closed)
	n.admin <- struct{}{} // a change that is under way comes first, none follows
	defer func() { <-n.admin }()
	n.drain(ctx)
	for _, e := range n.rt.tenants.all() {
		n.stopTenant(e)
	}
	n.closeDevices()
	n.end()
	n.rt.background.Wait()
	n.stopActors()
	n.rt.system.Shutdown()
	<-time.After(2 * deadLetterPeriod)
	return n.store.Close()
}

// drain waits until the gateway has no requests left, or ends them when ctx does.
func (n *Node) drain(ctx context.Context) {
	if n.rt.gateway == nil {
		return
	}
	drained := make(chan struct{})
	n.rt.send(n.rt.gateway, drainGateway{drained: drained})
	select {
	case <-drained:
		return
	case <-n.rt.broken:
	case <-ctx.Done():
	}
	aborted := make(chan struct{})
	n.rt.send(n.rt.gateway, drainGateway{abort: true, drained: aborted})
	n.rt.await(aborted)
}

func (n *Node) closeDevices() {
	for _, pid := range n.rt.gpus {
		done := make(chan struct{})
		n.rt.send(pid, closeDevice{done})
		n.rt.await(done)
	}
}

// stopActors stops the node's own actors and waits for them.
func (n *Node) stopActors() {
	pids := append([]*actor.PID{n.rt.planner}, n.rt.gpus...)
	for _, pid := range append(pids, n.rt.gateway, n.rt.gmg) {
		if pid != nil {
			_ = n.rt.system.Root.StopFuture(pid).Wait() // a planner that was never started isn't there to answer
		}
	}
}

// stopTenant stops a tenant's actor, waits until it is gone and nobody uses its model, and gives the model back.
func (n *Node) stopTenant(e *tenantEntry) {
	if e.pid != nil {
		n.rt.send(e.pid, removeTenant{})
		n.rt.await(e.gone)
		done := make(chan struct{})
		n.rt.send(n.rt.gateway, tenantGone{entry: e, err: fmt.Errorf("%w: %s was removed", ErrNoTenant, e.spec.ID), done: done})
		n.rt.await(done)
	}
	n.rt.tenants.remove(e.spec.ID)
	e.using.Lock()
	defer e.using.Unlock()
	e.ended = true
	if e.pid != nil && !e.isGone() {
		n.rt.log.Error("tenant doesn't stop, its model stays open", "tenant", e.spec.ID)
		return
	}
	if e.release != nil {
		e.release()
	}
}
