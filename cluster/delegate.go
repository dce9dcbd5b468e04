package cluster

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

// delegate is what memberlist calls, often under its own locks: nothing here blocks or calls it back.
type delegate struct{ m *Membership }

// NodeMeta implements memberlist.Delegate. More bytes than the limit would make memberlist panic; Encode's own limit is far below.
func (d *delegate) NodeMeta(limit int) []byte {
	if b := *d.m.meta.Load(); len(b) <= limit {
		return b
	}
	return nil
}

// NotifyMsg implements memberlist.Delegate: nodes send each other no messages this way.
func (d *delegate) NotifyMsg([]byte) {}

// GetBroadcasts implements memberlist.Delegate.
func (d *delegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState implements memberlist.Delegate.
func (d *delegate) LocalState(bool) []byte {
	if d.m.config.Digests == nil {
		return nil
	}
	return d.m.config.Digests.Digest()
}

// MergeRemoteState implements memberlist.Delegate.
func (d *delegate) MergeRemoteState(b []byte, _ bool) {
	if d.m.config.Digests != nil && len(b) > 0 {
		d.m.config.Digests.Compare(append([]byte(nil), b...))
	}
}

// NotifyJoin, NotifyUpdate and NotifyLeave implement memberlist.EventDelegate.
func (d *delegate) NotifyJoin(n *memberlist.Node)   { d.notify(n, true) }
func (d *delegate) NotifyUpdate(n *memberlist.Node) { d.notify(n, true) }
func (d *delegate) NotifyLeave(n *memberlist.Node)  { d.notify(n, false) }

func (d *delegate) notify(n *memberlist.Node, alive bool) {
	meta, err := DecodeMeta(n.Meta)
	if err != nil && alive {
		return // NotifyAlive lets none in
	}
	d.m.changes.put(change{name: n.Name, alive: alive, gossip: nodeAddress(n), meta: meta})
}

func nodeAddress(n *memberlist.Node) netip.AddrPort {
	ip, _ := netip.AddrFromSlice(n.Addr)
	return netip.AddrPortFrom(ip.Unmap(), n.Port)
}

// NotifyAlive implements memberlist.AliveDelegate: whom this node can't understand is no member.
func (d *delegate) NotifyAlive(n *memberlist.Node) error {
	_, _, err := readNode(n)
	return err
}

// readNode checks all that a node says of itself.
func readNode(n *memberlist.Node) (node string, incarnation uint64, err error) {
	id, incarnation, err := parseMemberName(n.Name)
	if err != nil {
		return "", 0, err
	}
	meta, err := DecodeMeta(n.Meta)
	if err != nil {
		return "", 0, fmt.Errorf("node %s: %w", id, err)
	}
	if err := meta.compatible(); err != nil {
		return "", 0, fmt.Errorf("node %s: %w", id, err)
	}
	if len(n.Addr) != net.IPv4len && len(n.Addr) != net.IPv6len {
		return "", 0, fmt.Errorf("%w: node %s has an address of %d bytes", ErrMeta, id, len(n.Addr))
	}
	return string(id), incarnation, nil
}

// refusal is why the last try to join was called off.
type refusal struct {
	err         error
	incarnation uint64 // of the namesake, if that is why
	address     string
}

// NotifyMerge implements memberlist.MergeDelegate, at both ends of a join: two live nodes of one name keep two clusters apart until one is gone.
func (d *delegate) NotifyMerge(peers []*memberlist.Node) error {
	for _, p := range peers {
		if p.State != memberlist.StateAlive {
			continue
		}
		node, incarnation, err := readNode(p)
		if err != nil {
			d.m.refused.Store(&refusal{err: err})
			return err
		}
		if node == string(d.m.config.Node) && incarnation != d.m.config.Incarnation {
			err := fmt.Errorf("%w: %s at %s", ErrNameTaken, node, nodeAddress(p))
			d.m.refused.Store(&refusal{err: err, incarnation: incarnation, address: nodeAddress(p).String()})
			return err
		}
		if d.m.knowsOther(node, incarnation) {
			return fmt.Errorf("%w: another %s is a member", ErrNameTaken, node)
		}
	}
	return nil
}

// knowsOther says whether another life of a node is a live member.
func (m *Membership) knowsOther(node string, incarnation uint64) bool {
	m.seen.Lock()
	defer m.seen.Unlock()
	for _, l := range m.roster.lives {
		if string(l.member.Node) == node && l.member.Incarnation != incarnation && l.member.State != StateLost {
			return true
		}
	}
	return false
}

// AckPayload implements memberlist.PingDelegate: the wall clock rides on every answer to a probe.
func (d *delegate) AckPayload() []byte {
	return binary.LittleEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))
}

// NotifyPingComplete implements memberlist.PingDelegate. The answer was written about half a round trip ago.
func (d *delegate) NotifyPingComplete(n *memberlist.Node, roundTrip time.Duration, payload []byte) {
	if offset, ok := clockOffset(payload, time.Now().UnixNano(), roundTrip); ok {
		d.m.changes.put(sample{name: n.Name, offset: offset, roundTrip: roundTrip})
	}
}

func clockOffset(payload []byte, nowNs int64, roundTrip time.Duration) (time.Duration, bool) {
	if len(payload) < 8 {
		return 0, false
	}
	theirs := int64(binary.LittleEndian.Uint64(payload))
	if theirs < 0 {
		return 0, false
	}
	return time.Duration(theirs - nowNs + int64(roundTrip)/2), true
}
