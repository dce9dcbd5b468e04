package whatif

import "fmt"

// rota is the queue of a device that is shared in a way of its own: by streams that run beside each other, or by lanes whose weights take turns in its
// memory. Runs on such a device never give way to others.
type rota struct {
	streams []int32 // of the island: this device and those that are PartOf it
	held    bool    // nothing starts while a finished run's lane moves on
	served  [2]int32
	turn    int32 // the lane that has the device, -1 at first
	endsNs  int64 // of the turn, when others wait
	lanes   []residence
}

// kinds of work that take turns, see rota.served.
const (
	rotaDecodes = iota
	rotaPrompts
)

// manage finds the devices of an island that are shared in a way of their own. It is called whenever devices have joined.
func (w *island) manage() {
	for di := range w.devices {
		d := &w.devices[di]
		s := &w.spec.Devices[d.id]
		if s.Sharing == nil && s.Swap == nil {
			continue
		}
		if d.rota == nil {
			d.rota = &rota{turn: -1, served: [2]int32{-1, -1}}
		}
		d.rota.streams = []int32{int32(di)}
		d.manager = int32(di) + 1
		for k := range w.devices {
			if w.spec.Devices[w.devices[k].id].PartOf == d.id+1 {
				d.rota.streams = append(d.rota.streams, int32(k))
				w.devices[k].manager = int32(di) + 1
			}
		}
	}
}

// clone copies a rota for another simulation.
func (r *rota) clone() *rota {
	if r == nil {
		return nil
	}
	c := *r
	c.lanes = append([]residence(nil), r.lanes...)
	return &c
}

// renumber adds to the numbers of lanes and tenants when an island is absorbed by another.
func (r *rota) renumber(lanes, tenants int32) {
	if r == nil {
		return
	}
	for i := range r.served {
		if r.served[i] >= 0 {
			r.served[i] += tenants
		}
	}
	if r.turn >= 0 {
		r.turn += lanes
	}
	for i := range r.lanes {
		r.lanes[i].lane += lanes
	}
}

// queueManaged adds a run to the queue of a managed device, and starts what may start.
func (w *island) queueManaged(di int32, r run) {
	d := &w.devices[di]
	if d.rota.turn >= 0 && r.lane != d.rota.turn && !d.othersWait() {
		d.rota.endsNs = w.now + w.lanes[d.rota.turn].turnNs
	}
	d.insert(r)
	w.dispatch(di)
}

// othersWait says whether lanes wait that don't have the turn.
func (d *device) othersWait() bool {
	for i := range d.queue {
		if d.queue[i].lane != d.rota.turn {
			return true
		}
	}
	return false
}

// dispatch starts runs of a managed device's queue for as long as one may start.
func (w *island) dispatch(home int32) {
	for d := &w.devices[home]; !d.rota.held && len(d.queue) > 0; {
		stream := w.idleStream(d)
		if stream < 0 {
			return
		}
		k, tenths := -1, 0
		if s := w.spec.Devices[d.id].Sharing; s != nil {
			k, tenths = w.chooseStream(d, s)
		} else {
			k = w.chooseTurn(d)
		}
		if k < 0 {
			return
		}
		r := d.queue[k]
		d.queue = append(d.queue[:k], d.queue[k+1:]...)
		f := &w.lanes[r.lane].flights[r.flight]
		if s := w.spec.Devices[d.id].Sharing; s != nil {
			r.tenths = int8(tenths)
			f.lag[r.slice] += s.slowdownNs(f.total[r.slice], w.lanes[r.lane].prefills(f), tenths)
		} else {
			f.lag[r.slice] += w.bring(d, r.lane)
		}
		if f.lag[r.slice] > 0 {
			r.pc = -1
		}
		w.start(stream, r)
	}
}

func (w *island) idleStream(d *device) int32 {
	for _, s := range d.rota.streams {
		if !w.devices[s].busy {
			return s
		}
	}
	return -1
}

// endManaged moves a finished run's flight on and lets others start; what its lane forms next competes with what waits.
func (w *island) endManaged(di int32) {
	d := &w.devices[di]
	home := d.manager - 1
	r := d.current
	w.keepRun(d)
	d.busy = false
	w.devices[home].rota.held = true
	w.sliceDone(r.lane, r.flight, r.slice)
	w.devices[home].rota.held = false
	w.dispatch(home)
}

// managed says whether a device is shared in a way of its own.
func (d *DeviceSpec) managed() bool { return d.Sharing != nil || d.Swap != nil || d.PartOf > 0 }

// validateDevices says what is wrong with devices that are shared in a way of their own.
func (s *Spec) validateDevices() error {
	for i := range s.Devices {
		d := &s.Devices[i]
		switch {
		case d.PartOf < 0 || d.PartOf > len(s.Devices) || d.PartOf == i+1:
			return fmt.Errorf("%w: device %s is part of device %d, which isn't there", ErrSpec, d.ID, d.PartOf-1)
		case d.PartOf > 0 && (s.Devices[d.PartOf-1].Sharing == nil || d.MemoryBytes != 0):
			return fmt.Errorf("%w: device %s is a stream, so it has no memory, and the device that it is part of needs a Sharing", ErrSpec, d.ID)
		case d.Sharing != nil && d.Swap != nil || (d.Sharing != nil || d.Swap != nil) && (d.PartOf > 0 || s.Order == OrderUrgent):
			return fmt.Errorf("%w: device %s is shared in two ways, or runs would give way to others on it", ErrSpec, d.ID)
		}
		if err := d.Sharing.validate(); err != nil {
			return fmt.Errorf("device %s: %w", d.ID, err)
		}
		if err := d.Swap.validate(d); err != nil {
			return fmt.Errorf("device %s: %w", d.ID, err)
		}
	}
	return nil
}

// validateManaged says whether a lane may lie where it does.
func (s *Spec) validateManaged(l *LaneSpec) error {
	slices := 0
	for _, r := range l.Ranks {
		slices += len(r.Slices)
	}
	for _, r := range l.Ranks {
		for k := range r.Slices {
			sl := &r.Slices[k]
			d := &s.Devices[sl.Device]
			switch {
			case d.PartOf > 0:
				return fmt.Errorf("%w: device %s is a stream of another one, on which lanes are laid", ErrSpec, d.ID)
			case d.managed() && (l.Borrowed || len(sl.Gang) > 0):
				return fmt.Errorf("%w: device %s is shared in a way of its own, which has no borrowed lanes and no gangs", ErrSpec, d.ID)
			case d.Swap != nil && (slices > 1 || l.SharedKV || sl.KVBytes != 0):
				return fmt.Errorf("%w: on device %s, where weights are swapped, a lane has one slice and reserves no memory", ErrSpec, d.ID)
			}
		}
	}
	return nil
}
