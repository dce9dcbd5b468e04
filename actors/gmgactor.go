package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"slicescheduler/gmg"
)

// putFacts sets and deletes facts of this node. It goes to the node's own GMG actor only, so it carries Go values.
type putFacts struct {
	values  []gmg.Value
	deletes []gmg.Key
}

// putShared sets shared facts or, without a value, leaves a tombstone; the reply holds the facts for the disk.
type putShared struct {
	values  []gmg.Value
	deletes []gmg.Key
	reply   chan<- sharedFacts
}

type sharedFacts struct {
	facts []gmg.Fact
	err   error
}

// gmgActor owns the node's copy of the GMG and hands out snapshots of it.
type gmgActor struct {
	rt    *runtime
	store *gmg.Store
}

// Receive implements actor.Actor.
func (a *gmgActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case putFacts:
		a.put(m)
		a.rt.snapshot.Store(a.store.Snapshot())
	case putShared:
		out := a.putShared(m)
		a.rt.snapshot.Store(a.store.Snapshot())
		m.reply <- out // who asked sees it in the snapshot
	}
}

func (a *gmgActor) put(m putFacts) {
	for _, v := range m.values {
		if err := a.store.Put(v); err != nil {
			a.rt.log.Error("fact refused", "key", v.Key().String(), "error", err)
		}
	}
	for _, k := range m.deletes {
		if err := a.store.Delete(k); err != nil {
			a.rt.log.Error("fact not deleted", "key", k.String(), "error", err)
		}
	}
}

func (a *gmgActor) putShared(m putShared) (out sharedFacts) {
	now := a.rt.nowNs()
	for _, v := range m.values {
		f, err := a.store.PutShared(v, now)
		if err != nil {
			return sharedFacts{err: err}
		}
		out.facts = append(out.facts, f)
	}
	for _, k := range m.deletes {
		f, err := a.store.DeleteShared(k, now)
		if err != nil {
			return sharedFacts{err: err}
		}
		out.facts = append(out.facts, f)
	}
	return out
}

// crashed keeps the store: a fact that couldn't be put is lost, no other.
func (a *gmgActor) crashed(ctx actor.Context, reason string) {
	if m, ok := ctx.Message().(putShared); ok {
		m.reply <- sharedFacts{err: &internalError{reason}}
	}
}
