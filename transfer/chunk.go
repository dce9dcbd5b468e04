package transfer

import (
	"fmt"
	"math/bits"
)

// Chunks are a trade: a step's rows wait for the chunk that is under way, and each chunk pays the latency again.
const (
	MinChunkBytes = 64 << 10
	MaxChunkBytes = 4 << 20
	chunkTimeNs   = 1_000_000 // what a chunk should take on the slowest hop
)

// ChunkBytes returns the size of the route's chunks: the largest power of two that the slowest hop moves in a millisecond, within MinChunkBytes and
// MaxChunkBytes.
func (r Route) ChunkBytes() int64 {
	var slowest float64
	for _, l := range r.Hops {
		slowest = max(slowest, nsPerByte(l))
	}
	if slowest*MaxChunkBytes <= chunkTimeNs {
		return MaxChunkBytes
	}
	fits := uint64(chunkTimeNs / slowest)
	if fits < MinChunkBytes {
		return MinChunkBytes
	}
	return 1 << (bits.Len64(fits) - 1)
}

// Chunks is a plan for moving Bytes in Count pieces of ChunkBytes, the last of which may be shorter.
type Chunks struct {
	Bytes, ChunkBytes int64
	Count             int
}

// PlanChunks cuts bytes into chunks.
func PlanChunks(bytes, chunkBytes int64) (Chunks, error) {
	if bytes < 0 || chunkBytes <= 0 {
		return Chunks{}, fmt.Errorf("%w: %d bytes in chunks of %d", ErrMove, bytes, chunkBytes)
	}
	count := bytes / chunkBytes
	if bytes%chunkBytes != 0 {
		count++
	}
	return Chunks{Bytes: bytes, ChunkBytes: chunkBytes, Count: int(count)}, nil
}

// Chunk returns the place of chunk i, from 0 up.
func (c Chunks) Chunk(i int) (offset, bytes int64) {
	offset = int64(i) * c.ChunkBytes
	return offset, min(c.ChunkBytes, c.Bytes-offset)
}
