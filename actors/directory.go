package actors

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"slicescheduler/gmg"
	"slicescheduler/model"
)

// tenantEntry is a tenant of this node as all its actors see it. What is in it doesn't change, but for gone, which is closed when the tenant's actor has
// stopped for good.
type tenantEntry struct {
	spec         gmg.TenantSpec
	model        *model.Model        // nil when it could not be opened
	broken       error               // why
	release      func()              // gives the model back to the library
	template     *model.ChatTemplate // of the spec, nil for the model's own
	ends         []int32             // tokens that end an answer
	createdUnixS int64
	pid          *actor.PID
	gone         chan struct{}

	using sync.RWMutex // held for reading by who uses the model outside of actors
	ended bool         // the model was given back
}

func (e *tenantEntry) isGone() bool {
	select {
	case <-e.gone:
		return true
	default:
		return false
	}
}

// use keeps the model open until done is called; ok is false when there is none.
func (e *tenantEntry) use() (done func(), ok bool) {
	e.using.RLock()
	if e.ended || e.model == nil {
		e.using.RUnlock()
		return nil, false
	}
	return e.using.RUnlock, true
}

// goneError says why a tenant whose actor has stopped can't be asked: it was removed, or failed too often.
func (rt *runtime) goneError(e *tenantEntry) error {
	if rt.tenants.get(e.spec.ID) == e && !rt.closing.Load() {
		return stoppedError(e)
	}
	return fmt.Errorf("%w: %s", ErrNoTenant, e.spec.ID)
}

// contextTokens returns the length of the longest request: prompt and answer.
func (e *tenantEntry) contextTokens() int {
	n := e.model.Graph.ContextTokens
	if e.spec.MaxContext > 0 {
		n = min(n, e.spec.MaxContext)
	}
	return n
}

// directory lists a node's tenants.
type directory struct {
	mu      sync.RWMutex
	tenants map[gmg.TenantID]*tenantEntry
}

func newDirectory() *directory { return &directory{tenants: make(map[gmg.TenantID]*tenantEntry)} }

// get returns a tenant's entry, or nil.
func (d *directory) get(t gmg.TenantID) *tenantEntry {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.tenants[t]
}

func (d *directory) put(e *tenantEntry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tenants[e.spec.ID] = e
}

func (d *directory) remove(t gmg.TenantID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tenants, t)
}

// all returns the tenants in the order of their names.
func (d *directory) all() []*tenantEntry {
	d.mu.RLock()
	defer d.mu.RUnlock()
	list := make([]*tenantEntry, 0, len(d.tenants))
	for _, e := range d.tenants {
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b *tenantEntry) int { return strings.Compare(string(a.spec.ID), string(b.spec.ID)) })
	return list
}
