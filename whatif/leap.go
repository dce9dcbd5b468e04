package whatif

// leap jumps over steps of a lane that has its device for itself, between which nothing happens but one more token for every sequence. The times of the
// steps are summed one by one from the same shapes, so nothing is lost by it.
func (w *island) leap(di int32) {
	d := &w.devices[di]
	if w.mode == Exact || w.spec.KeepTimeline || !d.busy || d.current.pc >= 0 || d.manager > 0 {
		return
	}
	l := &w.lanes[d.current.lane]
	f := &l.flights[l.head]
	if f.number == 1 && l.spec.ColdNs > 0 {
		return // the first step of a lane that takes in running sequences is held up, the next ones aren't
	}
	if len(l.spec.Ranks[0].Slices) != 1 || l.flying != len(l.flights) || int(d.current.flight) != l.head || len(d.queue) != l.flying-1 || l.state != laneReady ||
		l.lends() {
		return
	}
	w.offer(l)
	limit := maxLeap
	for r := range l.ranks {
		if !l.decodesOnly(f, r) || len(l.inbox[r]) > 0 {
			return
		}
		if limit = l.ranks[r].Steady(limit); limit < minLeap {
			return
		}
	}
	for i := range d.queue {
		if d.queue[i].lane != d.current.lane {
			return
		}
	}
	if w.spec.Order != OrderArrival && w.sharers(d.id) > 1 {
		return // what is due when would have to be found out for every step
	}
	ends := d.current.startNs + f.lead(0) + f.total[0]
	if k, at := w.count(l, f, ends, limit, w.nextBut(di)); k > 0 {
		w.jump(di, k, at)
	}
}

// Bounds of a leap. A very long one would only make the next event wait in vain; a very short one costs more than it saves.
const (
	maxLeap = 4096
	minLeap = 2
)

// decodesOnly says whether a rank's step in flight holds nothing but decodes of sequences that have their first token.
func (l *lane) decodesOnly(f *flight, rank int) bool {
	step := &f.steps[rank]
	if !f.took[rank] || f.shapes[rank].PrefillTokens > 0 {
		return false
	}
	for i := range step.Items {
		if it := &step.Items[i]; it.Tokens != 1 || !it.Sample || it.Start < int(l.live[rank][it.Slot()].prompt) {
			return false
		}
	}
	return true
}

// nextBut is the last time before anything can reach a device but its current run. Runs of other devices can't when every lane that uses this one uses
// no other; arrivals can when their tenant has a lane here.
func (w *island) nextBut(di int32) int64 {
	t := w.horizon
	id := w.devices[di].id
	closed := w.closed(id)
	for i := range w.events {
		e := &w.events[i]
		if e.what == eventRun && (e.a == di || closed) || e.what == eventTransfer && closed || e.what == eventArrival && closed && !w.visits(e.a, id) {
			continue
		}
		t = min(t, e.at-1)
	}
	return t
}

// closed says whether every lane with a slice or a helper on a device has nothing elsewhere.
func (w *island) closed(device int) bool {
	for i := range w.lanes {
		l := &w.lanes[i]
		if l.state == laneGone {
			continue
		}
		here, elsewhere := false, false
		for k := range l.spec.Ranks[0].Slices {
			if l.spec.Ranks[0].Slices[k].Device == device {
				here = true
			} else {
				elsewhere = true
			}
		}
		for k := range l.helpers {
			if l.helpers[k].state == helperGone {
				continue
			}
			if l.helpers[k].device == device {
				here = true
			} else {
				elsewhere = true
			}
		}
		if here && elsewhere {
			return false
		}
	}
	return true
}

// visits says whether a tenant has a lane with a slice on a device.
func (w *island) visits(tenant int32, device int) bool {
	for _, li := range w.tenants[tenant].lanes {
		for k := range w.lanes[li].spec.Ranks[0].Slices {
			if w.lanes[li].spec.Ranks[0].Slices[k].Device == device {
				return true
			}
		}
	}
	return false
}

// count advances the shapes of the oldest flight step by step and returns how many steps end by `last`, and when the one after them ends.
func (w *island) count(l *lane, f *flight, ends int64, limit int, last int64) (int, int64) {
	k := 0
	program := l.spec.Ranks[0].Slices[0].Program
	for k < limit && ends <= last {
		for r := range f.shapes {
			f.shapes[r].grow(1)
		}
		f.total[0] = program.again(f.shapes, f.ns[0], f.total[0])
		k++
		f.lag[0] = w.spec.Noise.lagNs(l, f.number+uint64(k), 0, f.total[0])
		ends += f.lead(0) + f.total[0]
	}
	return k, ends
}

// jump puts the lane k steps further, its current step ending at a time.
func (w *island) jump(di int32, k int, ends int64) {
	d := &w.devices[di]
	l := &w.lanes[d.current.lane]
	f := &l.flights[l.head]
	for r := range l.ranks {
		w.stepsOf = w.stepsOf[:0]
		for i := range l.flying {
			w.stepsOf = append(w.stepsOf, &l.flights[(l.head+i)%len(l.flights)].steps[r])
		}
		l.ranks[r].Leap(k, w.stepsOf...)
		w.tenants[l.tenant].totals.OutputTokens += int64(k) * int64(len(f.steps[r].Items))
	}
	for i := 1; i < l.flying; i++ {
		o := &l.flights[(l.head+i)%len(l.flights)]
		for r := range o.shapes {
			o.shapes[r].grow(k)
		}
		l.recost(o)
	}
	l.number64 += uint64(k)
	for i := range l.flights {
		l.flights[i].number += uint64(k)
		if o := &l.flights[i]; o != f {
			o.lag[0] = w.spec.Noise.lagNs(l, o.number, 0, o.total[0])
		}
	}
	w.charge(l)
	l.decodeNs = f.ahead + f.total[0]
	d.spend(ends - f.lead(0) - f.total[0] - d.current.startNs)
	d.current.startNs = ends - f.lead(0) - f.total[0]
	d.generation++
	w.steps += int64(k)
	w.leaps++
	w.operators += int64(k) * int64(len(d.sequence))
	w.at(ends, eventRun, di, d.generation)
}

// recost fills in a flight's times from shapes that are padded already.
func (l *lane) recost(f *flight) {
	f.total[0] = l.spec.Ranks[0].Slices[0].Program.times(f.shapes, f.ns[0])
}

// sharers is how many lanes have a slice on a device.
func (w *island) sharers(device int) int {
	n := 0
	for i := range w.lanes {
		if l := &w.lanes[i]; l.state != laneGone && l.uses(device) {
			n++
		}
	}
	return n
}
