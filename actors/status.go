package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"slicescheduler/gmg"
)

// status is the tenant as listings show it.
func (t *tenantActor) status() TenantStatus {
	s := TenantStatus{Spec: t.entry.spec, State: t.state, Reason: t.reason, Waiting: len(t.held), SLA: t.sla.status()}
	if t.sched != nil {
		stats := t.sched.Stats()
		s.Waiting, s.Running = stats.Waiting, stats.Running
		s.KVFree, s.KVTotal = stats.FreeBlocks+stats.CachedBlocks, t.sched.Config().KVBlocks
	}
	return s
}

// requests lists the tenant's live requests in order of arrival.
func (t *tenantActor) requests() []RequestStatus {
	now := t.rt.nowNs()
	live := make([]*sequence, 0, len(t.sequences))
	for _, s := range t.sequences {
		live = append(live, s)
	}
	sortByArrival(live)
	list := make([]RequestStatus, 0, len(live))
	for _, s := range live {
		list = append(list, RequestStatus{
			ID: s.submit.Id, Tenant: t.entry.spec.ID, State: t.stateOf(s), PromptTokens: len(s.submit.Prompt), OutputTokens: s.output,
			CachedTokens: s.cached, AgeMs: (now - s.submit.ArrivalNs) / 1e6,
		})
	}
	return list
}

func (t *tenantActor) stateOf(s *sequence) string {
	if t.sched == nil {
		return "waiting"
	}
	return s.state()
}

// askTenant queries a tenant's actor, unless it is gone.
func askTenant[T any](ctx context.Context, n *Node, e *tenantEntry, query func(chan<- T) any) (answer T, err error) {
	reply := make(chan T, 1)
	n.rt.send(e.pid, query(reply))
	select {
	case answer = <-reply:
		return answer, nil
	case <-e.gone:
		return answer, n.rt.goneError(e)
	case <-ctx.Done():
		return answer, ctx.Err()
	}
}

// Tenants lists all tenants by name.
func (n *Node) Tenants(ctx context.Context) ([]TenantStatus, error) {
	list := []TenantStatus{}
	for _, e := range n.rt.tenants.all() {
		s, err := n.tenantStatus(ctx, e)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err == nil {
			list = append(list, s)
		}
	}
	return list, nil
}

// Tenant returns one tenant.
func (n *Node) Tenant(ctx context.Context, t gmg.TenantID) (TenantStatus, error) {
	e := n.rt.tenants.get(t)
	if e == nil {
		return TenantStatus{}, fmt.Errorf("%w: %s", ErrNoTenant, t)
	}
	return n.tenantStatus(ctx, e)
}

func (n *Node) tenantStatus(ctx context.Context, e *tenantEntry) (TenantStatus, error) {
	if e.broken != nil {
		return TenantStatus{Spec: e.spec, State: stateFailed, Reason: e.broken.Error(), Lanes: []gmg.Lane{}}, nil
	}
	s, err := askTenant(ctx, n, e, func(reply chan<- TenantStatus) any { return tenantQuery{reply} })
	if errors.Is(err, ErrTenantNotReady) {
		return TenantStatus{Spec: e.spec, State: stateFailed, Reason: err.Error(), Lanes: []gmg.Lane{}}, nil
	}
	if err != nil {
		return TenantStatus{}, err
	}
	s.Lanes = append([]gmg.Lane{}, n.rt.snapshot.Load().Lanes(e.spec.ID)...)
	return s, nil
}

// Requests lists all live requests, by tenant and arrival.
func (n *Node) Requests(ctx context.Context) ([]RequestStatus, error) {
	list := []RequestStatus{}
	for _, e := range n.rt.tenants.all() {
		if e.pid == nil {
			continue
		}
		r, err := askTenant(ctx, n, e, func(reply chan<- []RequestStatus) any { return requestsQuery{reply} })
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err == nil {
			list = append(list, r...)
		}
	}
	return list, nil
}

// Devices lists the node's devices, as configured.
func (n *Node) Devices(ctx context.Context) ([]DeviceStatus, error) {
	list := []DeviceStatus{}
	for _, pid := range n.rt.gpus {
		s, err := ask(ctx, n.rt, pid, func(reply chan<- DeviceStatus) any { return deviceQuery{reply} })
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// Slices lists all slices by lane and place in it.
func (n *Node) Slices(ctx context.Context) ([]SliceStatus, error) {
	list := []SliceStatus{}
	for _, pid := range n.rt.gpus {
		s, err := ask(ctx, n.rt, pid, func(reply chan<- []SliceStatus) any { return slicesQuery{reply} })
		if err != nil {
			return nil, err
		}
		list = append(list, s...)
	}
	sortSlices(list)
	return list, nil
}

// Nodes lists the cluster's nodes.
func (n *Node) Nodes(context.Context) ([]NodeStatus, error) {
	list := []NodeStatus{}
	for _, f := range n.rt.snapshot.Load().Nodes() {
		state := "up"
		if f.ID == n.rt.config.Name && n.rt.closing.Load() {
			state = "draining"
		}
		list = append(list, NodeStatus{
			ID: f.ID, State: state, Version: f.Version, HTTP: f.HTTPAddress, Incarnation: f.Incarnation, StartUnixS: f.StartUnixNs / 1e9,
		})
	}
	slices.SortFunc(list, func(a, b NodeStatus) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

// Ready says whether the node takes requests.
func (n *Node) Ready(context.Context) (bool, string) {
	if n.rt.closing.Load() {
		return false, ErrShutdown.Error()
	}
	select {
	case <-n.rt.broken:
		return false, n.rt.brokenError().Error()
	default:
		return true, ""
	}
}
