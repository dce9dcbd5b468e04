package transfer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"slicescheduler/gmg"
)

// Errors of moves. They are wrapped with the devices and the chunk.
var (
	ErrMove     = errors.New("invalid move")
	ErrNotLocal = errors.New("devices are on different hosts")
	// ErrNoPeer is what a Peer returns when it can't copy to that region; the move then goes through host memory.
	ErrNoPeer = errors.New("no peer copy between these devices")
)

// Region is a piece of one device's memory that host memory can be copied to and from. Calls block until the bytes are there; ctx bounds the
// wait. After a call returned nil it no longer touches the slice. A Region must allow a Read and a Write of different parts at once.
type Region interface {
	Device() gmg.DeviceID
	Bytes() int64
	Read(ctx context.Context, dst []byte, offset int64) error
	Write(ctx context.Context, src []byte, offset int64) error
}

// Peer is a Region that can copy straight into some other regions.
type Peer interface {
	Region
	// CopyTo blocks until n bytes are in dst, or returns ErrNoPeer without having copied any.
	CopyTo(ctx context.Context, dst Region, dstOffset, offset, n int64) error
}

// Move is one piece of memory to copy. The two ends must not overlap.
type Move struct {
	From, To             Region
	FromOffset, ToOffset int64
	Bytes                int64
	Priority             Priority
}

func (m Move) validate() error {
	switch {
	case m.From == nil || m.To == nil:
		return fmt.Errorf("%w: an end is missing", ErrMove)
	case m.Priority >= numPriorities:
		return fmt.Errorf("%w: priority %d", ErrMove, m.Priority)
	case m.Bytes < 0 || m.FromOffset < 0 || m.ToOffset < 0 || m.Bytes > m.From.Bytes()-m.FromOffset || m.Bytes > m.To.Bytes()-m.ToOffset:
		return fmt.Errorf("%w: %d bytes from %d of %d on %s to %d of %d on %s", ErrMove, m.Bytes, m.FromOffset, m.From.Bytes(), m.From.Device(),
			m.ToOffset, m.To.Bytes(), m.To.Device())
	}
	return nil
}

// Counter counts what went over one kind of route.
type Counter struct {
	Bytes  int64 // of chunks that arrived, also of moves that failed later
	Moves  int64 // that completed
	Failed int64 // or were cancelled
}

// Mover executes moves between devices of one process. Each link passes one chunk at a time, rows before migrations. It is safe for concurrent use and
// runs no goroutines of its own between moves.
type Mover struct {
	topology atomic.Pointer[Topology]
	gates    gates
	staging  sync.Pool // *[]byte
	counters [NumRouteKinds]struct{ bytes, moves, failed atomic.Int64 }
}

// NewMover returns a mover over the links of a topology.
func NewMover(t *Topology) *Mover {
	m := &Mover{gates: gates{links: make(map[ends]*gate)}}
	m.topology.Store(t)
	return m
}

// SetTopology makes later moves use other links; moves under way keep their routes.
func (m *Mover) SetTopology(t *Topology) { m.topology.Store(t) }

// Counters returns what was moved so far, by RouteKind.
func (m *Mover) Counters() [NumRouteKinds]Counter {
	var out [NumRouteKinds]Counter
	for k := range out {
		c := &m.counters[k]
		out[k] = Counter{Bytes: c.bytes.Load(), Moves: c.moves.Load(), Failed: c.failed.Load()}
	}
	return out
}

// Move copies and returns when all bytes are there. It stops at the end of a chunk when ctx is done; the destination then holds a part. Errors: ErrMove for
// offsets beyond a region, ErrNoRoute, ErrNotLocal, the regions' own, ctx's.
func (m *Mover) Move(ctx context.Context, mv Move) error {
	if err := mv.validate(); err != nil {
		return err
	}
	from, to := mv.From.Device(), mv.To.Device()
	route, err := m.topology.Load().Route(from, to, mv.Bytes)
	if err != nil {
		return err
	}
	if route.Kind() == RouteNetwork {
		return fmt.Errorf("%w: %v", ErrNotLocal, route)
	}
	chunks, err := PlanChunks(mv.Bytes, route.ChunkBytes())
	if err != nil {
		return err
	}
	c := &m.counters[route.Kind()]
	if err := m.run(ctx, mv, route, chunks); err != nil {
		c.failed.Add(1)
		return fmt.Errorf("move %d bytes over %v: %w", mv.Bytes, route, err)
	}
	c.moves.Add(1)
	return nil
}

// run moves by peer copies where the route has one hop and the device can, else through host memory.
func (m *Mover) run(ctx context.Context, mv Move, route Route, chunks Chunks) error {
	if peer, ok := mv.From.(Peer); ok && len(route.Hops) <= 1 {
		if err := m.copyPeer(ctx, peer, mv, route, chunks); !errors.Is(err, ErrNoPeer) {
			return err
		}
	}
	if chunks.Count <= 1 {
		return m.relayOne(ctx, mv, route, chunks)
	}
	return m.relay(ctx, mv, route, chunks)
}

func (m *Mover) copyPeer(ctx context.Context, peer Peer, mv Move, route Route, chunks Chunks) error {
	for i := range chunks.Count {
		offset, n := chunks.Chunk(i)
		err := m.pass(ctx, route.Hops, mv.Priority, func() error {
			return peer.CopyTo(ctx, mv.To, mv.ToOffset+offset, mv.FromOffset+offset, n)
		})
		if err != nil {
			return chunkError(i, chunks, err)
		}
		m.count(route, n)
	}
	return nil
}

// halves splits a route into the hops that bring a chunk to host memory and those that take it from there.
func halves(hops []gmg.Link) (up, down []gmg.Link) {
	if len(hops) < 2 {
		return hops, nil
	}
	return hops[:1], hops[1:]
}

// relayOne moves a single chunk through host memory without a goroutine: the path of a step's rows.
func (m *Mover) relayOne(ctx context.Context, mv Move, route Route, chunks Chunks) error {
	if chunks.Count == 0 {
		return ctx.Err()
	}
	up, down := halves(route.Hops)
	buf := m.buffer(chunks.Bytes)
	err := m.pass(ctx, up, mv.Priority, func() error { return mv.From.Read(ctx, *buf, mv.FromOffset) })
	if err == nil {
		err = m.pass(ctx, down, mv.Priority, func() error { return mv.To.Write(ctx, *buf, mv.ToOffset) })
	}
	if err == nil {
		m.count(route, chunks.Bytes)
		m.staging.Put(buf)
	}
	return err
}

// relay reads one chunk while it writes the one before.
func (m *Mover) relay(ctx context.Context, mv Move, route Route, chunks Chunks) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	up, down := halves(route.Hops)
	full := make(chan *[]byte) // unbuffered: at most two chunks are in host memory
	go func() {
		defer close(full)
		for i := range chunks.Count {
			offset, n := chunks.Chunk(i)
			buf := m.buffer(n)
			err := m.pass(ctx, up, mv.Priority, func() error { return mv.From.Read(ctx, *buf, mv.FromOffset+offset) })
			if err != nil {
				cancel(chunkError(i, chunks, err))
				return
			}
			select {
			case full <- buf:
			case <-ctx.Done():
				m.staging.Put(buf)
				return
			}
		}
	}()
	written := 0
	for buf := range full {
		offset, n := chunks.Chunk(written)
		if ctx.Err() == nil {
			err := m.pass(ctx, down, mv.Priority, func() error { return mv.To.Write(ctx, *buf, mv.ToOffset+offset) })
			if err != nil {
				cancel(chunkError(written, chunks, err))
				continue
			}
			m.count(route, n)
			written++
		}
		m.staging.Put(buf)
	}
	if written == chunks.Count {
		return nil
	}
	return context.Cause(ctx)
}

// pass holds links while f uses them. They are taken in the order of the route, and every route goes up to host memory before it goes down, so that no
// two moves wait for each other.
func (m *Mover) pass(ctx context.Context, hops []gmg.Link, p Priority, f func() error) error {
	for i, l := range hops {
		if err := m.gates.enter(ctx, l, p); err != nil {
			for _, held := range hops[:i] {
				m.gates.leave(held)
			}
			return err
		}
	}
	defer func() {
		for _, l := range hops {
			m.gates.leave(l)
		}
	}()
	if err := ctx.Err(); err != nil {
		return err
	}
	return f()
}

func (m *Mover) count(route Route, n int64) { m.counters[route.Kind()].bytes.Add(n) }

// buffer returns host memory of n bytes. It goes back to staging unless a call on it failed: a device that hangs may still use it.
func (m *Mover) buffer(n int64) *[]byte {
	if b, ok := m.staging.Get().(*[]byte); ok && int64(cap(*b)) >= n {
		*b = (*b)[:n]
		return b
	}
	b := make([]byte, n)
	return &b
}

func chunkError(i int, c Chunks, err error) error {
	return fmt.Errorf("chunk %d of %d: %w", i+1, c.Count, err)
}
