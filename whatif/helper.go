package whatif

import (
	"errors"
	"fmt"
	"slices"

	"slicescheduler/gmg"
)

// helper is a device that runs a share of every step of a lane: some decodes' attention, or some rows of the weight operators.
//
// The model. A step's share is cut off when the step is launched. The slice's own device runs the rest; in each block it waits for the helper's time plus
// the way of the rows there and back, if that is longer than its own. The helper gets one borrowed run for each slice, of its share of all blocks one after
// the other. It is queued when the first block's rows are there, and the slice ends when the run has ended too and its last results are back: home work at the
// helper holds up the step only by what doesn't fit into the gaps between blocks, which is the least that it can. Both links carry the rows of all
// blocks in one piece.
type helper struct {
	kind    helperKind
	state   helperState
	device  int // of Spec.Devices
	percent int
	bytes   int64         // reserved on the device
	slices  []helperSlice // by slice of the lane
	flying  int           // steps in flight that have a share here
	readyNs int64
}

type helperKind uint8

const (
	helpsAttention helperKind = iota
	helpsRows
)

type helperState uint8

const (
	helperReady helperState = iota
	helperLoading
	helperEnding // gets no new share
	helperGone
)

// class is the kind of memory that a helper takes.
func (h *helper) class() gmg.MemoryClass {
	if h.kind == helpsAttention {
		return gmg.MemKV
	}
	return gmg.MemWeights
}

// runs says whether an operator of a kind is among those that the helper takes a share of.
func (h *helper) runs(kind gmg.OpKind) bool {
	return (kind == gmg.OpAttention) == (h.kind == helpsAttention)
}

// helperSlice is a helper's part in one slice.
type helperSlice struct {
	program   *Program // the slice's stages at the helper's costs
	sequence  []opRef  // what it runs of them, empty: nothing
	out, back int      // of Spec.Links
	// Bytes of one row over all blocks, there and back, of the first block there and of the last one back.
	outBytes, backBytes, firstBytes, lastBytes int64
}

// rowBytes is what one row of a block carries to the helper and back: q, k and v against the attended row, or the other way round; where nothing
// is attended to, the residual row both ways.
func (h *helper) rowBytes(p *Program, b *programBlock) (out, back int64) {
	switch {
	case h.kind == helpsAttention:
		return b.qkvBytes, b.attendedBytes
	case b.qkvBytes > 0:
		return b.attendedBytes, b.qkvBytes
	}
	return int64(p.hiddenBytes), int64(p.hiddenBytes)
}

func (a BorrowAttention) apply(s *Sim) error {
	if a.Percent > 0 && a.KVBytes <= 0 {
		return fmt.Errorf("%w: attention of %d %% is borrowed with %d bytes of KV; the share needs room there", ErrSpec, a.Percent, a.KVBytes)
	}
	return s.borrow(a.Tenant, a.Lane, helper{kind: helpsAttention, device: a.Helper, percent: a.Percent, bytes: a.KVBytes}, 0)
}

func (a BorrowRows) apply(s *Sim) error {
	if a.LoadNs < 0 {
		return fmt.Errorf("%w: LoadNs is %d, must not be negative", ErrSpec, a.LoadNs)
	}
	return s.borrow(a.Tenant, a.Lane, helper{kind: helpsRows, device: a.Helper, percent: a.Percent}, a.LoadNs)
}

// borrow begins, changes or ends a helper's part in a lane.
func (s *Sim) borrow(tenant, number int, h helper, loadNs int64) error {
	if h.percent < 0 || h.percent > 100 || h.device < 0 || h.device >= len(s.spec.Devices) {
		return fmt.Errorf("%w: %d %% on device %d; a helper is a device and takes 0 to 100 %%", ErrSpec, h.percent, h.device)
	}
	w, local, err := s.tenantForWriting(tenant)
	if err != nil {
		return err
	}
	lanes := w.tenants[local].lanes
	if number < 0 || number >= len(lanes) || w.lanes[lanes[number]].state != laneReady {
		return fmt.Errorf("%w: no lane %d that serves", ErrSpec, number)
	}
	l := &w.lanes[lanes[number]]
	old := slices.IndexFunc(l.helpers, func(o helper) bool {
		return o.kind == h.kind && o.device == h.device && o.state <= helperLoading
	})
	if h.percent == 0 {
		if old >= 0 {
			w.endHelper(l, old)
		}
		return nil
	}
	sum := h.percent
	for k := range l.helpers {
		if o := &l.helpers[k]; k != old && o.kind == h.kind && o.state <= helperLoading {
			sum += o.percent
		}
	}
	if sum > 100 {
		return fmt.Errorf("%w: helpers of lane %d would take %d %% together", ErrSpec, number, sum)
	}
	if err := s.equip(tenant, l.spec, &h); err != nil {
		return err
	}
	into := int(s.ofTenant[tenant])
	s.join(into, int(s.ofDevice[h.device]))
	w = s.own(into)
	return w.addHelper(w.tenants[w.tenantAt(tenant)].lanes[number], h, old, loadNs)
}

// equip works out what a helper runs and which links its rows take.
func (s *Sim) equip(tenant int, l *LaneSpec, h *helper) error {
	if len(l.Ranks) > 1 {
		return fmt.Errorf("%w: a lane of %d ranks has no helpers", ErrSpec, len(l.Ranks))
	}
	for k := range l.Ranks[0].Slices {
		sl := &l.Ranks[0].Slices[k]
		hs := helperSlice{program: sl.Program, out: s.spec.link(sl.Device, h.device), back: s.spec.link(h.device, sl.Device)}
		if sl.Device == h.device || len(sl.Gang) > 0 {
			return fmt.Errorf("%w: slice %d lies on the helper itself or on a gang; a helper serves slices on single other devices", ErrSpec, k)
		}
		if s.spec.Devices[sl.Device].managed() || s.spec.Devices[h.device].managed() {
			return fmt.Errorf("%w: devices of several streams or of swapped weights neither lend nor borrow", ErrSpec)
		}
		if hs.out < 0 || hs.back < 0 {
			return fmt.Errorf("%w: %s and %s are not linked both ways", ErrSpec, s.spec.Devices[sl.Device].ID, s.spec.Devices[h.device].ID)
		}
		if s.spec.Catalog != nil && sl.Stages.Len() > 0 {
			p, err := s.spec.Catalog.Program(tenant, h.device, sl.Stages)
			if err != nil {
				return err
			}
			hs.program = p
		}
		if len(hs.program.sequence) != len(sl.Program.sequence) || hs.program.distinct() != sl.Program.distinct() {
			return fmt.Errorf("%w: slice %d has other operators on %s", ErrSpec, k, s.spec.Devices[h.device].ID)
		}
		hs.cut(h)
		h.slices = append(h.slices, hs)
		if h.kind == helpsRows {
			h.bytes += hs.program.weightBytes
		}
	}
	return nil
}

// cut keeps the operators of the slice that the helper takes a share of.
func (hs *helperSlice) cut(h *helper) {
	p := hs.program
	for _, op := range p.sequence {
		i := 0
		for i+1 < len(p.blocks) && p.blocks[i+1].first <= int(op) {
			i++
		}
		b := &p.blocks[i]
		if !h.runs(b.kinds[int(op)-b.first]) {
			continue
		}
		out, back := h.rowBytes(p, b)
		if len(hs.sequence) == 0 {
			hs.firstBytes = out
		}
		hs.lastBytes = back
		hs.sequence = append(hs.sequence, op)
	}
	for i := range p.blocks {
		if b := &p.blocks[i]; h.takesPart(b) {
			out, back := h.rowBytes(p, b)
			hs.outBytes, hs.backBytes = hs.outBytes+b.repeat*out, hs.backBytes+b.repeat*back
		}
	}
}

// takesPart says whether the helper runs anything of a block.
func (h *helper) takesPart(b *programBlock) bool { return slices.ContainsFunc(b.kinds, h.runs) }

// addHelper reserves a helper's memory and lets it take part, in the place of the old one where there is one.
func (w *island) addHelper(li int32, h helper, old int, loadNs int64) error {
	l := &w.lanes[li]
	d := &w.devices[w.deviceAt(h.device)]
	if old >= 0 {
		o := &l.helpers[old]
		if d.accounted {
			before := d.ledger
			d.ledger.Held[h.class()] -= o.bytes
			if err := w.take(d, h.class(), h.bytes); err != nil {
				d.ledger = before
				return err
			}
		}
		o.percent, o.bytes = h.percent, h.bytes
		return nil
	}
	if d.accounted {
		if err := w.take(d, h.class(), h.bytes); err != nil {
			return err
		}
	}
	at := slices.IndexFunc(l.helpers, func(o helper) bool { return o.state == helperGone })
	if at < 0 {
		at = len(l.helpers)
		l.helpers = append(l.helpers, helper{})
		for i := range l.flights {
			l.flights[i].shares = append(l.flights[i].shares, share{})
		}
	}
	h.readyNs = w.now + loadNs
	l.helpers[at] = h
	for i := range l.flights {
		l.flights[i].shares[at] = newShare(h.slices)
	}
	if loadNs > 0 {
		l.helpers[at].state = helperLoading
		w.at(h.readyNs, eventLoaded, li, int32(at))
	}
	return nil
}

// loaded lets a helper take shares once its weights are there. One that ended while they came, or another in its place, is left alone.
func (h *helper) loaded(now int64) {
	if h.state == helperLoading && h.readyNs <= now {
		h.state = helperReady
	}
}

// endHelper gives a helper no more shares, and its memory back once those in flight are through. Its sequences' KV is home then, at no cost.
func (w *island) endHelper(l *lane, k int) {
	h := &l.helpers[k]
	h.state = helperEnding
	for r := range l.live {
		for i := range l.live[r] {
			if l.live[r][i].lent == int32(k)+1 {
				l.live[r][i].lent = 0
			}
		}
	}
	if h.flying == 0 {
		w.releaseHelper(h)
	}
}

// endHelpers ends all helpers of a lane that goes.
func (w *island) endHelpers(l *lane) {
	for k := range l.helpers {
		if l.helpers[k].state < helperEnding {
			w.endHelper(l, k)
		}
	}
}

func (w *island) releaseHelper(h *helper) {
	h.state, w.released = helperGone, true
	if d := &w.devices[w.deviceAt(h.device)]; d.accounted {
		d.ledger.Held[h.class()] -= h.bytes
	}
}

// lends says whether a lane has helpers, be it only some that are about to end.
func (l *lane) lends() bool {
	for k := range l.helpers {
		if l.helpers[k].state != helperGone {
			return true
		}
	}
	return false
}

// observeHelpers appends what can be seen of a lane's helpers.
func (l *lane) observeHelpers(out []HelperState) []HelperState {
	for k := range l.helpers {
		if h := &l.helpers[k]; h.state <= helperLoading {
			out = append(out, HelperState{Device: h.device, Percent: h.percent, Rows: h.kind == helpsRows, Bytes: h.bytes, ReadyNs: h.readyNs})
		}
	}
	return out
}

// resumeLending puts helpers and throttles back. A helper that finds no room, as the state may be of several moments, is left out; the KV of sequences that were
// lent moves again.
func (s *Sim) resumeLending(st *State) error {
	for ti := range st.Tenants {
		t := &st.Tenants[ti]
		for k := range t.Lanes {
			if t.Lanes[k].Phase != LaneServing {
				continue
			}
			for _, h := range t.Lanes[k].Helpers {
				a := Action(BorrowAttention{ti, k, h.Device, h.Percent, h.Bytes})
				if h.Rows {
					a = BorrowRows{ti, k, h.Device, h.Percent, max(h.ReadyNs-st.NowNs, 0)}
				}
				if err := a.apply(s); err != nil && !errors.Is(err, ErrMemory) {
					return fmt.Errorf("tenant %s, lane %d: %w", s.spec.Tenants[ti].ID, k, err)
				}
			}
		}
		if t.MaxSequences > 0 {
			w := s.islands[s.ofTenant[ti]]
			w.limit(&w.tenants[w.tenantAt(ti)], t.MaxSequences)
		}
	}
	return nil
}
