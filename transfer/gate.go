package transfer

import (
	"context"
	"slices"
	"sync"

	"slicescheduler/gmg"
)

// Priority says who goes first where moves share a link.
type Priority uint8

// Priorities, first comes first.
const (
	PriorityRows      Priority = iota // a step waits for these hidden rows
	PriorityMigration                 // KV and weights on their way to a new place
	numPriorities
)

// gates are the links in use: one chunk at a time passes each.
type gates struct {
	mu    sync.Mutex
	links map[ends]*gate
}

// gate is one link's queue; gates.mu guards it. It exists only while somebody holds it.
type gate struct {
	waiting [numPriorities][]chan struct{} // closed when it is that waiter's turn
}

// enter waits for a link and returns once it is held, or ctx's error.
func (g *gates) enter(ctx context.Context, link gmg.Link, p Priority) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	key := ends{link.From, link.To}
	g.mu.Lock()
	held, busy := g.links[key]
	if !busy {
		g.links[key] = new(gate)
		g.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	held.waiting[p] = append(held.waiting[p], turn)
	g.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	if i := slices.Index(held.waiting[p], turn); i >= 0 {
		held.waiting[p] = slices.Delete(held.waiting[p], i, i+1)
		g.mu.Unlock()
		return ctx.Err()
	}
	g.mu.Unlock()
	g.leave(link) // the turn came together with the cancellation
	return ctx.Err()
}

// leave hands the link to the next waiter.
func (g *gates) leave(link gmg.Link) {
	key := ends{link.From, link.To}
	g.mu.Lock()
	defer g.mu.Unlock()
	held := g.links[key]
	for p, queue := range held.waiting {
		if len(queue) > 0 {
			close(queue[0])
			held.waiting[p] = queue[1:]
			return
		}
	}
	delete(g.links, key)
}
