package whatif

import (
	"fmt"
	"slices"

	"slicescheduler/gmg"
)

// Sim is a running simulation. It isn't safe for concurrent use, but forks of one simulation may run at the same time once they are made.
type Sim struct {
	spec     *Spec
	mode     Mode
	islands  []*island
	ofTenant []int32 // island of each tenant
	ofDevice []int32 // island of each device
	touched  []bool  // islands that an action has reached since the fork
	now      int64
	forked   bool // it keeps no records
}

// New starts a world, or returns an ErrSpec.
func New(spec *Spec, mode Mode) (*Sim, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	s := &Sim{spec: spec, mode: mode}
	s.partition()
	for ti := range spec.Tenants {
		if err := s.place(ti); err != nil {
			return nil, err
		}
	}
	for _, w := range s.islands {
		w.open()
	}
	return s, nil
}

// partition finds the islands: tenants, devices and links that touch each other.
func (s *Sim) partition() {
	nd, nt := len(s.spec.Devices), len(s.spec.Tenants)
	group := make([]int, nd+nt)
	for i := range group {
		group[i] = i
	}
	find := func(i int) int {
		for group[i] != i {
			group[i] = group[group[i]]
			i = group[i]
		}
		return i
	}
	for ti := range s.spec.Tenants {
		for _, l := range s.spec.Tenants[ti].Lanes {
			for _, d := range devicesOf(&l) {
				group[find(d)] = find(nd + ti)
			}
		}
	}
	for d := range s.spec.Devices {
		if of := s.spec.Devices[d].PartOf; of > 0 {
			group[find(d)] = find(of - 1)
		}
	}
	islandOf, paths := map[int]int32{}, map[[2]int32]int32{}
	for i := len(s.spec.Links) - 1; i >= 0; i-- { // of several the first counts
		l := &s.spec.Links[i]
		paths[[2]int32{int32(l.From), int32(l.To)}] = int32(i)
	}
	assign := func(i int) int32 {
		root := find(i)
		at, ok := islandOf[root]
		if !ok {
			at = int32(len(s.islands))
			islandOf[root] = at
			s.islands = append(s.islands, &island{spec: s.spec, paths: paths, mode: s.mode, now: s.now})
		}
		return at
	}
	s.ofDevice, s.ofTenant = make([]int32, nd), make([]int32, nt)
	for d := range nd {
		s.ofDevice[d] = assign(d)
		w := s.islands[s.ofDevice[d]]
		m := s.spec.Devices[d].MemoryBytes
		w.devices = append(w.devices, device{id: d, ledger: gmg.Ledger{CapacityBytes: m}, accounted: m > 0})
	}
	for t := range nt {
		s.ofTenant[t] = assign(nd + t)
		w := s.islands[s.ofTenant[t]]
		nt := tenant{id: t, spec: &s.spec.Tenants[t]}
		nt.totals.TTFTLimitNs, nt.totals.TPOTLimitNs = nt.spec.TTFTLimitNs, nt.spec.TPOTLimitNs
		if s.spec.KeepRecords {
			nt.records = make([]Record, len(nt.spec.Requests))
		}
		w.tenants = append(w.tenants, nt)
	}
	for i, l := range s.spec.Links {
		if a, b := s.ofDevice[l.From], s.ofDevice[l.To]; a == b {
			s.islands[a].links = append(s.islands[a].links, link{id: i})
		}
	}
	for _, w := range s.islands {
		w.manage()
	}
	s.touched = make([]bool, len(s.islands))
}

// devicesOf lists the devices that a lane uses.
func devicesOf(l *LaneSpec) []int {
	var out []int
	for _, r := range l.Ranks {
		for _, sl := range r.Slices {
			out = append(append(out, sl.Device), sl.Gang...)
		}
	}
	return out
}

// place puts a tenant's lanes and running sequences into its island.
func (s *Sim) place(ti int) error {
	w := s.islands[s.ofTenant[ti]]
	local := w.tenantAt(ti)
	spec := &s.spec.Tenants[ti]
	for k := range spec.Lanes {
		lane, err := s.spec.resolve(ti, &spec.Lanes[k])
		if err != nil {
			return fmt.Errorf("tenant %s, lane %d: %w", spec.ID, k, err)
		}
		li, err := w.addLane(lane, local)
		if err != nil {
			return fmt.Errorf("tenant %s, lane %d: %w", spec.ID, k, err)
		}
		if err := w.reserve(li); err != nil {
			return fmt.Errorf("%w: tenant %s, lane %d: %v", ErrSpec, spec.ID, k, err)
		}
	}
	for _, q := range spec.Live {
		if err := w.adopt(local, q); err != nil {
			return fmt.Errorf("tenant %s: %w", spec.ID, err)
		}
	}
	return nil
}

// open schedules what happens first.
func (w *island) open() {
	for ti := range w.tenants {
		if t := &w.tenants[ti]; len(t.spec.Requests) > t.next {
			w.at(t.spec.Requests[t.next].ArrivalNs, eventArrival, int32(ti), 0)
		}
	}
	for li := range w.lanes {
		w.pump(int32(li))
	}
}

func (w *island) tenantAt(id int) int32 {
	for i := range w.tenants {
		if w.tenants[i].id == id {
			return int32(i)
		}
	}
	return -1
}

// Now is the time that the simulation has reached.
func (s *Sim) Now() int64 { return s.now }

// Run advances the whole world up to and including a time.
func (s *Sim) Run(untilNs int64) {
	for i := range s.islands {
		s.runIsland(i, untilNs)
	}
	s.now = max(s.now, untilNs)
}

// RunTouched advances only what actions have reached since the fork; all else goes as it does in the simulation that this one was forked from.
func (s *Sim) RunTouched(untilNs int64) {
	for i, t := range s.touched {
		if t {
			s.runIsland(i, untilNs)
		}
	}
	s.now = max(s.now, untilNs)
}

// Drain advances until nothing is left to happen and returns when that was.
func (s *Sim) Drain() int64 {
	last := s.now
	for i := range s.islands {
		s.runIsland(i, never-1)
		last = max(last, s.islands[i].now)
	}
	s.now = last
	return last
}

func (s *Sim) runIsland(i int, until int64) {
	if w := s.islands[i]; len(w.events) > 0 && w.events[0].at <= until || w.now < until {
		s.own(i).run(until)
	}
}

// own returns an island that only this simulation refers to.
func (s *Sim) own(i int) *island {
	old := s.islands[i]
	if !old.shared {
		return old
	}
	w := old.clone()
	if !s.forked {
		for k := range w.tenants {
			w.tenants[k].records = slices.Clone(old.tenants[k].records)
		}
		w.timeline = slices.Clone(old.timeline)
	}
	s.islands[i] = w
	return w
}

// run handles events up to a time.
func (w *island) run(until int64) {
	w.horizon = until
	for len(w.events) > 0 && w.events[0].at <= until {
		e := w.events[0]
		w.now = e.at
		if e.what == eventRun && w.mode == Exact && w.stepOperator(&e) {
			continue
		}
		w.events.pop()
		switch e.what {
		case eventArrival:
			w.arrive(e.a)
		case eventTransfer:
			l := &w.lanes[e.a]
			slice := e.b & 0xff
			w.enqueue(l.runOf(e.a, e.b>>8, slice), l.spec.Ranks[0].Slices[slice].Device)
		case eventRun:
			w.advance(e.a, e.b)
		case eventReady:
			w.ready(e.a)
		case eventWarm:
			w.pump(e.a)
		case eventMigrate:
			w.migrate(e.a)
		case eventReshape:
			w.reshape(e.a)
		case eventRows:
			w.rowsLeave(e.a, e.b)
		case eventShare:
			w.shareComes(e.a, e.b)
		case eventBack:
			w.shareReturns(e.a, e.b)
		case eventLoaded:
			w.lanes[e.a].helpers[e.b].loaded(w.now)
		}
		if w.released {
			w.feed()
		}
	}
	if until < never-1 {
		w.now = until
	}
}

// Fork returns a simulation that goes on from here by itself. It costs no more than the number of islands; what either changes is copied when it does.
func (s *Sim) Fork() *Sim {
	f := &Sim{spec: s.spec, mode: s.mode, now: s.now, forked: true, ofTenant: s.ofTenant, ofDevice: s.ofDevice}
	f.islands = append([]*island(nil), s.islands...)
	f.touched = make([]bool, len(s.islands))
	for _, w := range s.islands {
		if w != nil {
			w.shared = true
		}
	}
	return f
}
