package whatif

// RunWithin advances until a time, or until about so many runs of steps on devices have begun, and returns the time that was reached. It bounds what a
// forecast costs whatever the world does.
func (s *Sim) RunWithin(untilNs int64, runs int) int64 {
	const pieces = 32
	begin, from := s.begun(), s.now
	for i := int64(1); i <= pieces; i++ {
		at := from + (untilNs-from)*i/pieces
		s.Run(at)
		if done := s.begun() - begin; done >= int64(runs) {
			break
		}
	}
	return s.now
}

// begun counts the runs that have begun on devices.
func (s *Sim) begun() int64 {
	n := int64(0)
	for _, w := range s.islands {
		n += w.runs
	}
	return n
}
