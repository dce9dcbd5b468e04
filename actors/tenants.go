package actors

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"

	"slicescheduler/gmg"
	"slicescheduler/model"
	"slicescheduler/workload"
)

// SubmitTenant makes a tenant: its spec is on disk when this returns, and its model loads in the background. The same spec again changes nothing.
func (n *Node) SubmitTenant(ctx context.Context, s gmg.TenantSpec) error {
	done, err := n.change(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := n.checkSpec(s); err != nil {
		return err
	}
	if old := n.rt.tenants.get(s.ID); old != nil {
		if reflect.DeepEqual(old.spec, s) {
			return nil
		}
		return fmt.Errorf("%w: %s serves %s; remove it first", ErrTenantExists, s.ID, old.spec.Model)
	}
	e := n.openTenant(s)
	if e.broken != nil {
		return fmt.Errorf("tenant %s: %w", s.ID, e.broken)
	}
	stamp, err := n.putShared(ctx, []gmg.Value{s}, nil)
	if err != nil {
		e.release()
		return err
	}
	e.createdUnixS = stamp / 1e9
	n.keys.add(s.ID, s.KeyHashes...)
	return n.startTenant(e)
}

func (n *Node) checkSpec(s gmg.TenantSpec) error {
	if err := s.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if devices := len(n.rt.config.Devices); s.SplitOver > devices {
		return &FieldError{"splitOver", fmt.Sprintf("%d devices wanted, the node has %d", s.SplitOver, devices)}
	}
	return nil
}

// openTenant opens a tenant's model; what is wrong with it is in the entry's broken.
func (n *Node) openTenant(s gmg.TenantSpec) *tenantEntry {
	e := &tenantEntry{spec: s, gone: make(chan struct{})}
	m, release, err := n.rt.config.Library.Open(s.Model)
	if err != nil {
		e.broken = err
		return e
	}
	if s.ChatTemplate != "" {
		if e.template, err = model.ParseTemplate(s.ChatTemplate); err != nil {
			release()
			e.broken = &FieldError{"chatTemplate", err.Error()}
			return e
		}
	}
	e.model, e.release = m, release
	for id := range int32(m.Tokenizer.VocabSize()) {
		if m.Tokenizer.IsEnd(id) && int(id) < m.Graph.Vocab {
			e.ends = append(e.ends, id)
		}
	}
	n.rt.send(n.rt.gmg, putFacts{values: []gmg.Value{m.Graph}})
	return e
}

// startTenant enters a tenant into the directory and starts its actor.
func (n *Node) startTenant(e *tenantEntry) error {
	if e.broken != nil {
		n.rt.log.Error("tenant can't be served", "tenant", e.spec.ID, "error", e.broken)
		n.rt.tenants.put(e)
		return nil
	}
	var salt [8]byte
	_, _ = rand.Read(salt[:]) // never fails
	flight, sla := new(laneFlight), newSLAAccount(workload.SLAOf(e.spec))
	counts := n.rt.metrics.tenant(e.spec.ID)
	pid, err := n.rt.spawn(tenantPrefix+string(e.spec.ID), func() crashable {
		return newTenantActor(n.rt, e, binary.LittleEndian.Uint64(salt[:]), flight, sla, counts)
	})
	if err != nil {
		return err
	}
	e.pid = pid
	n.rt.tenants.put(e)
	n.rt.send(pid, beginTenant{})
	return nil
}

// restoreTenants starts the tenants that the data directory holds. One whose model is gone stays listed, as failed.
func (n *Node) restoreTenants() error {
	snapshot := n.rt.snapshot.Load()
	for _, s := range snapshot.Tenants() {
		e := n.openTenant(s)
		if f, ok := snapshot.Fact(gmg.TenantKey(s.ID)); ok {
			e.createdUnixS = f.Stamp.WallNs / 1e9
		}
		n.keys.add(s.ID, s.KeyHashes...)
		if err := n.startTenant(e); err != nil {
			return err
		}
	}
	for _, k := range snapshot.AllAPIKeys() {
		n.keys.add(k.Tenant, k.Hash)
	}
	return nil
}

// RemoveTenant ends a tenant's requests, gives back what it holds and forgets it, its keys included.
func (n *Node) RemoveTenant(ctx context.Context, t gmg.TenantID) error {
	done, err := n.change(ctx)
	if err != nil {
		return err
	}
	defer done()
	e := n.rt.tenants.get(t)
	if e == nil {
		return fmt.Errorf("%w: %s", ErrNoTenant, t)
	}
	deletes := []gmg.Key{gmg.TenantKey(t)}
	for _, k := range n.rt.snapshot.Load().APIKeys(t) {
		deletes = append(deletes, gmg.APIKeyKey(t, k.Name))
	}
	if _, err := n.putShared(ctx, nil, deletes); err != nil {
		return err
	}
	n.keys.remove(func(o keyOwner) bool { return o.tenant == t })
	n.stopTenant(e)
	n.rt.metrics.forget(t)
	n.rt.send(n.rt.gmg, putFacts{deletes: []gmg.Key{gmg.TenantStateKey(t)}})
	return nil
}

// putShared changes shared facts in the GMG and on disk, and returns their time. What can't be kept on disk is undone. It doesn't stop half-way when ctx ends.
func (n *Node) putShared(ctx context.Context, values []gmg.Value, deletes []gmg.Key) (stampNs int64, err error) {
	ctx = context.WithoutCancel(ctx)
	before := n.rt.snapshot.Load()
	out, err := ask(ctx, n.rt, n.rt.gmg, func(reply chan<- sharedFacts) any { return putShared{values, deletes, reply} })
	if err == nil {
		err = out.err
	}
	if err != nil {
		return 0, err
	}
	if err := n.store.Put(out.facts...); err != nil {
		undo := putShared{}
		for i := range out.facts {
			if old, ok := before.Fact(out.facts[i].Key); ok {
				undo.values = append(undo.values, old.Value)
			} else {
				undo.deletes = append(undo.deletes, out.facts[i].Key)
			}
		}
		_, undone := ask(ctx, n.rt, n.rt.gmg, func(reply chan<- sharedFacts) any { return putShared{undo.values, undo.deletes, reply} })
		return 0, errors.Join(fmt.Errorf("not kept on disk: %w", err), undone)
	}
	return out.facts[0].Stamp.WallNs, nil
}
