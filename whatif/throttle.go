package whatif

import (
	"cmp"
	"fmt"

	"slicescheduler/batching"
)

func (a Throttle) apply(s *Sim) error {
	if a.MaxSequences < 0 {
		return fmt.Errorf("%w: a throttle of %d sequences; 0 lifts it", ErrSpec, a.MaxSequences)
	}
	w, local, err := s.tenantForWriting(a.Tenant)
	if err != nil {
		return err
	}
	t := &w.tenants[local]
	w.limit(t, a.MaxSequences)
	for _, li := range t.lanes {
		if l := &w.lanes[li]; l.flying == 0 && l.state != laneGone && l.state != laneLoading {
			w.pump(li)
		}
	}
	return nil
}

// limit throttles all lanes of a tenant.
func (w *island) limit(t *tenant, sequences int) {
	t.throttle = sequences
	for _, li := range t.lanes {
		w.lanes[li].throttle(sequences)
	}
}

// throttle limits the running sequences of each rank, 0: to what the lane was made for.
func (l *lane) throttle(sequences int) {
	most := cmp.Or(l.spec.Batching.MaxSequences, batching.DefaultMaxSequences)
	if sequences > 0 {
		most = min(most, sequences)
	}
	for _, s := range l.ranks {
		s.Limit(most)
	}
}
