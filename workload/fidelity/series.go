package fidelity

import "math"

// seriesOffsetS is how long before the first request the recorded time series began, found by laying it over the counts that the requests' own stamps
// give. A series counts from when its logger was made.
func (r *Run) seriesOffsetS() float64 {
	best, least := 0.0, math.Inf(1)
	for offset := 0.0; offset <= maxOffsetS; offset += offsetStepS {
		miss := 0.0
		for _, row := range r.Series {
			miss += math.Abs(float64(row.Running - r.runningAt(row.AtS-offset)))
		}
		if miss < least {
			best, least = offset, miss
		}
	}
	return best
}

// Bounds of the search for the series' offset.
const (
	maxOffsetS  = 3
	offsetStepS = 0.1
)

// runningAt counts the requests that ran a time after the first was queued, by their stamps. Preempted ones count as running.
func (r *Run) runningAt(s float64) int {
	at, n := r.Answers[0].QueuedS+s, 0
	for i := range r.Answers {
		if a := &r.Answers[i]; a.ScheduledS <= at && at < a.LastS {
			n++
		}
	}
	return n
}

// depart finds the first second at which the simulated state is off by more than departShare of the largest recorded value.
func (r *Run) depart(series []Sample) map[string]float64 {
	if len(r.Series) == 0 {
		return nil
	}
	out := map[string]float64{}
	for name, of := range map[string]func(*Sample) float64{
		"running": func(s *Sample) float64 { return float64(s.Running) },
		"waiting": func(s *Sample) float64 { return float64(s.Waiting) },
		"kv":      func(s *Sample) float64 { return s.KVPct },
	} {
		largest := 0.0
		for i := range r.Series {
			largest = max(largest, of(&r.Series[i]))
		}
		if largest == 0 {
			continue // not recorded
		}
		out[name] = -1
		for i := range r.Series {
			if math.Abs(of(&r.Series[i])-of(&series[i])) > departShare*largest {
				out[name] = r.Series[i].AtS
				break
			}
		}
	}
	return out
}

// departShare is how far off a count may be, of its largest value, before it counts as departed.
const departShare = 0.1
