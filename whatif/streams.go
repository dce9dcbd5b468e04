package whatif

import "fmt"

// Sharing lets prompts run beside decodes on one device, each with a part of its compute, as MuxServe does with CUDA's multi-process service. The device has
// as many streams as there are devices that are PartOf it, and itself. What a run gets is fixed when it starts, and so is how much slower it is for it.
type Sharing struct {
	// PrefillPermille and DecodePermille are how long a run takes, in thousandths of its time alone, with so many tenths of the compute; 0: it doesn't run
	// with so few.
	PrefillPermille, DecodePermille [11]int64
	// PrefillTenths is what prompts get beside decodes; alone they get everything. At most one step of prompts runs at a time, and while one waits no
	// decodes start. A step of decodes gets all that is left.
	PrefillTenths int
	// RoundRobin lets tenants take turns; otherwise the device's order decides.
	RoundRobin bool
}

// allTenths is a whole device.
const allTenths = 10

// MuxServe is the sharing of MuxServe with the slowdowns that its authors measured at 30, 40, 50 and 70 % of a device's compute, interpolated between.
func MuxServe(prefillTenths int, roundRobin bool) *Sharing {
	return &Sharing{
		PrefillPermille: [11]int64{3: 2670, 4: 2000, 5: 1650, 6: 1455, 7: 1260, 8: 1173, 9: 1087, 10: 1000},
		DecodePermille:  [11]int64{3: 1490, 4: 1310, 5: 1170, 6: 1115, 7: 1060, 8: 1040, 9: 1020, 10: 1000},
		PrefillTenths:   prefillTenths, RoundRobin: roundRobin,
	}
}

func (s *Sharing) validate() error {
	if s == nil {
		return nil
	}
	if s.PrefillTenths < 1 || s.PrefillTenths > allTenths || s.PrefillPermille[s.PrefillTenths] < 1000 {
		return fmt.Errorf("%w: prompts get %d tenths, with which they don't run", ErrSpec, s.PrefillTenths)
	}
	for _, v := range [2]*[11]int64{&s.PrefillPermille, &s.DecodePermille} {
		for i := range v {
			if v[allTenths] != 1000 || v[i] != 0 && v[i] < 1000 {
				return fmt.Errorf("%w: runs take %v thousandths of their time, must be 1000 with all and never less", ErrSpec, *v)
			}
		}
	}
	return nil
}

// slowdownNs is what a run takes beyond its time alone.
func (s *Sharing) slowdownNs(alone int64, prompts bool, tenths int) int64 {
	permille := s.DecodePermille[tenths]
	if prompts {
		permille = s.PrefillPermille[tenths]
	}
	return alone * (permille - 1000) / 1000
}

// chooseStream is the next run of a shared device's queue and the tenths that it gets, -1 when none may start now.
func (w *island) chooseStream(d *device, s *Sharing) (int, int) {
	free, prompts := allTenths, false
	for _, i := range d.rota.streams {
		if o := &w.devices[i]; o.busy {
			free -= int(o.current.tenths)
			prompts = prompts || w.lanes[o.current.lane].prefills(&w.lanes[o.current.lane].flights[o.current.flight])
		}
	}
	if k := w.nextOf(d, s, true); k >= 0 && !prompts {
		tenths := allTenths
		if w.decodesOn(d) {
			tenths = s.PrefillTenths
		}
		if free < tenths {
			return -1, 0
		}
		d.rota.served[rotaPrompts] = w.lanes[d.queue[k].lane].tenant
		return k, tenths
	}
	k := w.nextOf(d, s, false)
	if k < 0 || s.DecodePermille[free] == 0 {
		return -1, 0
	}
	d.rota.served[rotaDecodes] = w.lanes[d.queue[k].lane].tenant
	return k, free
}

// nextOf is the first run of prompts or of decodes in a queue, of the tenant whose turn is next if they take turns; -1 for none.
func (w *island) nextOf(d *device, s *Sharing, prompts bool) int {
	kind := rotaDecodes
	if prompts {
		kind = rotaPrompts
	}
	best, least := -1, int32(0)
	n := int32(len(w.tenants))
	for i := range d.queue {
		l := &w.lanes[d.queue[i].lane]
		if l.prefills(&l.flights[d.queue[i].flight]) != prompts {
			continue
		}
		if !s.RoundRobin {
			return i
		}
		if after := (l.tenant - d.rota.served[kind] - 1 + n) % n; best < 0 || after < least {
			best, least = i, after
		}
	}
	return best
}

// decodesOn says whether a lane with a slice on a device has a step of decodes in flight, here or elsewhere.
func (w *island) decodesOn(d *device) bool {
	for i := range w.lanes {
		if l := &w.lanes[i]; l.flying > l.prompts && l.uses(d.id) {
			return true
		}
	}
	return false
}
