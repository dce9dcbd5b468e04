package gmg

import (
	"cmp"
	"slices"
	"strings"
)

// Snapshot is an immutable view of the GMG at one version vector. Any goroutine may read it for as long as it likes. Lists come in the order of
// their identifiers. What values point to (slices, maps, graphs) belongs to the snapshot: don't write to it.
type Snapshot struct {
	facts  tree[register, *Fact]
	vector tree[NodeID, Point]
	digest uint64
}

// Nodes returns the cluster's nodes.
func (s *Snapshot) Nodes() []Node { return list[Node](s, KindNode, "") }

// Node returns one node.
func (s *Snapshot) Node(id NodeID) (Node, bool) { return value[Node](s, NodeKey(id)) }

// Devices returns all devices, a node's next to each other.
func (s *Snapshot) Devices() []Device { return list[Device](s, KindDevice, "") }

// Device returns one device.
func (s *Snapshot) Device(id DeviceID) (Device, bool) { return value[Device](s, DeviceKey(id)) }

// Links returns all links.
func (s *Snapshot) Links() []Link { return list[Link](s, KindLink, "") }

// Lanes returns a tenant's lanes.
func (s *Snapshot) Lanes(tenant TenantID) []Lane { return list[Lane](s, KindLane, string(tenant)+"#") }

// AllLanes returns all tenants' lanes.
func (s *Snapshot) AllLanes() []Lane { return list[Lane](s, KindLane, "") }

// Lane returns one lane.
func (s *Snapshot) Lane(id LaneID) (Lane, bool) { return value[Lane](s, LaneKey(id)) }

// Tenants returns all tenants' specs.
func (s *Snapshot) Tenants() []TenantSpec { return list[TenantSpec](s, KindTenantSpec, "") }

// Tenant returns one tenant's spec.
func (s *Snapshot) Tenant(id TenantID) (TenantSpec, bool) { return value[TenantSpec](s, TenantKey(id)) }

// APIKeys returns a tenant's API keys.
func (s *Snapshot) APIKeys(tenant TenantID) []APIKey {
	return list[APIKey](s, KindAPIKey, string(tenant)+"/")
}

// AllAPIKeys returns the API keys of all tenants.
func (s *Snapshot) AllAPIKeys() []APIKey { return list[APIKey](s, KindAPIKey, "") }

// DeviceState returns a device's execution state.
func (s *Snapshot) DeviceState(id DeviceID) (DeviceState, bool) {
	return value[DeviceState](s, DeviceStateKey(id))
}

// TenantState returns a tenant's execution state.
func (s *Snapshot) TenantState(id TenantID) (TenantState, bool) {
	return value[TenantState](s, TenantStateKey(id))
}

// OperatorTimes returns a device's measured operator times.
func (s *Snapshot) OperatorTimes(id DeviceID) (OperatorTimes, bool) {
	return value[OperatorTimes](s, OperatorTimesKey(id))
}

// Graph returns a model's graph.
func (s *Snapshot) Graph(id string) (*Graph, bool) { return value[*Graph](s, GraphKey(id)) }

// Graphs returns all models' graphs.
func (s *Snapshot) Graphs() []*Graph { return list[*Graph](s, KindGraph, "") }

// Fact returns the fact of a key that counts; a deleted one is not there.
func (s *Snapshot) Fact(key Key) (Fact, bool) {
	f := visible(&s.facts, key)
	if f == nil || f.Deleted {
		return Fact{}, false
	}
	return *f, true
}

// Each calls f for the facts of a kind that count, in the order of their ids, until it returns false. KindInvalid stands for all kinds.
func (s *Snapshot) Each(kind Kind, f func(*Fact) bool) { s.each(kind, "", f) }

// SharedFacts returns all shared facts with their tombstones: what a disk must keep.
func (s *Snapshot) SharedFacts() []Fact {
	var out []Fact
	s.facts.ascend(register{key: Key{Kind: KindTenantSpec}}, func(r register, f *Fact) bool {
		if r.key.Kind.Shared() {
			out = append(out, *f)
		}
		return true
	})
	return out
}

// Facts returns every fact held, also tombstones and those that another owner's fact outranks, by kind, id and owner.
func (s *Snapshot) Facts() []Fact {
	out := make([]Fact, 0, s.facts.size)
	s.facts.ascend(register{}, func(_ register, f *Fact) bool {
		out = append(out, *f)
		return true
	})
	return out
}

// Vector returns the version vector.
func (s *Snapshot) Vector() Vector {
	v := make(Vector, s.vector.size)
	s.vector.ascend("", func(id NodeID, p Point) bool {
		v[id] = p
		return true
	})
	return v
}

// Point returns how far one owner's history is known.
func (s *Snapshot) Point(owner NodeID) Point {
	p, _ := s.vector.get(owner)
	return p
}

// Digest is a hash of the facts held: two snapshots with the same facts have the same digest. Where vectors are equal and digests
// differ, exchange DeltaSince(nil).
func (s *Snapshot) Digest() uint64 { return s.digest }

// DeltaSince returns what someone who is at v lacks; v may be nil.
func (s *Snapshot) DeltaSince(v Vector) Delta {
	var d Delta
	s.facts.ascend(register{}, func(r register, f *Fact) bool {
		at := v[f.Version.Owner]
		old := r.owner == "" && f.Version.Incarnation != at.Incarnation // shared facts outlive incarnations
		if old || at.Before(Point{f.Version.Incarnation, f.Version.Seq}) {
			d.Facts = append(d.Facts, *f)
		}
		return true
	})
	sortFacts(d.Facts)
	s.vector.ascend("", func(id NodeID, p Point) bool {
		at, known := v[id]
		if known && !at.Before(p) {
			return true
		}
		span := Span{Owner: id, Incarnation: p.Incarnation, Through: p.Seq}
		if at.Incarnation == p.Incarnation {
			span.After = at.Seq
		}
		d.Spans = append(d.Spans, span)
		return true
	})
	slices.SortFunc(d.Spans, func(a, b Span) int { return cmp.Compare(a.Owner, b.Owner) })
	return d
}

// each calls fn for the facts that count of a kind whose ids begin with prefix.
func (s *Snapshot) each(kind Kind, prefix string, fn func(*Fact) bool) {
	var best *Fact
	emit := func() bool { return best == nil || best.Deleted || fn(best) }
	stopped := false
	s.facts.ascend(register{key: Key{Kind: kind, ID: prefix}}, func(r register, f *Fact) bool {
		if kind != KindInvalid && (r.key.Kind != kind || !strings.HasPrefix(r.key.ID, prefix)) {
			return false
		}
		if best != nil && best.Key == r.key {
			if f.outranks(best) {
				best = f
			}
			return true
		}
		if stopped = !emit(); stopped {
			return false
		}
		best = f
		return true
	})
	if !stopped {
		emit()
	}
}

func list[T Value](s *Snapshot, kind Kind, prefix string) []T {
	var out []T
	s.each(kind, prefix, func(f *Fact) bool {
		out = append(out, f.Value.(T))
		return true
	})
	return out
}

func value[T Value](s *Snapshot, key Key) (v T, ok bool) {
	f := visible(&s.facts, key)
	if f == nil || f.Deleted {
		return v, false
	}
	return f.Value.(T), true
}
