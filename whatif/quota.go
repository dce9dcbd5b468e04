package whatif

import "fmt"

// SetQuota limits how many pages of shared memory a lane may hold. What it holds already stays until its sequences end. With fewer pages than a request
// needs, that request is computed again and again, so quotas should leave room for the longest.
type SetQuota struct {
	Tenant, Lane int
	Pages        int // up to Batching.KVBlocks of its specification
}

func (a SetQuota) apply(s *Sim) error {
	w, local, err := s.tenantForWriting(a.Tenant)
	if err != nil {
		return err
	}
	if a.Lane < 0 || a.Lane >= len(w.tenants[local].lanes) || a.Pages < 1 {
		return fmt.Errorf("%w: tenant %d has no lane %d, or a quota of %d pages", ErrSpec, a.Tenant, a.Lane, a.Pages)
	}
	li := w.tenants[local].lanes[a.Lane]
	l := &w.lanes[li]
	if l.shared == nil {
		return fmt.Errorf("%w: lane %d of tenant %d has a pool of its own, which needs no quota", ErrSpec, a.Lane, a.Tenant)
	}
	l.quota = min(a.Pages, l.spec.Batching.KVBlocks)
	if l.starved {
		w.pump(li)
	}
	return nil
}
