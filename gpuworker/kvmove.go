package gpuworker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"slicescheduler/gmg"
	"slicescheduler/transfer"
)

// ErrHung is a device that took a piece of work and didn't end it in time. It is wrapped with ErrUnhealthy.
var ErrHung = errors.New("device hangs")

// PagePair is a KV page of one slice and the page of another that is to hold the same.
type PagePair struct{ From, To int32 }

// KVMoves returns the copies that bring pages from one slice to another: of each page the layers that both slices have, pages that follow each other on both
// sides in one piece. It is empty when the slices have no layer in common or share their pages. ErrNotSupported when their devices lay KV out differently.
// A call to a device that takes longer than limit fails with ErrHung.
func KVMoves(from, to *SliceRunner, pages []PagePair, p transfer.Priority, limit time.Duration) ([]transfer.Move, error) {
	g := from.config.Graph
	common := gmg.Range{From: max(from.config.Stages.From, to.config.Stages.From), To: min(from.config.Stages.To, to.config.Stages.To)}
	if common.Len() <= 0 || g.KVBytesPerToken(common) == 0 || from.kv == to.kv {
		return nil, nil
	}
	a, b := from.dev, to.dev
	bytes := a.KVBlockBytes(g, common)
	if a.Describe().Kind != b.Describe().Kind || bytes != b.KVBlockBytes(g, common) {
		return nil, fmt.Errorf("KV of %s on %s: %w", a.Describe().ID, b.Describe().ID, ErrNotSupported)
	}
	fromStride, toStride := a.KVBlockBytes(g, from.config.Stages), b.KVBlockBytes(g, to.config.Stages)
	fromOffset := kvOffset(a, g, gmg.Range{From: from.config.Stages.From, To: common.From})
	toOffset := kvOffset(b, g, gmg.Range{From: to.config.Stages.From, To: common.From})
	whole := bytes == fromStride && bytes == toStride
	source, target := &kvRegion{from, limit}, &kvRegion{to, limit}
	var moves []transfer.Move
	for i, pair := range pages {
		if last := len(moves) - 1; whole && i > 0 && pair.From == pages[i-1].From+1 && pair.To == pages[i-1].To+1 {
			moves[last].Bytes += bytes
			continue
		}
		moves = append(moves, transfer.Move{From: source, To: target, FromOffset: int64(pair.From)*fromStride + fromOffset,
			ToOffset: int64(pair.To)*toStride + toOffset, Bytes: bytes, Priority: p})
	}
	return moves, nil
}

// kvOffset is where in a page the layers behind a run of stages begin.
func kvOffset(d Device, g *gmg.Graph, before gmg.Range) int64 {
	if before.Len() == 0 || g.KVBytesPerToken(before) == 0 {
		return 0
	}
	return d.KVBlockBytes(g, before)
}

// kvRegion is a slice's KV pages as a mover sees them. A call that has begun is waited for whatever its context says: the device owns the memory until it ends.
type kvRegion struct {
	slice *SliceRunner
	limit time.Duration
}

var _ transfer.Peer = (*kvRegion)(nil)

// Device implements transfer.Region.
func (r *kvRegion) Device() gmg.DeviceID { return r.slice.kv.Device() }

// Bytes implements transfer.Region.
func (r *kvRegion) Bytes() int64 { return r.slice.kv.Bytes() }

// Read implements transfer.Region.
func (r *kvRegion) Read(ctx context.Context, dst []byte, offset int64) error {
	return r.wait(ctx, func() Event { return r.slice.dev.Download(QueueCopy, dst, r.slice.kv, offset) })
}

// Write implements transfer.Region.
func (r *kvRegion) Write(ctx context.Context, src []byte, offset int64) error {
	return r.wait(ctx, func() Event { return r.slice.dev.Upload(QueueCopy, r.slice.kv, offset, src) })
}

// CopyTo implements transfer.Peer.
func (r *kvRegion) CopyTo(ctx context.Context, dst transfer.Region, dstOffset, offset, n int64) error {
	to, ok := dst.(*kvRegion)
	if !ok {
		return transfer.ErrNoPeer
	}
	return r.wait(ctx, func() Event {
		return r.slice.dev.CopyPeer(QueueCopy, to.slice.dev, to.slice.kv, dstOffset, r.slice.kv, offset, n)
	})
}

func (r *kvRegion) wait(ctx context.Context, begin func() Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e := begin()
	select {
	case <-e.Done():
		return e.Err()
	default:
	}
	t := time.NewTimer(r.limit)
	defer t.Stop()
	select {
	case <-e.Done():
		return e.Err()
	case <-t.C:
		return fmt.Errorf("%s: %w: %w: no answer within %v", r.Device(), ErrUnhealthy, ErrHung, r.limit)
	}
}
