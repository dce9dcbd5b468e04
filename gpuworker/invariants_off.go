//go:build !invariants

package gpuworker

func (m *Memory) checkInvariants() {}
