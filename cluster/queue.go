package cluster

import "sync"

// queue hands items from any number of goroutines to one, without ever blocking who puts: memberlist's notifications hold its locks.
type queue[T any] struct {
	mu    sync.Mutex
	items []T
	wake  chan struct{} // holds one item while there is something to take
}

func newQueue[T any]() *queue[T] { return &queue[T]{wake: make(chan struct{}, 1)} }

func (q *queue[T]) put(item T) {
	q.mu.Lock()
	q.items = append(q.items, item)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take returns all items in order.
func (q *queue[T]) take() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	items := q.items
	q.items = nil
	return items
}
