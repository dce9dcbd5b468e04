package gmg

import "cmp"

// Stamp is a hybrid logical clock's time (Kulkarni et al., "Logical Physical Clocks", 2014): wall time where clocks agree, and still later than
// everything that was seen before it where they don't. Node makes stamps of different nodes unequal.
type Stamp struct {
	WallNs  int64
	Counter uint32
	Node    NodeID
}

// Compare returns -1, 0 or 1 as s is before, equal to or after o.
func (s Stamp) Compare(o Stamp) int {
	return cmp.Or(cmp.Compare(s.WallNs, o.WallNs), cmp.Compare(s.Counter, o.Counter), cmp.Compare(s.Node, o.Node))
}

// Clock hands out stamps that rise without end. It reads no time: the caller passes it in. The zero Clock with Node set is ready.
type Clock struct {
	Node NodeID
	last Stamp
}

// Next returns a stamp later than every stamp handed out or observed before, at nowNs if that is late enough.
func (c *Clock) Next(nowNs int64) Stamp {
	next := Stamp{WallNs: nowNs, Node: c.Node}
	if nowNs <= c.last.WallNs {
		next.WallNs, next.Counter = c.last.WallNs, c.last.Counter+1
		if next.Counter == 0 { // wrapped
			next.WallNs++
		}
	}
	c.last = next
	return next
}

// Observe makes every later Next exceed s.
func (c *Clock) Observe(s Stamp) {
	if s.Compare(c.last) > 0 {
		c.last = s
	}
}

// AheadNs returns by how much the clock runs ahead of nowNs because of stamps seen from other nodes: a sign of a wrong wall clock somewhere.
func (c *Clock) AheadNs(nowNs int64) int64 { return max(0, c.last.WallNs-nowNs) }
