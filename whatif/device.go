package whatif

import (
	"math"
	"slices"
)

// enqueue adds a run to a device's queue and starts it if nothing runs.
func (w *island) enqueue(r run, spec int) {
	di := w.deviceAt(spec)
	d := &w.devices[di]
	w.seq++
	r.order, r.queuedNs = w.seq, w.now
	if d.rota != nil {
		w.queueManaged(di, r)
		return
	}
	if !d.busy {
		w.start(di, r)
		return
	}
	if d.insert(r) == 0 && w.outranks(&r, &d.current) { // else it is about to yield already, or doesn't
		w.yieldSoon(di)
	}
}

// insert puts a run into the queue, by ahead, and returns where.
func (d *device) insert(r run) int {
	i := len(d.queue)
	d.queue = append(d.queue, r)
	for i > 0 && r.ahead(&d.queue[i-1]) {
		d.queue[i] = d.queue[i-1]
		i--
	}
	d.queue[i] = r
	return i
}

// outranks says whether a waiting run makes the current one yield at the end of its operator.
func (w *island) outranks(r, current *run) bool {
	if r.borrowed != current.borrowed {
		return current.borrowed
	}
	return w.spec.Order == OrderUrgent && r.due < current.due
}

// ahead is the order of a device's queue: home work before borrowed work, then what is due first, then as it came.
func (r *run) ahead(o *run) bool {
	if r.borrowed != o.borrowed {
		return !r.borrowed
	}
	if r.due != o.due {
		return r.due < o.due
	}
	return r.order < o.order
}

// deviceAt is the island's index of a device.
func (w *island) deviceAt(id int) int32 {
	lo, hi := 0, len(w.devices)
	for lo < hi {
		if mid := (lo + hi) / 2; w.devices[mid].id < id {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return int32(lo)
}

// start makes a run the device's current one.
func (w *island) start(di int32, r run) {
	d := &w.devices[di]
	d.busy, d.current = true, r
	w.runs++
	d.generation++
	d.current.startNs, d.current.beganNs = w.now, w.now
	w.bind(d)
	w.at(w.now+w.until(d), eventRun, di, d.generation)
	if len(w.lanes[r.lane].helpers) > 0 {
		w.callHelpers(&r)
	}
}

// until is how long the current run goes on until its next event: one operator in exact mode, else all that is left of it.
func (w *island) until(d *device) int64 {
	r := &d.current
	f := &w.lanes[r.lane].flights[r.flight]
	if w.mode == Exact {
		return d.operatorNs(f)
	}
	if r.pc <= 0 {
		ns := w.operatorsNs(r)
		if r.pc < 0 {
			ns += f.lead(r.slice)
		}
		return ns
	}
	ns := int64(0)
	for _, op := range d.sequence[r.pc:] {
		ns += d.ns[op]
	}
	return ns
}

// operatorsNs is what all operators of a run take.
func (w *island) operatorsNs(r *run) int64 {
	f := &w.lanes[r.lane].flights[r.flight]
	if r.helper > 0 {
		return f.shares[r.helper-1].total[r.slice]
	}
	return f.total[r.slice]
}

// spend books time of the current run.
func (d *device) spend(ns int64) {
	d.busyNs += ns
	if d.current.borrowed {
		d.borrowedNs += ns
	}
}

// lead is what a slice takes before its operators: the engine's own time before the first one, and noise.
func (f *flight) lead(slice int32) int64 {
	if slice == 0 {
		return f.ahead + f.lag[0]
	}
	return f.lag[slice]
}

// operatorNs is the time of the operator at pc.
func (d *device) operatorNs(f *flight) int64 {
	if d.current.pc < 0 {
		return f.lead(d.current.slice)
	}
	return d.ns[d.sequence[d.current.pc]]
}

// yieldSoon lets a borrowed run give way at the first operator end after now. In exact mode every operator end looks at the queue anyway.
func (w *island) yieldSoon(di int32) {
	if w.mode == Exact {
		return
	}
	d := &w.devices[di]
	r := &d.current
	f := &w.lanes[r.lane].flights[r.flight]
	at := r.startNs
	for at <= w.now && int(r.pc) < len(d.sequence) {
		at += d.operatorNs(f)
		if r.pc >= 0 {
			w.operators++
		}
		r.pc++
	}
	d.generation++
	d.spend(at - r.startNs)
	r.startNs = at
	w.at(at, eventRun, di, d.generation)
}

// stepOperator ends an operator in exact mode and begins the next one in the place of its event. It returns false when there is more to it.
func (w *island) stepOperator(e *event) bool {
	d := &w.devices[e.a]
	r := &d.current
	if e.b != d.generation || int(r.pc)+1 >= len(d.sequence) || len(d.queue) > 0 && w.outranks(&d.queue[0], r) {
		return false
	}
	if r.pc >= 0 {
		w.operators++
	}
	r.pc++
	d.spend(w.now - r.startNs)
	r.startNs = w.now
	w.seq++
	w.events.replace(event{at: w.now + d.ns[d.sequence[r.pc]], seq: w.seq, what: eventRun, a: e.a, b: e.b})
	return true
}

// advance handles the end of an operator or of a run.
func (w *island) advance(di, generation int32) {
	d := &w.devices[di]
	if generation != d.generation {
		return // the run yielded earlier
	}
	r := &d.current
	d.spend(w.now - r.startNs)
	if w.mode == Exact {
		if r.pc >= 0 {
			w.operators++
		}
		r.pc++
	} else if r.startNs != w.now {
		w.operators += int64(len(d.sequence)) - int64(max(r.pc, 0))
		r.pc = int32(len(d.sequence))
	}
	r.startNs = w.now
	if int(r.pc) >= len(d.sequence) {
		w.endRun(di)
		return
	}
	if len(d.queue) > 0 && w.outranks(&d.queue[0], r) && d.queue[0].queuedNs < w.now {
		w.swap(di)
		return
	}
	w.at(w.now+w.until(d), eventRun, di, d.generation)
}

// swap puts the current run back and starts the first of the queue.
func (w *island) swap(di int32) {
	d := &w.devices[di]
	back, next := d.current, d.queue[0]
	w.keepRun(d)
	copy(d.queue, d.queue[1:])
	d.queue = d.queue[:len(d.queue)-1]
	d.insert(back)
	w.start(di, next)
}

// endRun starts the device's next run and moves the finished one's flight on.
func (w *island) endRun(di int32) {
	d := &w.devices[di]
	if d.manager > 0 {
		w.endManaged(di)
		return
	}
	r := d.current
	w.keepRun(d)
	d.busy = false
	if len(d.queue) > 0 {
		next := d.queue[0]
		copy(d.queue, d.queue[1:])
		d.queue = d.queue[:len(d.queue)-1]
		w.start(di, next)
	}
	if w.joined(&r) {
		w.sliceDone(r.lane, r.flight, r.slice)
	}
	w.leap(di)
}

// send occupies a link and returns when the last byte has arrived.
func (w *island) send(from, to int, bytes int64) int64 {
	id, ok := w.paths[[2]int32{int32(from), int32(to)}]
	if !ok {
		return w.now // the specification was validated, so this is the same device
	}
	at, ok := slices.BinarySearchFunc(w.links, int(id), func(l link, id int) int { return l.id - id })
	if !ok {
		return w.now
	}
	l := &w.links[at]
	w.occupy(l, bytes)
	return l.freeAt + w.spec.Links[id].LatencyNs
}

// occupy gives a link bytes to carry after those that it has already, and returns when it starts with them.
func (w *island) occupy(l *link, bytes int64) int64 {
	start := max(w.now, l.freeAt)
	l.freeAt = start + w.spec.Links[l.id].carryNs(bytes)
	l.bytes += bytes
	if w.spec.KeepTimeline {
		w.timeline = append(w.timeline, Segment{Device: -1, Link: l.id, StartNs: start, EndNs: l.freeAt, Bytes: bytes})
	}
	return start
}

// carryNs is how long bytes occupy a link.
func (l *LinkSpec) carryNs(bytes int64) int64 {
	return int64(math.Ceil(float64(bytes) / l.BandwidthBytesPerS * 1e9))
}
