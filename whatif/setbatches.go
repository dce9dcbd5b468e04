package whatif

import "fmt"

func (a SetBatches) apply(s *Sim) error {
	w, local, err := s.tenantForWriting(a.Tenant)
	if err != nil {
		return err
	}
	t := &w.tenants[local]
	if a.Lane < 0 || a.Lane >= len(t.lanes) || !w.lanes[t.lanes[a.Lane]].serves() {
		return fmt.Errorf("%w: tenant %d has no lane %d that serves", ErrSpec, a.Tenant, a.Lane)
	}
	l := &w.lanes[t.lanes[a.Lane]]
	c := l.spec.Batching
	if a.MicroBatches < 1 || a.MicroBatches > c.InFlight-c.Separate || c.Separate == 0 {
		return fmt.Errorf("%w: %d micro-batches of a lane with %d steps in flight, of these %d of prompts", ErrSpec, a.MicroBatches, c.InFlight, c.Separate)
	}
	spec := *l.spec // others may share it
	spec.Batching.MicroBatches = a.MicroBatches
	l.spec = &spec
	for _, r := range l.ranks {
		r.SetMicroBatches(a.MicroBatches)
	}
	return nil
}
