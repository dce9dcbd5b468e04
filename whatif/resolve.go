package whatif

import (
	"cmp"
	"fmt"
	"slices"

	"slicescheduler/batching"
)

// resolve returns a lane's specification with the programs that the catalog has for it; the one given stays as it is.
func (s *Spec) resolve(tenant int, l *LaneSpec) (*LaneSpec, error) {
	out := *l
	out.Ranks = slices.Clone(l.Ranks)
	for r := range out.Ranks {
		out.Ranks[r].Slices = slices.Clone(l.Ranks[r].Slices)
		for k := range out.Ranks[r].Slices {
			sl := &out.Ranks[r].Slices[k]
			if sl.Program != nil {
				continue
			}
			if s.Catalog == nil {
				return nil, fmt.Errorf("%w: slice %d has no program, and there is no catalog to compile it", ErrSpec, k)
			}
			p, err := s.Catalog.Program(tenant, sl.Device, sl.Stages)
			if err != nil {
				return nil, err
			}
			sl.Program = p
		}
	}
	return &out, nil
}

// pageTokens is how many tokens a page of the lane holds.
func (l *LaneSpec) pageTokens() int {
	return cmp.Or(l.Batching.BlockTokens, batching.DefaultBlockTokens)
}
