package whatif

import (
	"slicescheduler/batching"
	"slicescheduler/gmg"
)

// island is a part of the world whose devices, links, lanes and tenants touch nothing outside it, so it runs by itself. It is the unit that forks copy.
type island struct {
	spec      *Spec
	paths     map[[2]int32]int32 // link of two devices, never changed
	mode      Mode
	now       int64
	seq       uint64
	events    eventHeap
	devices   []device
	links     []link
	oldLinks  []link // while two islands are joined
	lanes     []lane
	tenants   []tenant
	shared    bool // other simulations refer to it too: copy before writing
	operators int64
	steps     int64
	leaps     int64
	runs      int64 // that began on devices
	timeline  []Segment
	horizon   int64 // events up to here are run
	moves     []migration
	idleMoves []int32 // entries of moves that are done with
	reshapes  []reshape
	released  bool             // pages of a shared pool came free while the event was handled
	arrival   Arrival          // scratch of the router
	sums      []deviceSum      // scratch of routes and observations
	stepsOf   []*batching.Step // scratch
	decodes   []decode         // scratch
	attended  Shape            // scratch
	rows      Shape            // scratch
}

// device runs one thing at a time.
type device struct {
	id         int // in Spec.Devices
	ledger     gmg.Ledger
	accounted  bool
	queue      []run // waiting, by priority, then order
	current    run
	busy       bool
	generation int32   // of the current run's event
	sequence   []opRef // of the current run
	ns         []int64 // of the current run, by distinct operator
	busyNs     int64
	borrowedNs int64    // of these, for lanes that borrow
	shortage   Shortage // the first time something didn't fit
	rota       *rota    // of a device that is shared in a way of its own
	manager    int32    // the device whose rota it runs for, plus one; 0: none
}

// run is a step's share on a device.
type run struct {
	lane, slice int32
	flight      int32
	helper      int32 // 0: the slice's own; else 1 + the lane's helper whose share this is
	order       uint64
	borrowed    bool
	queuedNs    int64
	due         int64 // OrderSlack: when it is wanted at the latest
	pc          int32 // next operator; -1 is the engine's own time
	startNs     int64 // when the operator at pc started, or the run in fast mode
	beganNs     int64 // when it came onto the device
	tenths      int8  // of a shared device's compute
}

// link carries transfers one after the other.
type link struct {
	id     int // in Spec.Links
	freeAt int64
	bytes  int64
}

// flight is a step on its way through a lane's slices.
type flight struct {
	steps  []batching.Step // one a rank
	took   []bool          // ranks that have a step
	shapes []Shape
	ns     [][]int64 // by slice: time of each distinct operator
	total  []int64   // by slice
	lag    []int64   // by slice: what noise adds, before its operators
	ahead  int64     // the engine's own time, before the first slice
	due    int64     // OrderSlack
	number uint64    // of the lane's flights, from 1
	formed int64
	used   bool
	done   bool    // through the last slice, waiting for its turn to complete
	shares []share // by helper of the lane
	out    int32   // helpers of the current slice that are not through
	ended  bool    // the current slice's own run has ended before they have
}

// lane is a copy of a tenant's model.
type lane struct {
	spec     *LaneSpec
	tenant   int32
	number   int // among its tenant's lanes
	ranks    []*batching.Scheduler
	live     [][]liveRequest // by rank and slot
	inbox    [][]int32       // by rank: requests that the engine has not looked at
	flights  []flight        // a ring; in no order where steps of prompts and decodes are separate
	head     int             // oldest in flight
	flying   int
	state    laneState
	held     bool  // its memory is reserved
	coldNs   int64 // of LaneSpec.ColdNs, until the first step
	warmAt   int64 // the engine forms no step before
	replaces int32 // lane of the tenant that goes when this one serves, or -1
	readyNs  int64 // when a loading lane serves
	shared   []kvPart
	charged  int    // pages of shared pools that are held
	quota    int    // of them that it may hold
	turnNs   int64  // for how long it keeps a device that swaps when others wait
	starved  bool   // it would do more if it had more pages
	moving   bool   // it forms no more steps: a reshape waits for those in flight
	key      uint64 // tells its noise from other lanes'
	number64 uint64 // flights so far
	pending  int64  // prompt tokens that are not scheduled yet
	decodeNs int64  // what its last step of decodes took on its devices
	lastDue  int64  // OrderSlack: of the newest step in flight that later ones must not overtake
	prompts  int    // steps of prompts in flight
	helpers  []helper
}

type laneState uint8

const (
	laneReady laneState = iota
	laneLoading
	laneDraining
	laneGone
)

// serves says whether requests may be sent to a lane.
func (l *lane) serves() bool { return l.state == laneReady && !l.moving }

// liveRequest is what is kept of a request while it is served.
type liveRequest struct {
	request          int32
	prompt, output   int32
	cached           int32
	preemptions      int32
	todo             int32 // tokens to be scheduled before its next sample, while there are any beyond a decode's one
	migrating        bool
	lent             int32 // 1 + the helper that holds its KV, 0: none
	arrival, queued  int64
	scheduled, first int64
}

// tenant routes requests to lanes.
type tenant struct {
	id       int // in Spec.Tenants
	spec     *TenantSpec
	lanes    []int32
	next     int     // request that arrives next
	held     []int32 // requests that no lane can take yet
	adopted  int
	throttle int     // sequences that may run on each lane, 0: no limit
	scores   []int64 // the router's view, by lane and rank
	scoredNs int64
	totals   Totals
	records  []Record
}

// at schedules an event.
func (w *island) at(t int64, what eventKind, a, b int32) {
	w.seq++
	w.events.push(event{at: t, seq: w.seq, what: what, a: a, b: b})
}

// clone copies an island so that the copy and the original change independently. Records and the timeline stay behind.
func (w *island) clone() *island {
	c := &island{spec: w.spec, paths: w.paths, mode: w.mode, now: w.now, seq: w.seq, operators: w.operators, steps: w.steps, leaps: w.leaps, runs: w.runs}
	c.events = append(eventHeap(nil), w.events...)
	c.links = append([]link(nil), w.links...)
	c.devices = append([]device(nil), w.devices...)
	for i := range c.devices {
		c.devices[i].queue, c.devices[i].rota = append([]run(nil), w.devices[i].queue...), w.devices[i].rota.clone()
	}
	c.tenants = append([]tenant(nil), w.tenants...)
	for i := range c.tenants {
		t := &c.tenants[i]
		t.lanes, t.held, t.scores = append([]int32(nil), t.lanes...), append([]int32(nil), t.held...), append([]int64(nil), t.scores...)
		t.records = nil
	}
	c.moves, c.idleMoves = append([]migration(nil), w.moves...), append([]int32(nil), w.idleMoves...)
	c.reshapes = append([]reshape(nil), w.reshapes...)
	c.lanes = make([]lane, len(w.lanes))
	for i := range w.lanes {
		w.lanes[i].cloneInto(&c.lanes[i])
	}
	for i := range c.devices {
		if d := &c.devices[i]; d.busy {
			c.bind(d)
		}
	}
	return c
}

// bind looks up what the current run executes.
func (w *island) bind(d *device) {
	r := &d.current
	l := &w.lanes[r.lane]
	if r.helper > 0 {
		d.sequence, d.ns = l.helpers[r.helper-1].slices[r.slice].sequence, l.flights[r.flight].shares[r.helper-1].ns[r.slice]
		return
	}
	d.sequence, d.ns = l.spec.Ranks[0].Slices[r.slice].Program.sequence, l.flights[r.flight].ns[r.slice]
}

func (l *lane) cloneInto(c *lane) {
	*c = *l
	c.ranks = make([]*batching.Scheduler, len(l.ranks))
	c.live, c.inbox = make([][]liveRequest, len(l.ranks)), make([][]int32, len(l.ranks))
	for r := range l.ranks {
		c.ranks[r] = &batching.Scheduler{}
		c.ranks[r].CopyFrom(l.ranks[r])
		c.live[r] = append([]liveRequest(nil), l.live[r]...)
		c.inbox[r] = append([]int32(nil), l.inbox[r]...)
	}
	c.helpers = append([]helper(nil), l.helpers...)
	c.flights = make([]flight, len(l.flights))
	for i := range l.flights {
		f, o := &c.flights[i], &l.flights[i]
		*f = *o // and what it refers to
		f.lag, f.took, f.shapes = append([]int64(nil), o.lag...), append([]bool(nil), o.took...), append([]Shape(nil), o.shapes...)
		f.total, f.shares = append([]int64(nil), o.total...), cloneShares(o.shares)
		f.steps = make([]batching.Step, len(o.steps))
		for r := range o.steps {
			f.steps[r].ID, f.steps[r].Tokens = o.steps[r].ID, o.steps[r].Tokens
			f.steps[r].Items = append([]batching.Item(nil), o.steps[r].Items...)
		}
		f.ns = make([][]int64, len(o.ns))
		for s := range o.ns {
			f.ns[s] = append([]int64(nil), o.ns[s]...)
		}
	}
}
