package hostmem

import (
	"fmt"
	"unsafe"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
	"slicescheduler/gpuworker/dispatch"
)

// alignment of dense buffers, in bytes: a cache line, and the widest vector.
const alignment = 64

// copyBytes is the size of the pieces in which sparse content moves.
const copyBytes = 64 << 10

// Config says how a Base behaves.
type Config struct {
	Device      gmg.DeviceID
	MemoryBytes int64
	NowNs       func() int64
	// Around wraps the goroutine that runs steps; nil for none.
	Around func(run func())
	// Sparse says which classes are held without being allocated until they are written.
	Sparse [gmg.NumMemoryClasses]bool
	// Spend takes the time that a transfer of bytes should take; nil for none beyond the copy itself.
	Spend func(bytes int64, peer bool) error
}

// Base is the part of a device that is the same for all that live in host memory: ledger, buffers, transfers, queues. It is safe for concurrent use.
type Base struct {
	config     Config
	memory     *gpuworker.Memory
	dispatcher *dispatch.Dispatcher
}

// New starts a Base; Close ends it.
func New(c Config) *Base {
	return &Base{config: c, memory: gpuworker.NewMemory(c.Device, c.MemoryBytes), dispatcher: dispatch.New(c.Device, c.NowNs, c.Around)}
}

// Ledger implements gpuworker.Device.
func (b *Base) Ledger() gmg.Ledger { return b.memory.Ledger() }

// Dispatcher returns the queues.
func (b *Base) Dispatcher() *dispatch.Dispatcher { return b.dispatcher }

// Reserve implements gpuworker.Device.
func (b *Base) Reserve(class gmg.MemoryClass, bytes int64) (gpuworker.Buffer, error) {
	block, err := b.memory.Take(class, bytes)
	if err != nil {
		return nil, err
	}
	buffer := &Buffer{Block: block}
	if b.config.Sparse[class] {
		buffer.sparse = &sparse{chunks: make(map[int64]*[chunkBytes]byte)}
	} else {
		buffer.data = aligned(bytes)
	}
	return buffer, nil
}

// Hold takes memory for something that the backend keeps in a form of its own.
func (b *Base) Hold(class gmg.MemoryClass, bytes int64, payload any) (*Buffer, error) {
	block, err := b.memory.Take(class, bytes)
	if err != nil {
		return nil, err
	}
	return &Buffer{Block: block, Payload: payload}, nil
}

// aligned allocates bytes that begin at a cache line.
func aligned(bytes int64) []byte {
	if bytes == 0 {
		return []byte{}
	}
	raw := make([]byte, bytes+alignment-1)
	skip := -int64(uintptr(unsafe.Pointer(unsafe.SliceData(raw)))) & (alignment - 1)
	return raw[skip : skip+bytes : skip+bytes]
}

// Release implements gpuworker.Device. The content goes with the last reference to the buffer.
func (b *Base) Release(buffer gpuworker.Buffer) error {
	own, err := b.own(buffer)
	if err != nil {
		return err
	}
	return b.memory.Give(own.Block)
}

// own returns a buffer as this device's.
func (b *Base) own(buffer gpuworker.Buffer) (*Buffer, error) {
	own, ok := buffer.(*Buffer)
	if !ok || own == nil || own.Device() != b.config.Device {
		return nil, fmt.Errorf("buffer of another device on %s: %w", b.config.Device, gpuworker.ErrBadBuffer)
	}
	return own, nil
}

// Held returns a buffer as this device's, if it is held now and has at least the bytes asked for.
func (b *Base) Held(buffer gpuworker.Buffer, bytes int64) (*Buffer, error) {
	own, err := b.own(buffer)
	if err != nil {
		return nil, err
	}
	if !b.memory.Holds(own.Block) {
		return nil, fmt.Errorf("buffer that was released on %s: %w", b.config.Device, gpuworker.ErrBadBuffer)
	}
	return own, check(own, own.Bytes(), 0, bytes)
}

// content returns a held buffer whose bytes may be copied in a range.
func (b *Base) content(buffer gpuworker.Buffer, offset, bytes int64) (*Buffer, error) {
	own, err := b.Held(buffer, 0)
	if err != nil {
		return nil, err
	}
	if own.data == nil && own.sparse == nil {
		return nil, fmt.Errorf("weights of %s can't be copied: %w", b.config.Device, gpuworker.ErrBadBuffer)
	}
	return own, check(own, own.Bytes(), offset, bytes)
}

// Upload implements gpuworker.Device.
func (b *Base) Upload(q gpuworker.Queue, dst gpuworker.Buffer, offset int64, src []byte) gpuworker.Event {
	own, err := b.content(dst, offset, int64(len(src)))
	if err != nil {
		return gpuworker.CompletedEvent(err)
	}
	return b.submit(q, int64(len(src)), false, func() error { own.write(offset, src); return nil })
}

// Download implements gpuworker.Device.
func (b *Base) Download(q gpuworker.Queue, dst []byte, src gpuworker.Buffer, offset int64) gpuworker.Event {
	own, err := b.content(src, offset, int64(len(dst)))
	if err != nil {
		return gpuworker.CompletedEvent(err)
	}
	return b.submit(q, int64(len(dst)), false, func() error { own.read(offset, dst); return nil })
}

// CopyPeer implements gpuworker.Device. To a device whose memory isn't the host's it goes through an upload there.
func (b *Base) CopyPeer(q gpuworker.Queue, dst gpuworker.Device, dstBuf gpuworker.Buffer, dstOffset int64, src gpuworker.Buffer, srcOffset, bytes int64) gpuworker.Event {
	own, err := b.content(src, srcOffset, bytes)
	if err != nil {
		return gpuworker.CompletedEvent(err)
	}
	if dstBuf == nil || dst == nil || dstBuf.Device() != dst.Describe().ID {
		return gpuworker.CompletedEvent(fmt.Errorf("copy from %s: the target buffer is not the target device's: %w", b.config.Device, gpuworker.ErrBadBuffer))
	}
	if err := check(dstBuf, dstBuf.Bytes(), dstOffset, bytes); err != nil {
		return gpuworker.CompletedEvent(err)
	}
	target, host := dstBuf.(*Buffer)
	if host && target.data == nil && target.sparse == nil {
		return gpuworker.CompletedEvent(fmt.Errorf("weights can't be copied to: %w", gpuworker.ErrBadBuffer))
	}
	return b.submit(q, bytes, true, func() error {
		if host {
			move(target, dstOffset, own, srcOffset, bytes)
			return nil
		}
		staged := make([]byte, bytes)
		own.read(srcOffset, staged)
		return dst.Upload(gpuworker.QueueCopy, dstBuf, dstOffset, staged).Err()
	})
}

func (b *Base) submit(q gpuworker.Queue, bytes int64, peer bool, run func() error) gpuworker.Event {
	return b.dispatcher.Submit(q, dispatch.Func(func() error {
		if b.config.Spend != nil {
			if err := b.config.Spend(bytes, peer); err != nil {
				return err
			}
		}
		return run()
	}))
}

// move copies between buffers of host memory.
func move(dst *Buffer, dstOffset int64, src *Buffer, srcOffset, bytes int64) {
	if src.data != nil {
		dst.write(dstOffset, src.data[srcOffset:srcOffset+bytes])
		return
	}
	piece := make([]byte, min(bytes, copyBytes))
	for done := int64(0); done < bytes; {
		n := min(bytes-done, copyBytes)
		src.read(srcOffset+done, piece[:n])
		dst.write(dstOffset+done, piece[:n])
		done += n
	}
}

// Close ends the queues, completes what is pending with ErrDeviceClosed and gives all memory back.
func (b *Base) Close() error {
	b.dispatcher.Close()
	b.memory.Close()
	return nil
}
