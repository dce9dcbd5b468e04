package whatif

import (
	"cmp"
	"slices"
)

// share is what a helper takes of a step.
type share struct {
	rows   int // 0: nothing of this step
	shape  Shape
	moved  int64     // tokens of context whose KV goes to the helper first
	ns     [][]int64 // by slice: time of each distinct operator
	total  []int64   // by slice
	backAt int64     // when the link back has carried the current slice's rows, if nothing holds up the run
}

func newShare(parts []helperSlice) share {
	sh := share{ns: make([][]int64, len(parts)), total: make([]int64, len(parts))}
	for k := range parts {
		sh.ns[k] = make([]int64, parts[k].program.distinct())
	}
	return sh
}

func cloneShares(from []share) []share {
	to := append([]share(nil), from...)
	for i := range to {
		to[i].total = append([]int64(nil), from[i].total...)
		to[i].ns = make([][]int64, len(from[i].ns))
		for k := range to[i].ns {
			to[i].ns[k] = append([]int64(nil), from[i].ns[k]...)
		}
	}
	return to
}

// decode is a decoding sequence of the step that is being split.
type decode struct {
	context, slot int32
	taken         bool
}

// split cuts the helpers' shares off a step that has its times already, and gives the lane's own devices the times of the rest.
func (w *island) split(l *lane, f *flight) {
	step := &f.steps[0]
	for k := range f.shares {
		f.shares[k].rows = 0
	}
	attended, rows := &w.attended, &w.rows
	*attended, *rows = f.shapes[0], f.shapes[0]
	w.splitAttention(l, f, attended)
	left, logits := step.Tokens, len(step.Items)
	for k := range l.helpers {
		h, sh := &l.helpers[k], &f.shares[k]
		if h.kind != helpsRows || h.state != helperReady {
			continue
		}
		if sh.rows = step.Tokens * h.percent / 100; sh.rows > 0 {
			sh.shape = Shape{Tokens: l.spec.Engine.pad(sh.rows), Logits: len(step.Items) * h.percent / 100}
			left, logits = left-sh.rows, logits-sh.shape.Logits
		}
	}
	if left < step.Tokens {
		rows.Tokens, rows.Logits = 0, logits
		if left > 0 {
			rows.Tokens = l.spec.Engine.pad(left)
		}
	}
	any := false
	for k := range l.helpers {
		if h, sh := &l.helpers[k], &f.shares[k]; sh.rows > 0 {
			any = true
			h.flying++
			for i := range h.slices {
				sh.total[i] = h.times(&h.slices[i], &sh.shape, sh.ns[i])
			}
		}
	}
	if !any {
		return
	}
	for k := range l.spec.Ranks[0].Slices {
		p := l.spec.Ranks[0].Slices[k].Program
		f.total[k] = 0
		for i := range p.blocks {
			b := &p.blocks[i]
			f.total[k] += b.repeat * w.blockTimes(l, f, k, b, attended, rows)
		}
	}
}

// splitAttention chooses the decodes that helpers attend for and leaves the shape of the rest. Whose KV is at a helper stays there while it fits; then the
// longest contexts go, while the helper has fewer than its percentage of the decodes and room for them.
func (w *island) splitAttention(l *lane, f *flight, rest *Shape) {
	step, live := &f.steps[0], l.live[0]
	w.decodes = w.decodes[:0]
	for i := range step.Items {
		if it := &step.Items[i]; it.Tokens == 1 {
			w.decodes = append(w.decodes, decode{context: int32(it.Start), slot: int32(it.Slot())})
		} else {
			live[it.Slot()].lent = 0 // its KV is computed at home, perhaps anew
		}
	}
	slices.SortStableFunc(w.decodes, func(a, b decode) int { return cmp.Compare(b.context, a.context) })
	kvPerToken := int64(0)
	for k := range l.spec.Ranks[0].Slices {
		kvPerToken += l.spec.Ranks[0].Slices[k].Program.kvPerToken
	}
	page := int64(l.ranks[0].Config().BlockTokens)
	taken := 0
	for k := range l.helpers {
		h, sh := &l.helpers[k], &f.shares[k]
		if h.kind != helpsAttention || h.state != helperReady {
			continue
		}
		sh.shape, sh.moved = Shape{}, 0
		free, most := h.bytes, len(w.decodes)*h.percent/100
		for _, stays := range [2]bool{true, false} {
			for i := range w.decodes {
				d := &w.decodes[i]
				q := &live[d.slot]
				if d.taken || (q.lent == int32(k)+1) != stays || !stays && (q.lent != 0 || sh.rows >= most) {
					continue
				}
				bytes := (int64(d.context)/page + 1) * page * kvPerToken
				if bytes > free {
					if stays {
						q.lent = 0
					}
					continue
				}
				if !stays {
					q.lent = int32(k) + 1
					sh.moved += int64(d.context)
				}
				free -= bytes
				d.taken = true
				sh.rows++
				sh.shape.decode(int(d.context))
			}
		}
		sh.shape.Tokens, sh.shape.Logits = sh.rows, sh.rows
		taken += sh.rows
	}
	if taken == 0 {
		return
	}
	*rest = Shape{Tokens: rest.Tokens - taken, Logits: rest.Logits - taken, PrefillTokens: rest.PrefillTokens, PrefillWork: rest.PrefillWork}
	for i := range w.decodes {
		if !w.decodes[i].taken {
			rest.decode(int(w.decodes[i].context))
		}
	}
}

// times fills in the times of a helper's share of a slice and returns their sum.
func (h *helper) times(hs *helperSlice, sh *Shape, ns []int64) int64 {
	total := int64(0)
	for i := range hs.program.blocks {
		b := &hs.program.blocks[i]
		for k, c := range b.costs {
			if h.runs(b.kinds[k]) {
				ns[b.first+k] = c.Ns(sh)
				total += b.repeat * ns[b.first+k]
			}
		}
	}
	return total
}

// blockTimes fills in what a block of a slice takes on the lane's own device, its waits for helpers among it, and returns the sum. It waits for
// attention in its own attention, for rows of weight operators in the last of these.
func (w *island) blockTimes(l *lane, f *flight, slice int, b *programBlock, attended, rows *Shape) int64 {
	ns := f.ns[slice][b.first : b.first+len(b.costs)]
	attention, weights, last := int64(0), int64(0), -1
	for k, c := range b.costs {
		if (&helper{kind: helpsAttention}).runs(b.kinds[k]) {
			ns[k] = max(c.Ns(attended), w.longest(l, f, slice, b, helpsAttention))
			attention += ns[k]
		} else {
			ns[k] = c.Ns(rows)
			weights += ns[k]
			last = k
		}
	}
	if last >= 0 {
		if wait := w.longest(l, f, slice, b, helpsRows) - weights; wait > 0 {
			ns[last] += wait
			weights += wait
		}
	}
	return attention + weights
}

// longest is the time from the rows' leaving to their being back, of the slowest helper of a kind, if nothing else happens; 0 without one.
func (w *island) longest(l *lane, f *flight, slice int, b *programBlock, kind helperKind) int64 {
	most := int64(0)
	for k := range l.helpers {
		h, sh := &l.helpers[k], &f.shares[k]
		if h.kind != kind || sh.rows == 0 {
			continue
		}
		hs := &h.slices[slice]
		out, back := h.rowBytes(hs.program, b)
		there, home := &w.spec.Links[hs.out], &w.spec.Links[hs.back]
		ns := there.carryNs(out*int64(sh.rows)) + there.LatencyNs + home.carryNs(back*int64(sh.rows)) + home.LatencyNs
		for i := range b.costs {
			if h.runs(b.kinds[i]) {
				ns += sh.ns[slice][b.first+i]
			}
		}
		most = max(most, ns)
	}
	return most
}

// shareRef packs helper, flight and slice into an event's argument.
func shareRef(helper, flight, slice int32) int32 { return helper<<16 | flight<<8 | slice }

func (l *lane) shareAt(ref int32) (hs *helperSlice, sh *share) {
	k := ref >> 16
	return &l.helpers[k].slices[ref&0xff], &l.flights[ref>>8&0xff].shares[k]
}

// callHelpers sends the helpers their rows when a slice's own run begins, after the engine's own time.
func (w *island) callHelpers(r *run) {
	l := &w.lanes[r.lane]
	f := &l.flights[r.flight]
	if r.helper > 0 || r.pc > 0 || r.pc == 0 && (r.slice == 0 || f.lag[r.slice] > 0) {
		return // it is a helper's run, or goes on after an interruption
	}
	at := w.now
	if r.pc < 0 {
		at += f.lead(r.slice)
	}
	for k := range f.shares {
		if f.shares[k].rows > 0 && len(l.helpers[k].slices[r.slice].sequence) > 0 {
			f.out++
			w.at(at, eventRows, r.lane, shareRef(int32(k), r.flight, r.slice))
		}
	}
}

// rowsLeave puts a share's rows, and the KV of sequences that are new to the helper, onto the link.
func (w *island) rowsLeave(li, ref int32) {
	hs, sh := w.lanes[li].shareAt(ref)
	moved := sh.moved * hs.program.kvPerToken
	start := w.occupy(w.linkOf(hs.out), moved+hs.outBytes*int64(sh.rows))
	s := &w.spec.Links[hs.out]
	w.at(start+s.carryNs(moved+hs.firstBytes*int64(sh.rows))+s.LatencyNs, eventShare, li, ref)
}

// shareComes queues a share at its helper.
func (w *island) shareComes(li, ref int32) {
	l := &w.lanes[li]
	hs, sh := l.shareAt(ref)
	back := w.linkOf(hs.back)
	w.occupy(back, hs.backBytes*int64(sh.rows))
	sh.backAt = back.freeAt
	helper := ref >> 16
	w.enqueue(run{lane: li, flight: ref >> 8 & 0xff, slice: ref & 0xff, helper: helper + 1, due: l.flights[ref>>8&0xff].due, borrowed: true}, l.helpers[helper].device)
}

// joined says whether a run's end is its slice's: the own run and all shares have ended.
func (w *island) joined(r *run) bool {
	l := &w.lanes[r.lane]
	f := &l.flights[r.flight]
	if r.helper == 0 {
		f.ended = f.out > 0
		return !f.ended
	}
	ref := shareRef(r.helper-1, r.flight, r.slice)
	hs, sh := l.shareAt(ref)
	s := &w.spec.Links[hs.back]
	w.at(max(w.now+s.carryNs(hs.lastBytes*int64(sh.rows)), sh.backAt)+s.LatencyNs, eventBack, r.lane, ref)
	return false
}

// shareReturns ends a share, and the slice with the last of them.
func (w *island) shareReturns(li, ref int32) {
	f := &w.lanes[li].flights[ref>>8&0xff]
	f.out--
	if f.out == 0 && f.ended {
		f.ended = false
		w.sliceDone(li, ref>>8&0xff, ref&0xff)
	}
}

// freeHelpers ends the part of helpers in a step that is through.
func (w *island) freeHelpers(l *lane, f *flight) {
	for k := range f.shares {
		if f.shares[k].rows == 0 {
			continue
		}
		f.shares[k].rows = 0
		h := &l.helpers[k]
		if h.flying--; h.flying == 0 && h.state == helperEnding {
			w.releaseHelper(h)
		}
	}
}

// linkOf finds a link of the island.
func (w *island) linkOf(id int) *link {
	at, _ := slices.BinarySearchFunc(w.links, id, func(l link, id int) int { return l.id - id })
	return &w.links[at]
}
