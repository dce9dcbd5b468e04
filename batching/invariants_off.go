//go:build !invariants

package batching

func (s *Scheduler) checkInvariants() {}
