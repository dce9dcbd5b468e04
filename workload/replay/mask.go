package replay

import (
	"slices"

	"slicescheduler/whatif"
)

// mask hides the truth from policies. What the world's lanes were compiled to says what operators really take, so a policy is shown lanes without programs
// and compiles them by what it thinks; and lanes that it hands over lose the programs that hold its thoughts.
type mask struct {
	seen map[*whatif.LaneSpec]*whatif.LaneSpec
}

// observe fills in what a policy may see of a world.
func (m *mask) observe(s *whatif.Sim, into *whatif.State) {
	s.Observe(into)
	for i := range into.Tenants {
		for k := range into.Tenants[i].Lanes {
			l := &into.Tenants[i].Lanes[k]
			hidden, ok := m.seen[l.Spec]
			if !ok {
				bare := withoutPrograms(*l.Spec)
				hidden = &bare
				m.seen[l.Spec] = hidden
			}
			l.Spec = hidden
		}
	}
}

func withoutPrograms(l whatif.LaneSpec) whatif.LaneSpec {
	l.Ranks = slices.Clone(l.Ranks)
	for r := range l.Ranks {
		l.Ranks[r].Slices = slices.Clone(l.Ranks[r].Slices)
		for k := range l.Ranks[r].Slices {
			l.Ranks[r].Slices[k].Program = nil
		}
	}
	return l
}

func lanesWithoutPrograms(lanes []whatif.LaneSpec) []whatif.LaneSpec {
	out := slices.Clone(lanes)
	for i := range out {
		out[i] = withoutPrograms(out[i])
	}
	return out
}

// actionWithoutPrograms does the same to an action's lanes.
func actionWithoutPrograms(a whatif.Action) whatif.Action {
	switch a := a.(type) {
	case whatif.AddLane:
		a.Lane = withoutPrograms(a.Lane)
		return a
	case whatif.MoveLane:
		a.To = withoutPrograms(a.To)
		return a
	case whatif.Reshape:
		a.Moves = slices.Clone(a.Moves)
		for i := range a.Moves {
			a.Moves[i].To = withoutPrograms(a.Moves[i].To)
		}
		return a
	}
	return a
}
