package replay

import "slicescheduler/workload"

// watch counts violations as a run goes, so that a lost one ends early.
type watch struct {
	open     [][]int32 // by tenant: arrived requests that haven't ended when last looked
	next     []int     // by tenant: the request that arrives next
	violated []int64   // by tenant, for good
	overdue  []int64   // by tenant: waiting for a first token that is late already
	total    []int64   // by tenant
}

func newWatch(w *world) *watch {
	n := len(w.spec.Tenants)
	v := &watch{open: make([][]int32, n), next: make([]int, n), violated: make([]int64, n), overdue: make([]int64, n), total: make([]int64, n)}
	for i := range w.spec.Tenants {
		v.total[i] = int64(len(w.spec.Tenants[i].Requests))
	}
	return v
}

// look takes in what has happened, and says whether all has been answered and whether the run is lost. The runner's state is the present one.
func (v *watch) look(r *runner) (done, lost bool) {
	done = true
	for i := range v.open {
		requests, records := r.spec.Tenants[i].Requests, r.sim.Records(i)
		for v.next[i] < len(requests) && requests[v.next[i]].ArrivalNs <= r.state.NowNs {
			v.open[i] = append(v.open[i], int32(v.next[i]))
			v.next[i]++
		}
		still := v.open[i][:0]
		for _, k := range v.open[i] {
			rec, q := &records[k], &requests[k]
			switch {
			case rec.Refused:
				v.violated[i]++
			case rec.LastNs == 0:
				still = append(still, k)
			case workload.Judge(recordOf(q, rec), workload.SLA{}, r.setup.alone[i].request(q.PromptTokens, q.OutputTokens)).Violates():
				v.violated[i]++
			}
		}
		v.open[i] = still
		done = done && len(still) == 0 && v.next[i] == len(requests)
		v.overdue[i] = 0
		t := &r.state.Tenants[i]
		late := func(firstNs, arrivalNs, limitNs int64) {
			if firstNs == 0 && r.state.NowNs-arrivalNs > limitNs {
				v.overdue[i]++
			}
		}
		for k := range t.Lanes {
			for _, s := range t.Lanes[k].Sequences {
				late(s.FirstNs, s.ArrivalNs, s.TTFTLimitNs)
			}
		}
		for _, s := range t.Held {
			late(s.FirstNs, s.ArrivalNs, s.TTFTLimitNs)
		}
	}
	limit := r.opts.StopAbovePct
	return done, !done && limit > 0 && 100*v.rate() > limit
}

// rate is the violation rate that the run can't fall below any more.
func (v *watch) rate() float64 {
	s := make([]workload.Summary, len(v.total))
	for i := range s {
		s[i] = workload.Summary{Requests: v.total[i], Violations: v.violated[i] + v.overdue[i]}
	}
	return workload.ViolationRate(s)
}
