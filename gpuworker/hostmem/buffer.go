// Package hostmem is what devices whose memory the host can reach have in common: buffers, transfers between them, and the ledger and queues under both.
package hostmem

import (
	"fmt"

	"slicescheduler/gpuworker"
)

// Buffer is a held block with its content. Payload is the backend's own (a loaded weight's form, say).
type Buffer struct {
	*gpuworker.Block
	Payload any
	data    []byte // dense content, nil when sparse
	sparse  *sparse
}

// Host implements gpuworker.HostBuffer. It is nil for sparse buffers.
func (b *Buffer) Host() []byte { return b.data }

var _ gpuworker.HostBuffer = (*Buffer)(nil)

func (b *Buffer) read(offset int64, dst []byte) {
	if b.sparse != nil {
		b.sparse.read(offset, dst)
		return
	}
	copy(dst, b.data[offset:])
}

func (b *Buffer) write(offset int64, src []byte) {
	if b.sparse != nil {
		b.sparse.write(offset, src)
		return
	}
	copy(b.data[offset:], src)
}

// check says whether bytes from offset on lie within a buffer.
func check(b gpuworker.Buffer, size, offset, bytes int64) error {
	if offset < 0 || bytes < 0 || offset > size-bytes {
		return fmt.Errorf("%d bytes at %d of a buffer of %d on %s: %w", bytes, offset, size, b.Device(), gpuworker.ErrBadBuffer)
	}
	return nil
}

// ReadAt copies from a buffer's content, dense or sparse; the range must lie within it.
func (b *Buffer) ReadAt(offset int64, dst []byte) { b.read(offset, dst) }

// WriteAt copies into a buffer's content.
func (b *Buffer) WriteAt(offset int64, src []byte) { b.write(offset, src) }
