//go:build invariants

package gpuworker

import (
	"fmt"

	"slicescheduler/gmg"
)

// checkInvariants panics unless free + held = capacity and what is held is exactly the blocks that are out. The lock is held.
func (m *Memory) checkInvariants() {
	var held [gmg.NumMemoryClasses]int64
	for b := range m.blocks {
		held[b.class] += b.bytes
	}
	if held != m.ledger.Held || m.ledger.Free() < 0 || m.ledger.Free()+m.ledger.HeldBytes() != m.ledger.CapacityBytes {
		panic(fmt.Sprintf("gpuworker: %s holds %v in blocks, its ledger says %+v", m.device, held, m.ledger))
	}
}
