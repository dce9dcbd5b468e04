package replica

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"slicescheduler/gmg"
)

const (
	ms  = int64(1_000_000)
	sec = 1000 * ms
)

// event is something that happens at a node at a moment.
type event struct {
	at   int64
	seq  int
	what func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

// simNode is one node of a simulated cluster.
type simNode struct {
	id      gmg.NodeID
	life    int
	dead    bool
	store   *gmg.Store
	replica *Replica
	wakeAt  int64
	sent    int64 // bytes
}

// sim is a cluster over a network that loses, delays, repeats and cuts, with membership that notices changes late. Equal seeds give equal runs.
type sim struct {
	t       testing.TB
	rng     *rand.Rand
	now     int64
	seq     int
	queue   events
	nodes   map[gmg.NodeID]*simNode
	order   []gmg.NodeID
	cut     func(a, b gmg.NodeID) bool
	loss    float64
	repeat  float64
	delayNs int64 // at most; at least a fifth of it
	measure bool  // count encoded bytes
	drop    func(from, to gmg.NodeID, m *Message) bool
	check   func(from *simNode)
	silent  bool // no digests ride on push-pulls
}

func newSim(t testing.TB, seed uint64) *sim {
	return &sim{t: t, rng: rand.New(rand.NewPCG(seed, 7)), nodes: make(map[gmg.NodeID]*simNode), delayNs: ms}
}

func seedOf(t testing.TB) uint64 {
	s := uint64(time.Now().UnixNano())
	if text := os.Getenv("SLICER_SEED"); text != "" {
		var err error
		if s, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("SLICER_SEED=%d", s)
	return s
}

func (s *sim) at(when int64, what func()) {
	s.seq++
	heap.Push(&s.queue, event{max(when, s.now), s.seq, what})
}

// run lets everything happen until a moment.
func (s *sim) run(until int64) {
	for len(s.queue) > 0 && s.queue[0].at <= until {
		e := heap.Pop(&s.queue).(event)
		s.now = e.at
		e.what()
	}
	s.now = until
}

// runUntil lets time pass until a condition holds, and returns how long that took.
func (s *sim) runUntil(limit int64, what string, done func() bool) int64 {
	s.t.Helper()
	start := s.now
	for !done() {
		if s.now-start >= limit {
			s.t.Fatalf("after %d ms: %s still does not hold", (s.now-start)/ms, what)
		}
		s.run(s.now + ms)
	}
	return s.now - start
}

// start begins a life of a node. Others hear of it a little later.
func (s *sim) start(id gmg.NodeID, hears bool) *simNode {
	life := 1
	if old := s.nodes[id]; old != nil {
		life = old.life + 1
	} else {
		s.order = append(s.order, id)
		slices.Sort(s.order)
	}
	n := &simNode{id: id, life: life, store: gmg.NewStore(id, uint64(life)*1_000_000), wakeAt: never}
	n.replica = New(n.store, s.rng.Uint64(), s.now)
	s.nodes[id] = n
	if err := n.store.Put(gmg.Node{ID: id, Incarnation: n.store.Incarnation(), Version: "sim"}); err != nil {
		s.t.Fatal(err)
	}
	n.replica.Wrote(s.now)
	if hears {
		for _, other := range s.alive() {
			s.at(s.now+int64(s.rng.IntN(1000))*ms, func() { s.members(other) })
		}
	}
	s.pushPull(n)
	s.settle(n)
	return n
}

// kill ends a node; others notice within two seconds.
func (s *sim) kill(id gmg.NodeID) {
	s.nodes[id].dead = true
	for _, other := range s.alive() {
		s.at(s.now+int64(500+s.rng.IntN(1500))*ms, func() { s.members(other) })
	}
}

// partition changes who reaches whom; memberships follow within two seconds.
func (s *sim) partition(cut func(a, b gmg.NodeID) bool) {
	s.cut = cut
	for _, n := range s.alive() {
		s.at(s.now+int64(500+s.rng.IntN(1500))*ms, func() { s.members(n) })
	}
}

func (s *sim) alive() []*simNode {
	var list []*simNode
	for _, id := range s.order {
		if n := s.nodes[id]; !n.dead {
			list = append(list, n)
		}
	}
	return list
}

// members tells a node whom it can reach now.
func (s *sim) members(n *simNode) {
	if n.dead {
		return
	}
	var ids []gmg.NodeID
	for _, other := range s.alive() {
		if other != n && !s.isCut(n.id, other.id) {
			ids = append(ids, other.id)
		}
	}
	n.replica.Members(ids, s.now)
	s.settle(n)
}

func (s *sim) isCut(a, b gmg.NodeID) bool { return s.cut != nil && (s.cut(a, b) || s.cut(b, a)) }

// pushPull lets a node compare digests with another one every few seconds.
func (s *sim) pushPull(n *simNode) {
	s.at(s.now+4*sec+int64(s.rng.IntN(2000))*ms, func() {
		if n.dead {
			return
		}
		if others := s.alive(); len(others) > 1 && !s.silent {
			if other := others[s.rng.IntN(len(others))]; other != n && !s.isCut(n.id, other.id) {
				n.replica.Compare(other.replica.Digest())
				other.replica.Compare(n.replica.Digest())
				s.settle(other)
			}
		}
		s.pushPull(n)
		s.settle(n)
	})
}

// settle sends what a node has to send and wakes it when it wants to be.
func (s *sim) settle(n *simNode) {
	for _, e := range n.replica.Take() {
		s.send(n, e)
	}
	if wake := n.replica.WakeNs(); wake < n.wakeAt || n.wakeAt <= s.now {
		n.wakeAt = wake
		s.at(wake, func() {
			if n.dead || s.now < n.wakeAt {
				return
			}
			n.wakeAt = never
			n.replica.Tick(s.now)
			s.settle(n)
		})
	}
}

func (s *sim) send(n *simNode, e Envelope) {
	if s.measure {
		pieces, err := e.Message.Encode()
		if err != nil {
			s.t.Fatal(err)
		}
		for _, p := range pieces {
			n.sent += int64(len(p))
		}
	}
	copies := 1
	if s.rng.Float64() < s.repeat {
		copies++
	}
	for range copies {
		if s.rng.Float64() < s.loss || s.isCut(n.id, e.To) || s.drop != nil && s.drop(n.id, e.To, &e.Message) {
			continue
		}
		delay := s.delayNs/5 + s.rng.Int64N(s.delayNs)
		s.at(s.now+delay, func() { s.deliver(n.id, e) })
	}
}

func (s *sim) deliver(from gmg.NodeID, e Envelope) {
	to := s.nodes[e.To]
	if to == nil || to.dead {
		return
	}
	if _, err := to.replica.Receive(from, e.Message, s.now); err != nil {
		s.t.Fatalf("%s refused what %s sent: %v", e.To, from, err)
	}
	if s.check != nil {
		s.check(to)
	}
	s.settle(to)
}

// put writes a fact of a node: the state of its device.
func (s *sim) put(n *simNode, value int64) {
	if err := n.store.Put(gmg.DeviceState{Device: gmg.DeviceID(n.id) + "/cpu0", BusyNs: value}); err != nil {
		s.t.Fatal(err)
	}
	n.replica.Wrote(s.now)
	s.settle(n)
}

// submit writes a shared fact by a clock of the node's own.
func (s *sim) submit(n *simNode, tenant, model string) {
	skew := int64(len(n.id)+int(n.id[len(n.id)-1])) * 3600 * sec
	if _, err := n.store.PutShared(gmg.TenantSpec{ID: gmg.TenantID(tenant), Model: model}, s.now+skew); err != nil {
		s.t.Fatal(err)
	}
	n.replica.Wrote(s.now)
	s.settle(n)
}

// sees says whether a node has seen a value of another's device.
func (n *simNode) sees(owner gmg.NodeID, value int64) bool {
	d, found := n.store.Snapshot().DeviceState(gmg.DeviceID(owner) + "/cpu0")
	return found && d.BusyNs == value
}

// converged says whether all living nodes hold the same facts.
func (s *sim) converged() bool {
	list := s.alive()
	for _, n := range list[1:] {
		if n.store.Snapshot().Digest() != list[0].store.Snapshot().Digest() {
			return false
		}
	}
	return true
}

// clusterOf starts n nodes at once and lets them find each other.
func clusterOf(t testing.TB, seed uint64, n int) *sim {
	s := newSim(t, seed)
	for _, id := range names(n) {
		s.start(id, true)
	}
	for _, n := range s.alive() {
		s.at(s.now+2*sec, func() { s.members(n) })
	}
	s.run(3 * sec)
	s.runUntil(20*sec, "all know all", s.converged)
	return s
}

func names(n int) []gmg.NodeID {
	var list []gmg.NodeID
	for i := range n {
		list = append(list, gmg.NodeID(fmt.Sprintf("n%04d", i)))
	}
	return list
}
