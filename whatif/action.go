package whatif

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"slicescheduler/batching"
	"slicescheduler/gmg"
)

// ErrMemory is returned for an action whose memory isn't free when it starts.
var ErrMemory = errors.New("device memory would be exceeded")

// Shortage is the first time that something didn't fit into a device.
type Shortage struct {
	AtNs      int64  `json:"atNs"` // 0 with Bytes 0: never
	Device    string `json:"device"`
	Class     string `json:"class"`
	Bytes     int64  `json:"bytes"` // wanted
	FreeBytes int64  `json:"freeBytes"`
}

// AddLane gives a tenant another lane: a replica, a spread lane, or a layer run in a stranded fragment. It serves once LoadNs have passed.
type AddLane struct {
	Tenant int
	Lane   LaneSpec
	LoadNs int64
}

// RemoveLane takes a lane out: it gets no new requests, its waiting ones are routed anew, and its memory is free when the running ones are done.
type RemoveLane struct {
	Tenant, Lane int
}

// MoveLane replaces a lane by another shape of it: AddLane, and RemoveLane of the old one as soon as the new one serves.
type MoveLane struct {
	Tenant, Lane int
	To           LaneSpec
	LoadNs       int64
}

// Action is a change of what lies or runs where: the types of this package with an apply method.
type Action interface {
	apply(s *Sim) error
}

// Apply takes an action now. An error (ErrSpec, ErrMemory) leaves the simulation as it was, except that the shortage is noted for the forecast.
func (s *Sim) Apply(a Action) error {
	err := a.apply(s)
	for i, t := range s.touched {
		if w := s.islands[i]; t && w.released {
			s.own(i).feed()
		}
	}
	return err
}

func (a AddLane) apply(s *Sim) error {
	_, err := s.addLane(a.Tenant, a.Lane, a.LoadNs, -1)
	return err
}

func (a MoveLane) apply(s *Sim) error {
	w, local, err := s.tenantForWriting(a.Tenant)
	if err != nil {
		return err
	}
	if a.Lane < 0 || a.Lane >= len(w.tenants[local].lanes) {
		return fmt.Errorf("%w: no lane %d", ErrSpec, a.Lane)
	}
	_, err = s.addLane(a.Tenant, a.To, a.LoadNs, a.Lane)
	return err
}

func (a RemoveLane) apply(s *Sim) error {
	w, local, err := s.tenantForWriting(a.Tenant)
	if err != nil {
		return err
	}
	t := &w.tenants[local]
	if a.Lane < 0 || a.Lane >= len(t.lanes) || w.lanes[t.lanes[a.Lane]].state == laneGone {
		return fmt.Errorf("%w: no lane %d", ErrSpec, a.Lane)
	}
	w.drain(t.lanes[a.Lane])
	return nil
}

// tenantForWriting finds a tenant's island and makes it this simulation's own.
func (s *Sim) tenantForWriting(tenant int) (*island, int32, error) {
	if tenant < 0 || tenant >= len(s.ofTenant) {
		return nil, 0, fmt.Errorf("%w: no tenant %d", ErrSpec, tenant)
	}
	i := s.ofTenant[tenant]
	w := s.own(int(i))
	s.touched[i] = true
	return w, w.tenantAt(tenant), nil
}

// addLane joins the islands of the tenant and of the lane's devices and starts loading. replaces is the lane that goes once the new one serves, or -1.
func (s *Sim) addLane(tenant int, spec LaneSpec, loadNs int64, replaces int) (int32, error) {
	if tenant < 0 || tenant >= len(s.ofTenant) {
		return 0, fmt.Errorf("%w: no tenant %d", ErrSpec, tenant)
	}
	if err := s.spec.validateLane(&spec); err != nil {
		return 0, err
	}
	lane, err := s.spec.resolve(tenant, &spec)
	if err != nil {
		return 0, err
	}
	into := int(s.ofTenant[tenant])
	for _, d := range devicesOf(&spec) {
		s.join(into, int(s.ofDevice[d]))
	}
	w := s.own(into)
	s.touched[into] = true
	li, err := w.addLane(lane, w.tenantAt(tenant))
	if err != nil {
		return 0, err
	}
	if err := w.reserve(li); err != nil {
		w.lanes[li].state = laneGone
		return 0, err
	}
	w.lanes[li].state, w.lanes[li].replaces, w.lanes[li].readyNs = laneLoading, int32(replaces), w.now+loadNs
	w.at(w.now+loadNs, eventReady, li, 0)
	return li, nil
}

// join moves everything of island b into island a.
func (s *Sim) join(a, b int) {
	if a == b {
		return
	}
	w, o := s.own(a), s.own(b)
	w.absorb(o)
	s.touched[a], s.touched[b] = true, false
	s.islands[b] = &island{spec: s.spec, paths: w.paths, mode: s.mode, now: o.now}
	s.ofTenant, s.ofDevice = slices.Clone(s.ofTenant), slices.Clone(s.ofDevice)
	for i, v := range s.ofTenant {
		if int(v) == b {
			s.ofTenant[i] = int32(a)
		}
	}
	for i, v := range s.ofDevice {
		if int(v) == b {
			s.ofDevice[i] = int32(a)
		}
	}
	w.links = w.links[:0:0]
	for i, l := range s.spec.Links {
		if int(s.ofDevice[l.From]) == a && int(s.ofDevice[l.To]) == a {
			w.links = append(w.links, w.linkState(o, i))
		}
	}
}

// linkState keeps a link's occupation across a join.
func (w *island) linkState(o *island, id int) link {
	for _, ls := range [2][]link{w.oldLinks, o.oldLinks} {
		for _, l := range ls {
			if l.id == id {
				return l
			}
		}
	}
	return link{id: id}
}

// absorb takes over another island's state; devices stay sorted, and everything that refers to them or to lanes by index is renumbered.
func (w *island) absorb(o *island) {
	lanes, tenants := int32(len(w.lanes)), int32(len(w.tenants))
	moves, reshapes := int32(len(w.moves)), int32(len(w.reshapes))
	w.oldLinks, o.oldLinks = w.links, o.links
	all := append(slices.Clone(w.devices), o.devices...)
	slices.SortFunc(all, func(a, b device) int { return a.id - b.id })
	mapA, mapB := deviceMap(w.devices, all), deviceMap(o.devices, all)
	renumber := func(e *event, devices []int32, lane, tenant, moves, reshapes int32) {
		switch e.what {
		case eventRun:
			e.a = devices[e.a]
		case eventArrival:
			e.a += tenant
		case eventMigrate:
			e.a += moves
		case eventReshape:
			e.a += reshapes
		default:
			e.a += lane
		}
	}
	for i := range w.events {
		renumber(&w.events[i], mapA, 0, 0, 0, 0)
	}
	for i := range o.devices {
		d := &all[mapB[i]]
		d.current.lane += lanes
		for k := range d.queue {
			d.queue[k].lane += lanes
		}
	}
	for i := range o.devices {
		all[mapB[i]].rota.renumber(lanes, tenants)
	}
	w.devices = all
	w.manage()
	events := w.events
	w.events = nil
	for _, e := range o.events {
		renumber(&e, mapB, lanes, tenants, moves, reshapes)
		events = append(events, e)
	}
	for _, e := range events {
		w.events.push(e)
	}
	for i := range o.lanes {
		o.lanes[i].tenant += tenants
	}
	for i := range o.tenants {
		for k := range o.tenants[i].lanes {
			o.tenants[i].lanes[k] += lanes
		}
	}
	w.absorbMoves(o, lanes, tenants)
	w.lanes, w.tenants = append(w.lanes, o.lanes...), append(w.tenants, o.tenants...)
	w.now, w.seq = max(w.now, o.now), max(w.seq, o.seq)
	w.operators, w.steps, w.leaps, w.runs = w.operators+o.operators, w.steps+o.steps, w.leaps+o.leaps, w.runs+o.runs
}

func deviceMap(from, to []device) []int32 {
	m := make([]int32, len(from))
	for i := range from {
		m[i] = int32(slices.IndexFunc(to, func(d device) bool { return d.id == from[i].id }))
	}
	return m
}

// addLane appends a lane to its tenant, without memory.
func (w *island) addLane(spec *LaneSpec, tenant int32) (int32, error) {
	l, err := newLane(spec, tenant)
	if err != nil {
		return 0, err
	}
	t := &w.tenants[tenant]
	l.number, l.replaces = len(t.lanes), -1
	if t.throttle > 0 {
		l.throttle(t.throttle)
	}
	l.key = splitMix(uint64(t.id)<<32 | uint64(l.number))
	w.lanes = append(w.lanes, l)
	t.lanes = append(t.lanes, int32(len(w.lanes)-1))
	return int32(len(w.lanes) - 1), nil
}

// reserve takes the memory of a lane's weights and KV on all of its devices, or on none.
func (w *island) reserve(li int32) error {
	l := &w.lanes[li]
	if d := w.swapper(l); d != nil {
		return w.admitSwapped(d, li)
	}
	before := make([]gmg.Ledger, len(w.devices))
	for i := range w.devices {
		before[i] = w.devices[i].ledger
	}
	for _, r := range l.spec.Ranks {
		for k := range r.Slices {
			if err := w.reserveSlice(&r.Slices[k], l.weightBytes(&r.Slices[k])); err != nil {
				for i := range w.devices {
					w.devices[i].ledger = before[i]
				}
				return err
			}
		}
	}
	l.held = true
	return nil
}

func (w *island) reserveSlice(sl *SliceSpec, weights int64) error {
	for _, id := range append([]int{sl.Device}, sl.Gang...) {
		d := &w.devices[w.deviceAt(id)]
		if !d.accounted {
			continue
		}
		if err := w.take(d, gmg.MemWeights, weights); err != nil {
			return err
		}
		if err := w.take(d, gmg.MemKV, sl.KVBytes); err != nil {
			return err
		}
	}
	return nil
}

// take reserves bytes of an accounted device, or notes the shortage.
func (w *island) take(d *device, class gmg.MemoryClass, bytes int64) error {
	next, err := d.ledger.Reserve(class, bytes)
	if err != nil {
		if d.shortage.Bytes == 0 {
			d.shortage = Shortage{w.now, w.spec.Devices[d.id].ID, class.String(), bytes, d.ledger.Free()}
		}
		return fmt.Errorf("%w: %s: %v", ErrMemory, w.spec.Devices[d.id].ID, err)
	}
	d.ledger = next
	return nil
}

// ready lets a loaded lane serve, and drains the one that it replaces.
func (w *island) ready(li int32) {
	l := &w.lanes[li]
	l.state = laneReady
	t := &w.tenants[l.tenant]
	t.scores = t.scores[:0]
	held := t.held
	t.held = nil
	for _, q := range held {
		w.route(l.tenant, q)
	}
	if l = &w.lanes[li]; l.replaces < 0 {
		w.spreadWaiting(l.tenant)
	} else {
		w.drain(t.lanes[l.replaces])
	}
}

// drain stops a lane's intake and routes anew what waits in it.
func (w *island) drain(li int32) {
	l := &w.lanes[li]
	if l.state != laneReady {
		return
	}
	l.state = laneDraining
	again := w.takeWaiting(l)
	tenant := l.tenant
	for _, q := range again {
		w.route(tenant, q)
	}
	if l = &w.lanes[li]; l.idle() {
		w.retire(li)
	}
}

// takeWaiting takes out of a lane what has not begun.
func (w *island) takeWaiting(l *lane) []int32 {
	var out []int32
	for r, s := range l.ranks {
		out = append(out, l.inbox[r]...)
		l.inbox[r] = l.inbox[r][:0]
		began := len(out)
		s.Each(func(p batching.Progress) {
			if !p.Running && p.Tokens == p.PromptTokens && p.InFlight == 0 && l.live[r][s.SlotOf(p.ID)].request >= 0 {
				out = append(out, l.live[r][s.SlotOf(p.ID)].request)
			}
		})
		for _, q := range out[began:] {
			_ = s.Cancel(batching.SeqID(q)) // it is there
		}
	}
	for _, q := range out {
		l.pending -= int64(w.tenants[l.tenant].spec.Requests[q].PromptTokens)
	}
	return out
}

// spreadWaiting routes anew what waits in a tenant's lanes, now that it has another one.
func (w *island) spreadWaiting(ti int32) {
	t := &w.tenants[ti]
	var out []int32
	for _, li := range t.lanes {
		if l := &w.lanes[li]; l.serves() {
			out = append(out, w.takeWaiting(l)...)
		}
	}
	slices.Sort(out) // by arrival
	t.scores = t.scores[:0]
	for _, q := range out {
		w.route(ti, q)
	}
}

// retire frees a drained lane's memory.
func (w *island) retire(li int32) {
	l := &w.lanes[li]
	l.state = laneGone
	w.charge(l)
	w.endHelpers(l)
	if d := w.swapper(l); d != nil {
		d.leaveSwapped(li)
	}
	if !l.held {
		return
	}
	w.released = true
	l.held = false
	for _, r := range l.spec.Ranks {
		for _, sl := range r.Slices {
			for _, id := range append([]int{sl.Device}, sl.Gang...) {
				if d := &w.devices[w.deviceAt(id)]; d.accounted {
					d.ledger.Held[gmg.MemWeights] -= l.weightBytes(&sl)
					d.ledger.Held[gmg.MemKV] -= sl.KVBytes
				}
			}
		}
	}
}

// adopt places a sequence that is running at the start.
func (w *island) adopt(ti int32, q Live) error {
	t := &w.tenants[ti]
	if q.Lane < 0 || q.Lane >= len(t.lanes) || q.Rank < 0 || q.Rank >= len(w.lanes[t.lanes[q.Lane]].ranks) {
		return fmt.Errorf("%w: a live sequence is on lane %d, rank %d", ErrSpec, q.Lane, q.Rank)
	}
	l := &w.lanes[t.lanes[q.Lane]]
	id := batching.SeqID(LiveRequest(t.adopted))
	t.adopted++
	err := l.ranks[q.Rank].Adopt(batching.Request{ID: id, PromptTokens: q.PromptTokens, MaxTokens: q.OutputTokens, ArrivalNs: q.ArrivalNs}, q.PromptTokens+q.TokensSoFar)
	if err != nil {
		return fmt.Errorf("%w: %v", ErrSpec, err)
	}
	l.setLive(q.Rank, l.ranks[q.Rank].SlotOf(id), liveRequest{
		request: -1, prompt: int32(q.PromptTokens), output: int32(q.OutputTokens), arrival: q.ArrivalNs, queued: q.ArrivalNs, scheduled: 1,
		first: cmp.Or(q.FirstToken, 1), // it has one, whenever that was
	})
	return nil
}
