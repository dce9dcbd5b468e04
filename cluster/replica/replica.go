// Package replica spreads the facts of the GMG over the nodes of a cluster.
//
// A Replica is a state machine around one node's gmg.Store. It has no goroutines and no clock and knows no network: it is told the time, the members and what
// came in, and says what to send (Take) and when it wants to be woken (WakeNs). Messages may be lost, repeated, delayed and reordered.
//
//   - A node's own new facts go out in batches: 10 ms after the first, or as soon as BatchFacts wait. Up to TreeAbove nodes they go to every node straight;
//     above that along a spanning tree that each node computes its place in (parentOf), where what is news is passed on.
//   - A hole in an owner's history is repaired by asking whom the delta came from, then the owner, then anybody. After its last fact an owner sends
//     three reminders of where its history ends, so that a lost last delta shows too.
//   - What all that misses is found by digests that ride on memberlist's exchanges of states (Digest, Compare): where they differ, the two sync.
//   - A lost node's facts leave after DeadAfterNs, one that said that it goes takes its along at once. An old copy can't bring them back: see gmg.RemoveOwner. A
//     node that sees less than half of what it saw before keeps the others' facts for MinorityAfterNs: it is probably itself that is cut off.
package replica

import (
	"cmp"
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"slices"

	"slicescheduler/cluster/placement"
	"slicescheduler/gmg"
)

// Times and sizes of the protocol.
const (
	BatchNs         = 10_000_000
	BatchFacts      = 256 // some 64 KiB of usual facts
	TreeAbove       = 32  // nodes
	DeadAfterNs     = 10_000_000_000
	MinorityAfterNs = 600_000_000_000
	gapNs           = 20_000_000 // that a hole may have filled itself by
	gapMaxNs        = 2_000_000_000
	linkNs          = 1_000_000_000 // between a child's requests that its parent has not answered
	refreshNs       = 5_000_000_000 // and once it has
	childNs         = 16_000_000_000
	shunNs          = 30_000_000_000
	linkTries       = 3
	confirmNs       = 100_000_000
	sweepNs         = 1_000_000_000
	maxBumps        = 1000 // by which a life's incarnation may rise; lives are start times in nanoseconds, so further apart
)

// reminderNs is how long after an owner's last batch it reminds others of where its history ends.
var reminderNs = [...]int64{50_000_000, 250_000_000, 1_000_000_000}

// Envelope is a message to send.
type Envelope struct {
	To      gmg.NodeID
	Message Message
}

// Effects are what a message changed. Shared facts must be on disk before anything that Take returns is sent: that is what makes KindKept true.
type Effects struct {
	Changed      []gmg.Key
	Lost         []gmg.Key
	Shared       []gmg.Fact
	Reincarnated bool
}

// gap is a hole in an owner's history that is waited for.
type gap struct {
	after gmg.Point
	from  gmg.NodeID
	dueNs int64
	tries int
}

// queued is a delta on its way out.
type queued struct {
	delta  gmg.Delta
	except gmg.NodeID // where it came from
	hops   uint8
}

// Replica is one node's part in the replication. It has one owner and no locks.
type Replica struct {
	store   *gmg.Store
	self    gmg.NodeID
	rng     *rand.Rand
	members []gmg.NodeID         // alive, sorted, without this node
	absent  map[gmg.NodeID]int64 // since when owners of facts are no members

	out     []Envelope
	queue   []queued
	facts   int // in queue
	flushNs int64

	parent    gmg.NodeID
	linked    bool
	tries     int
	linkAtNs  int64
	avoid     map[gmg.NodeID]int64
	children  map[gmg.NodeID]int64 // until when
	gaps      map[gmg.NodeID]*gap
	reminders int // sent since the last own fact
	remindNs  int64
	sweepAtNs int64

	confirming uint64 // sequence number that is asked about, 0 for none
	confirmNs  int64
	kept       map[gmg.NodeID]gmg.Point
}

// never is later than all times.
const never = int64(1) << 62

// New returns the replica of a store that has no one else to write it. seed makes two nodes choose whom to ask apart from each other.
func New(store *gmg.Store, seed uint64, nowNs int64) *Replica {
	r := &Replica{
		store: store, self: store.Owner(), rng: rand.New(rand.NewPCG(seed, placement.Score("replica", store.Owner()))), absent: make(map[gmg.NodeID]int64),
		flushNs: never, linkAtNs: never, avoid: make(map[gmg.NodeID]int64), children: make(map[gmg.NodeID]int64), gaps: make(map[gmg.NodeID]*gap),
		remindNs: never, sweepAtNs: nowNs + sweepNs, confirmNs: never, kept: make(map[gmg.NodeID]gmg.Point),
	}
	r.Wrote(nowNs)
	return r
}

// Wrote says that this node's store may have new facts of its own.
func (r *Replica) Wrote(nowNs int64) {
	d := r.store.TakeDelta()
	if d.Empty() {
		return
	}
	r.enqueue(queued{delta: d}, nowNs)
	r.reminders, r.remindNs = 0, nowNs+reminderNs[0]
}

func (r *Replica) enqueue(q queued, nowNs int64) {
	if len(r.members) == 0 {
		return // whoever comes will sync
	}
	r.queue = append(r.queue, q)
	r.facts += len(q.delta.Facts)
	r.flushNs = min(r.flushNs, nowNs+BatchNs)
	if r.facts >= BatchFacts {
		r.flush()
	}
}

func (r *Replica) tree() bool { return len(r.members)+1 > TreeAbove }

// targets are the nodes that a delta goes to: in the tree those that are linked with this one, else those that the origin can't reach itself.
func (r *Replica) targets(forward bool) []gmg.NodeID {
	if !r.tree() && !forward {
		return r.members
	}
	linked := slices.Sorted(maps.Keys(r.children))
	if r.parent != "" && r.tree() && !slices.Contains(linked, r.parent) {
		linked = append(linked, r.parent)
	}
	return linked
}

// flush sends what is queued, one message a target.
func (r *Replica) flush() {
	queue := r.queue
	r.queue, r.facts, r.flushNs = nil, 0, never
	messages := make(map[gmg.NodeID]*Message)
	var order []gmg.NodeID
	for _, q := range queue {
		for _, to := range r.targets(q.hops > 0) {
			if to == q.except {
				continue
			}
			m := messages[to]
			if m == nil {
				m = &Message{Kind: KindDelta}
				messages[to] = m
				order = append(order, to)
			}
			m.Delta = join(m.Delta, q.delta)
			m.Hops = max(m.Hops, q.hops)
		}
	}
	for _, to := range order {
		r.send(to, *messages[to])
	}
}

// join puts two deltas in one. A delta has one span of an owner: where two don't meet, the later one stays and the gap shows at the receiver.
func join(a, b gmg.Delta) gmg.Delta {
	if a.Empty() {
		return b
	}
	out := gmg.Delta{Facts: append(slices.Clone(a.Facts), b.Facts...)}
	spans := make(map[gmg.NodeID]gmg.Span, len(a.Spans)+len(b.Spans))
	for _, s := range append(slices.Clone(a.Spans), b.Spans...) {
		old, seen := spans[s.Owner]
		switch {
		case !seen || s.Incarnation > old.Incarnation:
		case s.Incarnation < old.Incarnation:
			s = old
		case s.After <= old.Through && old.After <= s.Through:
			s.After, s.Through = min(s.After, old.After), max(s.Through, old.Through)
		case old.Through > s.Through:
			s = old
		}
		spans[s.Owner] = s
	}
	for _, s := range spans {
		out.Spans = append(out.Spans, s)
	}
	slices.SortFunc(out.Spans, func(x, y gmg.Span) int { return cmp.Compare(x.Owner, y.Owner) })
	return out
}

func (r *Replica) send(to gmg.NodeID, m Message) { r.out = append(r.out, Envelope{to, m}) }

// Take returns what is to be sent, in order.
func (r *Replica) Take() []Envelope {
	out := r.out
	r.out = nil
	return out
}

// Snapshot returns the facts as they are now.
func (r *Replica) Snapshot() *gmg.Snapshot { return r.store.Snapshot() }

// Members says who else is alive now, in any order. What isn't there any more is lost; see Gone for nodes that said that they go.
func (r *Replica) Members(alive []gmg.NodeID, nowNs int64) {
	wasTree := r.tree()
	before := r.members
	r.members = slices.DeleteFunc(slices.Clone(alive), func(n gmg.NodeID) bool { return n == r.self })
	slices.Sort(r.members)
	r.members = slices.Compact(r.members)
	r.noteAbsent(nowNs)
	maps.DeleteFunc(r.children, func(n gmg.NodeID, _ int64) bool { return !r.alive(n) })
	for _, n := range r.members {
		if _, known := slices.BinarySearch(before, n); !known && !r.tree() && r.self < n {
			r.sync(n, flagReply) // one of the two asks
		}
	}
	if r.tree() {
		r.chooseParent(nowNs, !wasTree)
	} else {
		r.parent, r.linked, r.linkAtNs = "", false, never
	}
}

func (r *Replica) alive(n gmg.NodeID) bool {
	_, found := slices.BinarySearch(r.members, n)
	return found
}

// noteAbsent keeps since when owners of facts are not members.
func (r *Replica) noteAbsent(nowNs int64) {
	for owner, p := range r.store.Snapshot().Vector() {
		switch _, noted := r.absent[owner]; {
		case owner == r.self || r.alive(owner) || p.Seq == 0:
			delete(r.absent, owner)
		case !noted:
			r.absent[owner] = nowNs
		}
	}
}

// Gone removes the facts of a node that said that it goes; incarnation is that of the life that ended. It returns the keys that lost their facts.
func (r *Replica) Gone(node gmg.NodeID, incarnation uint64, nowNs int64) []gmg.Key {
	if r.point(node).Incarnation > incarnation+maxBumps {
		return nil // it lives again
	}
	return r.remove(node, nowNs)
}

// point returns how far this node knows an owner's history.
func (r *Replica) point(owner gmg.NodeID) gmg.Point { return r.store.Snapshot().Point(owner) }

func (r *Replica) remove(node gmg.NodeID, nowNs int64) []gmg.Key {
	delete(r.absent, node)
	delete(r.gaps, node)
	p := r.point(node)
	if p == (gmg.Point{}) || node == r.self {
		return nil
	}
	changed := r.store.RemoveOwner(node, p.Incarnation)
	r.enqueue(queued{delta: gmg.Removal(node, p.Incarnation)}, nowNs)
	return changed
}

// sweep removes the facts of nodes that were lost long ago, and forgets what has run out.
func (r *Replica) sweep(nowNs int64) (changed []gmg.Key) {
	r.sweepAtNs = nowNs + sweepNs
	r.noteAbsent(nowNs)
	maps.DeleteFunc(r.children, func(_ gmg.NodeID, until int64) bool { return nowNs > until })
	maps.DeleteFunc(r.avoid, func(_ gmg.NodeID, until int64) bool { return nowNs > until })
	after := int64(DeadAfterNs)
	if len(r.absent) > len(r.members)+1 {
		after = MinorityAfterNs
	}
	for _, node := range slices.Sorted(maps.Keys(r.absent)) {
		if nowNs-r.absent[node] >= after {
			changed = append(changed, r.remove(node, nowNs)...)
		}
	}
	return changed
}

// Tick does what is due. It returns the keys that lost their facts because their nodes are dead.
func (r *Replica) Tick(nowNs int64) (changed []gmg.Key) {
	if nowNs >= r.sweepAtNs {
		changed = r.sweep(nowNs)
	}
	if nowNs >= r.remindNs {
		r.remind(nowNs)
	}
	if nowNs >= r.linkAtNs {
		r.link(nowNs)
	}
	if nowNs >= r.confirmNs {
		r.askKept(nowNs)
	}
	for _, owner := range slices.Sorted(maps.Keys(r.gaps)) {
		if g := r.gaps[owner]; nowNs >= g.dueNs {
			r.ask(owner, g, nowNs)
		}
	}
	if nowNs >= r.flushNs {
		r.flush()
	}
	return changed
}

// WakeNs returns when Tick is to be called next.
func (r *Replica) WakeNs() int64 {
	wake := min(r.sweepAtNs, r.remindNs, r.linkAtNs, r.confirmNs, r.flushNs)
	for _, g := range r.gaps {
		wake = min(wake, g.dueNs)
	}
	return wake
}

// remind tells where this node's history ends.
func (r *Replica) remind(nowNs int64) {
	at := r.point(r.self)
	r.enqueue(queued{delta: gmg.Delta{Spans: []gmg.Span{{Owner: r.self, Incarnation: at.Incarnation, After: at.Seq, Through: at.Seq}}}}, nowNs)
	r.reminders++
	r.remindNs = never
	if r.reminders < len(reminderNs) {
		r.remindNs = nowNs + reminderNs[r.reminders] - reminderNs[r.reminders-1]
	}
}

// chooseParent takes up this node's place in the tree.
func (r *Replica) chooseParent(nowNs int64, fresh bool) {
	parent := parentOf(r.self, r.members, r.avoid)
	if parent == r.parent && !fresh {
		return
	}
	r.parent, r.linked, r.tries, r.linkAtNs = parent, false, 0, never
	if parent != "" {
		r.link(nowNs)
	}
}

// link tells the parent that this node is its child. A parent that doesn't answer is passed over for a while.
func (r *Replica) link(nowNs int64) {
	if !r.linked && r.tries >= linkTries {
		r.avoid[r.parent] = nowNs + shunNs
		r.parent = ""
		r.chooseParent(nowNs, false)
		return
	}
	if r.linked {
		r.linked, r.tries = false, 0
		r.send(r.parent, Message{Kind: KindWant, Flags: flagChild}) // wants nothing, only says that it is there
	} else {
		r.sync(r.parent, flagReply|flagChild)
	}
	r.tries++
	r.linkAtNs = nowNs + linkNs
}

func (r *Replica) sync(to gmg.NodeID, flags uint8) {
	s := r.store.Snapshot()
	r.send(to, Message{Kind: KindSync, Flags: flags, Vector: s.Vector(), Digest: s.Digest()})
}

// Digest is what a push-pull of memberlist carries: the name, and hashes of vector and facts.
func (r *Replica) Digest() []byte { return DigestOf(r.self, r.store.Snapshot()) }

// DigestOf writes a digest from a snapshot, which any goroutine may do: the name's length and the name, then two hashes of 8 bytes.
func DigestOf(self gmg.NodeID, s *gmg.Snapshot) []byte {
	b := append([]byte{byte(len(self))}, self...)
	b = binary.LittleEndian.AppendUint64(b, vectorHash(s.Vector()))
	return binary.LittleEndian.AppendUint64(b, s.Digest())
}

// Compare takes in another node's digest and begins to sync if there is a difference. What is no digest is passed over.
func (r *Replica) Compare(digest []byte) {
	if len(digest) < 1 || len(digest) != 1+int(digest[0])+16 {
		return
	}
	n := 1 + int(digest[0])
	peer := gmg.NodeID(digest[1:n])
	s := r.store.Snapshot()
	same := binary.LittleEndian.Uint64(digest[n:]) == vectorHash(s.Vector()) && binary.LittleEndian.Uint64(digest[n+8:]) == s.Digest()
	if !same && r.alive(peer) {
		r.sync(peer, flagReply)
	}
}

func sortedOwners(v gmg.Vector) []gmg.NodeID { return slices.Sorted(maps.Keys(v)) }

// vectorHash is a sum over entries, so their order doesn't matter.
func vectorHash(v gmg.Vector) uint64 {
	var sum uint64
	var b [16]byte
	for owner, p := range v {
		binary.LittleEndian.PutUint64(b[:], p.Incarnation)
		binary.LittleEndian.PutUint64(b[8:], p.Seq)
		sum += placement.Score(string(b[:]), owner)
	}
	return sum
}
