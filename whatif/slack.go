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
