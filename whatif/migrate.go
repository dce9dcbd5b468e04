package whatif

import (
	"fmt"
	"slices"

	"slicescheduler/batching"
)

// migration is a sequence on its way from one lane to another.
type migration struct {
	tenant   int32
	from, to int32 // lanes
	id       batching.SeqID
	stage    migrationStage
	sent     int // tokens whose KV is on its way or there
	stopNs   int64
	free     bool
}

type migrationStage uint8

const (
	migrationDone migrationStage = iota
	migrationCopying
	migrationCatchingUp
	migrationStopped
)

// pollNs is how long a stopped sequence waits for the step that it still takes part in before it is looked at again.
const pollNs = 1_000_000

func (m MigrateSequence) apply(s *Sim) error {
	w, local, err := s.tenantForWriting(m.Tenant)
	if err != nil {
		return err
	}
	t := &w.tenants[local]
	if m.From < 0 || m.From >= len(t.lanes) || m.To < 0 || m.To >= len(t.lanes) || m.From == m.To {
		return fmt.Errorf("%w: no two lanes %d and %d to migrate between", ErrSpec, m.From, m.To)
	}
	w.beginMigration(migration{tenant: local, from: t.lanes[m.From], to: t.lanes[m.To], id: batching.SeqID(m.Request), stopNs: m.StopNs, free: m.Free})
	return nil
}

// beginMigration starts to copy a sequence, if it runs, has its first token and isn't on its way already.
func (w *island) beginMigration(m migration) bool {
	from, to := &w.lanes[m.from], &w.lanes[m.to]
	slot := from.ranks[0].SlotOf(m.id)
	if slot < 0 || from.state == laneGone || !to.serves() || len(from.ranks) > 1 || len(to.ranks) > 1 {
		return false
	}
	p, err := from.ranks[0].ProgressOf(m.id)
	q := &from.live[0][slot]
	if err != nil || !p.Running || q.first == 0 || q.migrating {
		return false
	}
	q.migrating = true
	at := int32(len(w.moves))
	if n := len(w.idleMoves); n > 0 {
		at = w.idleMoves[n-1]
		w.idleMoves = w.idleMoves[:n-1]
	} else {
		w.moves = append(w.moves, migration{})
	}
	m.stage = migrationCopying
	arrives := w.now
	if m.free {
		m.stage, m.stopNs = migrationStopped, 0
		_ = from.ranks[0].Pause(m.id) // it is there
	} else {
		m.sent = p.Tokens
		arrives = w.sendKV(from.spec, to.spec, p.Tokens)
	}
	w.moves[at] = m
	w.at(arrives, eventMigrate, at, 0)
	return true
}

// sendKV puts a number of tokens' KV on the links between two lanes' slices and returns when all has arrived. What stays on its device costs nothing.
func (w *island) sendKV(from, to *LaneSpec, tokens int) int64 {
	last := w.now
	a, b := from.Ranks[0].Slices, to.Ranks[0].Slices
	fromStage := 0
	for i := range a {
		end := fromStage + a[i].Program.layers
		toStage := 0
		for k := range b {
			toEnd := toStage + b[k].Program.layers
			if n := min(end, toEnd) - max(fromStage, toStage); n > 0 && a[i].Device != b[k].Device {
				bytes := int64(tokens) * a[i].Program.kvPerToken * int64(n) / int64(a[i].Program.layers)
				last = max(last, w.send(a[i].Device, b[k].Device, bytes))
			}
			toStage = toEnd
		}
		fromStage = end
	}
	return last
}

// migrate takes a migration's next stage.
func (w *island) migrate(at int32) {
	m := &w.moves[at]
	from, to := &w.lanes[m.from], &w.lanes[m.to]
	p, err := from.ranks[0].ProgressOf(m.id)
	if err != nil || !p.Running { // it ended, or lost its pages
		if slot := from.ranks[0].SlotOf(m.id); slot >= 0 && err == nil {
			from.live[0][slot].migrating = false
			_ = from.ranks[0].Resume(m.id)
		}
		w.endMigration(at)
		return
	}
	switch m.stage {
	case migrationCopying:
		m.stage = migrationCatchingUp
		arrives := w.sendKV(from.spec, to.spec, p.Tokens-m.sent)
		m.sent = p.Tokens
		w.at(arrives, eventMigrate, at, 0)
	case migrationCatchingUp:
		m.stage = migrationStopped
		_ = from.ranks[0].Pause(m.id)
		w.at(max(w.sendKV(from.spec, to.spec, p.Tokens-m.sent), w.now+m.stopNs), eventMigrate, at, 0)
	case migrationStopped:
		if p.InFlight > 0 {
			w.at(w.now+pollNs, eventMigrate, at, 0)
			return
		}
		w.switchOver(m, p)
		w.endMigration(at)
	}
}

func (w *island) endMigration(at int32) {
	w.moves[at].stage = migrationDone
	w.idleMoves = append(w.idleMoves, at)
}

// switchOver ends a migration: the sequence goes on in the new lane, or where it was if there is no room.
func (w *island) switchOver(m *migration, p batching.Progress) {
	from, to := &w.lanes[m.from], &w.lanes[m.to]
	slot := from.ranks[0].SlotOf(m.id)
	q := from.live[0][slot]
	from.live[0][slot].migrating = false
	q.migrating = false
	r := batching.Request{ID: m.id, PromptTokens: int(q.prompt), MaxTokens: int(q.output), ArrivalNs: q.arrival}
	if q.request >= 0 {
		r.Priority = w.tenants[m.tenant].spec.Requests[q.request].Priority
	}
	w.offer(to)
	if !to.serves() || to.ranks[0].Adopt(r, p.Tokens) != nil {
		_ = from.ranks[0].Resume(m.id)
		w.pump(m.from)
		return
	}
	_ = from.ranks[0].Cancel(m.id)
	to.setLive(0, to.ranks[0].SlotOf(m.id), q)
	w.charge(to)
	w.charge(from)
	w.pump(m.to)
	w.pump(m.from)
	if from.state == laneDraining && from.idle() {
		w.retire(m.from)
	}
}

// handOver sends a sequence that has its first token from a lane that only prefills to another one; without one it decodes where it is.
func (w *island) handOver(l *lane, id batching.SeqID) {
	t := &w.tenants[l.tenant]
	best := w.decodeLane(l, id)
	if best < 0 {
		return
	}
	if w.beginMigration(migration{tenant: l.tenant, from: t.lanes[l.number], to: best, id: id}) {
		_ = l.ranks[0].Pause(id) // it has nothing to do before it is there
	}
}

// decodeLane is the lane that the router names for a sequence, else the one with the least context that has room; -1 for none.
func (w *island) decodeLane(l *lane, id batching.SeqID) int32 {
	t := &w.tenants[l.tenant]
	if r, ok := w.spec.Router.(DecodeRouter); ok && uint64(id) < uint64(len(t.spec.Requests)) {
		a := &w.arrival
		w.describe(a, t, int32(id))
		a.Lanes = slices.DeleteFunc(a.Lanes, func(o LaneLoad) bool { return o.Prefill })
		number := r.RouteDecode(a)
		if !slices.ContainsFunc(a.Lanes, func(o LaneLoad) bool { return o.Lane == number }) {
			return -1
		}
		return t.lanes[number]
	}
	best, least := int32(-1), int64(never)
	for _, li := range t.lanes {
		o := &w.lanes[li]
		if !o.serves() || o.spec.Prefill {
			continue
		}
		load := w.loadOf(o)
		if c := load.ContextTokens * int64(load.Devices); load.FreeBlocks > 0 && c < least {
			best, least = li, c
		}
	}
	return best
}
