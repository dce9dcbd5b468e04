package gmg

import (
	"errors"
	"fmt"
)

// MemoryClass is what a piece of device memory is used for.
type MemoryClass uint8

// Memory classes of the ledger.
const (
	MemWeights MemoryClass = iota
	MemKV
	MemWorkspace
	MemStaging
	NumMemoryClasses
)

var memoryClassNames = [NumMemoryClasses]string{"weights", "kv", "workspace", "staging"}

// String returns the class's name in listings and metrics.
func (c MemoryClass) String() string {
	if c >= NumMemoryClasses {
		return fmt.Sprintf("class(%d)", uint8(c))
	}
	return memoryClassNames[c]
}

// ErrOutOfMemory is returned when a reservation exceeds what is free.
var ErrOutOfMemory = errors.New("out of device memory")

// ErrLedger is returned for arithmetic that can only come of a bug: a negative size, or more given back than is held.
var ErrLedger = errors.New("memory ledger violated")

// Ledger is the arithmetic of one device's memory: Free() + sum of Held = CapacityBytes at every moment. It is a value; the owner of a device's
// memory keeps the one authoritative copy.
type Ledger struct {
	CapacityBytes int64                   `json:"capacityBytes"`
	Held          [NumMemoryClasses]int64 `json:"held"` // by MemoryClass
}

// HeldBytes returns the bytes held in all classes.
func (l Ledger) HeldBytes() int64 {
	var n int64
	for _, h := range l.Held {
		n += h
	}
	return n
}

// Free returns the bytes that may still be reserved.
func (l Ledger) Free() int64 { return l.CapacityBytes - l.HeldBytes() }

// Reserve returns the ledger with bytes more held in class c, or ErrOutOfMemory and the ledger unchanged.
func (l Ledger) Reserve(c MemoryClass, bytes int64) (Ledger, error) {
	if bytes < 0 || c >= NumMemoryClasses {
		return l, fmt.Errorf("%w: reserve %d bytes of %v", ErrLedger, bytes, c)
	}
	if free := l.Free(); bytes > free {
		return l, fmt.Errorf("%w: %d bytes of %v wanted, %d of %d free", ErrOutOfMemory, bytes, c, free, l.CapacityBytes)
	}
	l.Held[c] += bytes
	l.checkInvariants()
	return l, nil
}

// Release returns the ledger with bytes fewer held in class c.
func (l Ledger) Release(c MemoryClass, bytes int64) (Ledger, error) {
	if bytes < 0 || c >= NumMemoryClasses || bytes > l.Held[c] {
		return l, fmt.Errorf("%w: release %d bytes of %v", ErrLedger, bytes, c)
	}
	l.Held[c] -= bytes
	l.checkInvariants()
	return l, nil
}
