package whatif

// lateNs is the patience with sequences that are late: a first token that is late, and an answer that is this far behind, can't be mended any more, so the
// others go first, but not for ever.
const lateNs = 1_000_000_000

// setDue says when a flight is wanted: at the earliest time by which one of its sequences needs its next token, less what of its prompt comes after this
// step.
func (w *island) setDue(l *lane, f *flight) {
	t := &w.tenants[l.tenant]
	due := int64(never)
	sum := f.sum()
	for r := range l.ranks {
		if !f.took[r] {
			continue
		}
		for i := range f.steps[r].Items {
			it := &f.steps[r].Items[i]
			q := &l.live[r][it.Slot()]
			ttft, tpot := t.limits(q)
			at := int64(never)
			switch {
			case q.first == 0 && ttft > 0:
				at = q.arrival + ttft
				if it.Tokens > 0 && q.todo > 0 {
					at -= sum * int64(1+int(q.todo)/it.Tokens)
				}
			case q.first > 0 && tpot > 0:
				at = q.first + tpot*int64(it.Start+it.Tokens-int(q.prompt))
			}
			if late := w.now - at; late > lateNs || late > 0 && q.first == 0 {
				at = w.now + lateNs
			}
			due = min(due, at)
		}
	}
	// A later step may need what an earlier one computes, but decodes that are separate are of other sequences.
	ordered, before := true, l.flying > 1
	if l.spec.Batching.Separate > 0 {
		ordered, before = l.prefills(f), l.prompts > 1
	}
	if ordered {
		if before {
			due = max(due, l.lastDue)
		}
		l.lastDue = due
	}
	f.due = due
}

// hurry makes the steps that a lane has in flight as urgent as a request that waits behind them: they may be far ahead of what their answers need, and would
// otherwise let every other lane pass while it waits.
func (w *island) hurry(li, request int32) {
	l := &w.lanes[li]
	t := &w.tenants[l.tenant]
	ttft, _ := t.limits(&liveRequest{request: request})
	if ttft == 0 {
		return
	}
	due := t.spec.Requests[request].ArrivalNs + ttft
	if due < w.now {
		due = w.now + lateNs
	}
	l.lastDue = min(l.lastDue, due)
	for i := range l.flights {
		l.flights[i].due = min(l.flights[i].due, due)
	}
	for k := range l.spec.Ranks[0].Slices {
		w.hurryOn(w.deviceAt(l.spec.Ranks[0].Slices[k].Device), li, due)
	}
}

// hurryOn puts a lane's runs forward in a device's queue.
func (w *island) hurryOn(di, li int32, due int64) {
	d := &w.devices[di]
	if !d.busy {
		return
	}
	if d.current.lane == li {
		d.current.due = min(d.current.due, due)
	}
	for i := range d.queue {
		if r := d.queue[i]; r.lane == li && r.due > due {
			r.due = due
			k := i
			for ; k > 0 && r.ahead(&d.queue[k-1]); k-- {
				d.queue[k] = d.queue[k-1]
			}
			d.queue[k] = r
			if k == 0 && w.outranks(&r, &d.current) {
				w.yieldSoon(di)
			}
		}
	}
}
