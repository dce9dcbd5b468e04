package whatif

import (
	"fmt"
	"math"
	"slices"

	"slicescheduler/gmg"
)

// Swap lets lanes whose weights don't all fit take turns on a device, as Aegaeon does. Weights and KV of a lane that gets its turn are brought into the
// device's memory over the host link; those of the lane that ran longest ago make room: its KV goes to the host, its weights are there anyway.
type Swap struct {
	BytesPerS float64 // of the host link, each way
	HiddenPct int     // of a load is hidden by fetching ahead
	// RoundRobin lets lanes take turns in order; otherwise the turn goes to the lane of the run that the device's order puts first.
	RoundRobin bool
}

func (s *Swap) validate(d *DeviceSpec) error {
	if s != nil && (s.BytesPerS <= 0 || s.HiddenPct < 0 || s.HiddenPct > 100 || d.MemoryBytes <= 0) {
		return fmt.Errorf("%w: swapping needs memory, a host link above 0 bytes/s and 0 to 100 %% of it hidden", ErrSpec)
	}
	return nil
}

// residence is what a lane has on a device that swaps, the one that ran longest ago first.
type residence struct {
	lane        int32
	weights, kv int64 // kv: in the device's memory, or on the host
	here        bool
}

// SetTurn sets for how long a lane is served on a device that swaps before others have their turn.
type SetTurn struct {
	Tenant, Lane int
	TurnNs       int64
}

func (a SetTurn) apply(s *Sim) error {
	w, local, err := s.tenantForWriting(a.Tenant)
	if err != nil {
		return err
	}
	if a.Lane < 0 || a.Lane >= len(w.tenants[local].lanes) || a.TurnNs < 0 {
		return fmt.Errorf("%w: tenant %d has no lane %d, or a turn of %d ns", ErrSpec, a.Tenant, a.Lane, a.TurnNs)
	}
	w.lanes[w.tenants[local].lanes[a.Lane]].turnNs = a.TurnNs
	return nil
}

// chooseTurn is the next run of a swapping device's queue: of the lane that has the turn, until its time is over and others wait.
func (w *island) chooseTurn(d *device) int {
	r := d.rota
	if r.turn >= 0 && (w.now < r.endsNs || !d.othersWait()) {
		for i := range d.queue {
			if d.queue[i].lane == r.turn {
				return i
			}
		}
	}
	best, least := -1, int32(0)
	n := int32(len(w.lanes))
	for i := range d.queue {
		li := d.queue[i].lane
		if li == r.turn {
			continue
		}
		if !w.spec.Devices[d.id].Swap.RoundRobin {
			best = i
			break
		}
		if after := (li - r.turn - 1 + n) % n; best < 0 || after < least {
			best, least = i, after
		}
	}
	r.turn = d.queue[best].lane
	r.endsNs = w.now + w.lanes[r.turn].turnNs
	return best
}

// swapper is the device of a lane whose weights are swapped, or nil.
func (w *island) swapper(l *lane) *device {
	d := &w.devices[w.deviceAt(l.spec.Ranks[0].Slices[0].Device)]
	if w.spec.Devices[d.id].Swap == nil {
		return nil
	}
	return d
}

// admitSwapped checks that a lane with all of its KV fits by itself, and takes its weights in at once if there is room.
func (w *island) admitSwapped(d *device, li int32) error {
	l := &w.lanes[li]
	p := l.spec.Ranks[0].Slices[0].Program
	weights := l.weightBytes(&l.spec.Ranks[0].Slices[0])
	most := weights + int64(l.spec.Batching.KVBlocks)*p.kvPerToken*int64(l.spec.pageTokens())
	if most > d.ledger.CapacityBytes {
		if d.shortage.Bytes == 0 {
			d.shortage = Shortage{w.now, w.spec.Devices[d.id].ID, gmg.MemWeights.String(), most, d.ledger.CapacityBytes}
		}
		return fmt.Errorf("%w: %s: %d bytes of weights and KV, its memory is %d", ErrMemory, w.spec.Devices[d.id].ID, most, d.ledger.CapacityBytes)
	}
	e := residence{lane: li, weights: weights, here: weights <= d.ledger.Free()}
	d.rota.lanes = append(d.rota.lanes, e)
	d.account()
	return nil
}

// account enters what is resident into the ledger.
func (d *device) account() {
	d.ledger.Held[gmg.MemWeights], d.ledger.Held[gmg.MemKV] = 0, 0
	for _, e := range d.rota.lanes {
		if e.here {
			d.ledger.Held[gmg.MemWeights] += e.weights
			d.ledger.Held[gmg.MemKV] += e.kv
		}
	}
}

// bring makes a lane resident with the KV that its sequences hold now and returns how long that takes.
func (w *island) bring(d *device, li int32) int64 {
	r := d.rota
	at := slices.IndexFunc(r.lanes, func(e residence) bool { return e.lane == li })
	e := r.lanes[at]
	r.lanes = append(append(r.lanes[:at], r.lanes[at+1:]...), e)
	last := &r.lanes[len(r.lanes)-1]
	var in, out int64
	if !last.here {
		in = last.weights + last.kv
		last.here = true
	}
	l := &w.lanes[li]
	last.kv = int64(l.ranks[0].Stats().HeldBlocks) * l.spec.Ranks[0].Slices[0].Program.kvPerToken * int64(l.spec.pageTokens())
	d.account()
	for i := 0; d.ledger.Free() < 0 && i < len(r.lanes)-1; i++ {
		if o := &r.lanes[i]; o.here {
			o.here = false
			out += o.kv
			d.account()
		}
	}
	if in+out == 0 {
		return 0
	}
	s := w.spec.Devices[d.id].Swap
	ns := int64(math.Ceil(float64(max(in, out))/s.BytesPerS*1e9)) * int64(100-s.HiddenPct) / 100
	r.endsNs += ns // a turn is time in which it runs
	return ns
}

// leaveSwapped forgets a lane that is gone.
func (d *device) leaveSwapped(li int32) {
	d.rota.lanes = slices.DeleteFunc(d.rota.lanes, func(e residence) bool { return e.lane == li })
	if d.rota.turn == li {
		d.rota.turn = -1
	}
	d.account()
}
