package cluster

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"slicescheduler/gmg"
)

// State is what a node is known to do.
type State string

// States of members. One that has left, or that was lost a while ago, is no member.
const (
	StateUp      State = "up"
	StateLeaving State = "leaving"
	StateLost    State = "lost" // it stopped answering: dead or cut off
)

// Member is one node of the cluster, in its newest life.
type Member struct {
	Node        gmg.NodeID
	Incarnation uint64
	State       State
	Gossip      netip.AddrPort // advertised
	Meta        Meta
	Self        bool
	// ClockOffset is by how much the node's wall clock is ahead of this node's, taken from the fastest of its last answers; it counts when Clocked.
	ClockOffset time.Duration
	RoundTrip   time.Duration // of that answer
	Clocked     bool
}

// EventKind says what happened to a member.
type EventKind string

// What happens to members.
const (
	EventJoined  EventKind = "joined"  // a new node, a new life of a known one, or one that was lost and is back
	EventUpdated EventKind = "updated" // what it says of itself has changed
	EventLeft    EventKind = "left"    // it said that it goes
	EventLost    EventKind = "lost"
)

// Event is a change of the membership.
type Event struct {
	Kind   EventKind
	Member Member
}

// change is what memberlist notified of.
type change struct {
	name   string
	alive  bool
	gossip netip.AddrPort
	meta   Meta
}

// sample is what a probe told of another node's clock.
type sample struct {
	name              string
	offset, roundTrip time.Duration
}

// clockSamples is how many answers the fastest is taken from.
const clockSamples = 8

// life is one incarnation of a node.
type life struct {
	member  Member
	lostAt  time.Time
	aliveAt time.Time
	clocks  []sample
}

// roster is the members as the notifications have told them. Several lives of one node may be known: the old one is dead, but not yet noticed to be. The one
// that counts is the newest of those that answer, else the newest. It has no locks.
type roster struct {
	lives map[string]*life
}

func newRoster() *roster { return &roster{lives: make(map[string]*life)} }

// best returns the life of a node that counts, or nil.
func (r *roster) best(node gmg.NodeID) *life {
	var best *life
	for _, l := range r.lives {
		if l.member.Node == node && (best == nil || l.counts() > best.counts() || l.counts() == best.counts() && l.member.Incarnation > best.member.Incarnation) {
			best = l
		}
	}
	return best
}

func (l *life) counts() int {
	if l.member.State == StateLost {
		return 0
	}
	return 1
}

// apply takes in a notification and returns what it means for the node, if anything.
func (r *roster) apply(c change, now time.Time) (Event, bool) {
	node, incarnation, err := parseMemberName(c.name)
	if err != nil {
		return Event{}, false // the alive delegate lets none in
	}
	var before *Member
	if b := r.best(node); b != nil {
		m := b.member
		before = &m
	}
	r.record(c, node, incarnation, now)
	r.dropSuperseded(node)
	after := r.best(node)
	switch {
	case after == nil && before == nil:
		return Event{}, false
	case after == nil:
		return Event{EventLeft, *before}, true
	case after.member.State == StateLost && (before == nil || before.State == StateLost):
		return Event{}, false
	case after.member.State == StateLost:
		return Event{EventLost, after.member}, true
	case before == nil || before.State == StateLost || before.Incarnation != after.member.Incarnation:
		return Event{EventJoined, after.member}, true
	case before.Meta == after.member.Meta && before.State == after.member.State && before.Gossip == after.member.Gossip:
		return Event{}, false
	}
	return Event{EventUpdated, after.member}, true
}

// record changes the life that a notification is about. One that said it would leave is dropped when it is gone.
func (r *roster) record(c change, node gmg.NodeID, incarnation uint64, now time.Time) {
	l := r.lives[c.name]
	switch {
	case c.alive:
		if l == nil {
			l = &life{aliveAt: now}
			r.lives[c.name] = l
		} else if l.member.State == StateLost {
			l.aliveAt = now
		}
		old := l.member
		l.member = Member{Node: node, Incarnation: incarnation, State: StateUp, Gossip: c.gossip, Meta: c.meta,
			ClockOffset: old.ClockOffset, RoundTrip: old.RoundTrip, Clocked: old.Clocked}
		if c.meta.Leaving {
			l.member.State = StateLeaving
		}
	case l == nil:
	case l.member.State == StateLeaving || c.meta.Leaving:
		delete(r.lives, c.name)
	default:
		l.member.State, l.lostAt = StateLost, now
	}
}

// dropSuperseded forgets lost lives of a node that lives again.
func (r *roster) dropSuperseded(node gmg.NodeID) {
	best := r.best(node)
	if best == nil {
		return
	}
	for name, l := range r.lives {
		if l != best && l.member.Node == node && l.member.State == StateLost {
			delete(r.lives, name)
		}
	}
}

// clock takes in a sample.
func (r *roster) clock(s sample) {
	l := r.lives[s.name]
	if l == nil {
		return
	}
	if l.clocks = append(l.clocks, s); len(l.clocks) > clockSamples {
		l.clocks = l.clocks[1:]
	}
	fastest := slices.MinFunc(l.clocks, func(a, b sample) int { return cmp.Compare(a.roundTrip, b.roundTrip) })
	l.member.ClockOffset, l.member.RoundTrip, l.member.Clocked = fastest.offset, fastest.roundTrip, true
}

// forget drops the nodes that were lost before a time.
func (r *roster) forget(before time.Time) {
	for name, l := range r.lives {
		if l.member.State == StateLost && l.lostAt.Before(before) {
			delete(r.lives, name)
		}
	}
}

// namesake returns another live node of this name that has been there since a time.
func (r *roster) namesake(node gmg.NodeID, incarnation uint64, since time.Time) *Member {
	for _, l := range r.lives {
		if l.member.Node == node && l.member.Incarnation != incarnation && l.member.State != StateLost && !l.aliveAt.After(since) {
			return &l.member
		}
	}
	return nil
}

// list returns one member a node, by name.
func (r *roster) list(self gmg.NodeID) []Member {
	best := make(map[gmg.NodeID]*life)
	for _, l := range r.lives {
		if l.member.Node != self && best[l.member.Node] == nil {
			best[l.member.Node] = r.best(l.member.Node)
		}
	}
	members := make([]Member, 0, len(best)+1)
	for _, l := range best {
		members = append(members, l.member)
	}
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.Node, b.Node) })
	return members
}
