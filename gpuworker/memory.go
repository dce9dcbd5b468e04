package gpuworker

import (
	"fmt"
	"sync"

	"slicescheduler/gmg"
)

// Memory is the one authority over a device's memory: a ledger under a lock, which hands out Blocks as tokens for what is held. Every backend keeps its
// memory in one, so that double releases and foreign buffers are caught alike everywhere. It is safe for concurrent use.
type Memory struct {
	device gmg.DeviceID

	mu     sync.Mutex
	ledger gmg.Ledger
	blocks map[*Block]struct{} // held now
	closed bool
}

// Block is one held piece of a Memory. Backends embed it in their buffers.
type Block struct {
	device gmg.DeviceID
	class  gmg.MemoryClass
	bytes  int64
}

// Device implements Buffer.
func (b *Block) Device() gmg.DeviceID { return b.device }

// Class implements Buffer.
func (b *Block) Class() gmg.MemoryClass { return b.class }

// Bytes implements Buffer.
func (b *Block) Bytes() int64 { return b.bytes }

// NewMemory returns a device's memory of a capacity in bytes, all free.
func NewMemory(device gmg.DeviceID, capacityBytes int64) *Memory {
	return &Memory{device: device, ledger: gmg.Ledger{CapacityBytes: capacityBytes}, blocks: make(map[*Block]struct{})}
}

// Take holds bytes in a class. It fails with gmg.ErrOutOfMemory, gmg.ErrLedger or, after Close, ErrDeviceClosed, and then holds nothing.
func (m *Memory) Take(class gmg.MemoryClass, bytes int64) (*Block, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, fmt.Errorf("reserve on %s: %w", m.device, ErrDeviceClosed)
	}
	next, err := m.ledger.Reserve(class, bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.device, err)
	}
	m.ledger = next
	b := &Block{device: m.device, class: class, bytes: bytes}
	m.blocks[b] = struct{}{}
	m.checkInvariants()
	return b, nil
}

// Give ends a hold. A block that is not held here, because it was given back before or is another device's, is ErrBadBuffer. After Close all is given
// back already, so a late release is no error.
func (m *Memory) Give(b *Block) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b == nil || b.device != m.device {
		return fmt.Errorf("release on %s: %w", m.device, ErrBadBuffer)
	}
	if m.closed {
		return nil
	}
	if _, held := m.blocks[b]; !held {
		return fmt.Errorf("release %d bytes of %v on %s twice: %w", b.bytes, b.class, m.device, ErrBadBuffer)
	}
	next, err := m.ledger.Release(b.class, b.bytes)
	if err != nil {
		return fmt.Errorf("%s: %w", m.device, err)
	}
	m.ledger = next
	delete(m.blocks, b)
	m.checkInvariants()
	return nil
}

// Holds says whether a block is held here now.
func (m *Memory) Holds(b *Block) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, held := m.blocks[b]
	return held
}

// Ledger returns the ledger at this moment.
func (m *Memory) Ledger() gmg.Ledger {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ledger
}

// Close gives all memory back and refuses more.
func (m *Memory) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.ledger = gmg.Ledger{CapacityBytes: m.ledger.CapacityBytes}
	clear(m.blocks)
	m.checkInvariants()
}
