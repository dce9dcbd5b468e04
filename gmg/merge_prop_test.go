package gmg

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// history draws facts as owners would write them, over several lives, plus what relays of shared facts and removals of dead nodes make of them.
func history(t *rapid.T) []Delta {
	seqs := make(map[Version]uint64)
	var deltas []Delta
	n := rapid.IntRange(1, 40).Draw(t, "facts")
	for i := range n {
		owner := NodeID(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "owner"))
		life := Version{Owner: owner, Incarnation: rapid.Uint64Range(1, 3).Draw(t, "incarnation")}
		if rapid.IntRange(0, 9).Draw(t, "removal") == 0 {
			deltas = append(deltas, Removal(owner, life.Incarnation))
			continue
		}
		seqs[life]++
		f := Fact{Version: Version{owner, life.Incarnation, seqs[life]}, Deleted: rapid.Bool().Draw(t, "deleted")}
		id := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "id")
		if rapid.Bool().Draw(t, "shared") {
			f.Key = TenantKey(TenantID(id))
			f.Stamp = Stamp{WallNs: rapid.Int64Range(1, 3).Draw(t, "wall"), Counter: uint32(i), Node: owner}
			if !f.Deleted {
				f.Value = TenantSpec{ID: TenantID(id), Priority: i}
			}
			if rapid.Bool().Draw(t, "relayed") {
				relay := f
				relay.Version = Version{"relay", 1, uint64(i + 1)}
				deltas = append(deltas, Delta{Facts: []Fact{relay}})
			}
		} else {
			f.Key = DeviceKey(DeviceID(id))
			f.Claim = rapid.Uint64Range(0, 2).Draw(t, "claim")
			if !f.Deleted {
				f.Value = Device{ID: DeviceID(id), Cores: i}
			}
		}
		deltas = append(deltas, Delta{Facts: []Fact{f}})
	}
	return deltas
}

// factsByHand is what a set of deltas must come to, computed the slow way from the rules in Fact's comment.
func factsByHand(deltas []Delta) []Fact {
	floor := make(map[NodeID]uint64)
	for _, d := range deltas {
		for _, f := range d.Facts {
			floor[f.Version.Owner] = max(floor[f.Version.Owner], f.Version.Incarnation)
		}
		for _, s := range d.Spans {
			floor[s.Owner] = max(floor[s.Owner], s.Incarnation)
		}
	}
	best := make(map[string]Fact)
	for _, d := range deltas {
		for _, f := range d.Facts {
			name := f.Key.String()
			if !f.Key.Kind.Shared() {
				if f.Version.Incarnation < floor[f.Version.Owner] {
					continue
				}
				name += " " + string(f.Version.Owner)
			}
			old, ok := best[name]
			later := compareVersions(f.Version, old.Version) > 0
			if c := f.Stamp.Compare(old.Stamp); c != 0 {
				later = c > 0
			}
			if !ok || later {
				best[name] = f
			}
		}
	}
	out := make([]Fact, 0, len(best))
	for _, f := range best {
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b Fact) int { return compareRegisters(registerOf(&a), registerOf(&b)) })
	return out
}

func observe(t *rapid.T, name string, deltas []Delta) *Store {
	s := NewStore(NodeID(name), 1)
	for _, d := range deltas {
		if _, err := s.Merge(d); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func sameFacts(t *rapid.T, what string, got, want []Fact) {
	if len(got) == 0 && len(want) == 0 {
		return
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

func TestMergeLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		deltas := history(t)
		first := observe(t, "o1", deltas)
		sameFacts(t, "merge against the rules", first.Snapshot().Facts(), factsByHand(deltas))

		shuffled := rapid.Permutation(deltas).Draw(t, "order")
		second := observe(t, "o2", shuffled)
		sameFacts(t, "commutative", second.Snapshot().Facts(), first.Snapshot().Facts())

		again := observe(t, "o3", append(slices.Clone(deltas), shuffled...))
		sameFacts(t, "idempotent", again.Snapshot().Facts(), first.Snapshot().Facts())

		cut := rapid.IntRange(0, len(deltas)).Draw(t, "cut")
		left, right := observe(t, "o4", deltas[:cut]), observe(t, "o5", deltas[cut:])
		if _, err := right.Merge(left.Snapshot().DeltaSince(nil)); err != nil {
			t.Fatal(err)
		}
		sameFacts(t, "associative", right.Snapshot().Facts(), first.Snapshot().Facts())
		for _, s := range []*Store{second, again, right} {
			if s.Snapshot().Digest() != first.Snapshot().Digest() {
				t.Fatalf("%s has the same facts and another digest", s.Owner())
			}
		}
	})
}

// cluster is a few stores with deltas between them that may be lost, late or doubled.
type cluster struct {
	stores  []*Store
	flying  []Delta
	targets []int
	nowNs   int64
}

func (c *cluster) act(t *rapid.T) {
	s := c.stores[rapid.IntRange(0, len(c.stores)-1).Draw(t, "store")]
	id := rapid.SampledFrom([]string{"p", "q", "r"}).Draw(t, "id")
	c.nowNs += rapid.Int64Range(-5, 10).Draw(t, "time")
	switch rapid.IntRange(0, 6).Draw(t, "act") {
	case 0:
		_ = s.Put(Device{ID: DeviceID(id), Node: s.Owner()}) // may be another's
	case 1:
		if err := s.TakeOver(Lane{ID: LaneID(id), Epoch: s.seq}); err != nil {
			t.Fatal(err)
		}
	case 2:
		if err := s.Delete(DeviceKey(DeviceID(id))); err != nil {
			t.Fatal(err)
		}
	case 3:
		if _, err := s.PutShared(TenantSpec{ID: TenantID(id), Priority: int(c.nowNs)}, c.nowNs); err != nil {
			t.Fatal(err)
		}
	case 4:
		if _, err := s.DeleteShared(TenantKey(TenantID(id)), c.nowNs); err != nil {
			t.Fatal(err)
		}
	case 5:
		if d := s.TakeDelta(); !d.Empty() {
			for i := range c.stores {
				for range rapid.IntRange(0, 2).Draw(t, "copies") {
					c.flying, c.targets = append(c.flying, d), append(c.targets, i)
				}
			}
		}
	case 6:
		if rapid.IntRange(0, 3).Draw(t, "suspect") == 0 {
			other := c.stores[rapid.IntRange(0, len(c.stores)-1).Draw(t, "dead")]
			s.RemoveOwner(other.Owner(), other.Incarnation())
		}
	}
}

func (c *cluster) deliver(t *rapid.T) {
	for len(c.flying) > 0 && rapid.Bool().Draw(t, "deliver") {
		i := rapid.IntRange(0, len(c.flying)-1).Draw(t, "which")
		c.merge(t, c.stores[c.targets[i]], c.flying[i], true)
		c.flying, c.targets = slices.Delete(c.flying, i, i+1), slices.Delete(c.targets, i, i+1)
	}
}

// merge sends a delta through the wire format in small pieces, some of which are lost when lossy is set.
func (c *cluster) merge(t *rapid.T, s *Store, d Delta, lossy bool) {
	chunks, err := EncodeDeltaChunks(d, rapid.SampledFrom([]int{1, 200, 1 << 20}).Draw(t, "limit"))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range chunks {
		if lossy && rapid.IntRange(0, 4).Draw(t, "lose") == 0 {
			continue
		}
		piece, err := DecodeDelta(b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Merge(piece); err != nil {
			t.Fatal(err)
		}
	}
}

// repair lets every store ask every other one for what it lacks, as nodes do when digests differ.
func (c *cluster) repair(t *rapid.T) {
	for _, s := range c.stores {
		for _, o := range c.stores {
			c.merge(t, s, o.Snapshot().DeltaSince(s.Snapshot().Vector()), false)
		}
	}
}

func TestClusterConvergesByRepair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &cluster{nowNs: 100}
		for i := range rapid.IntRange(2, 4).Draw(t, "stores") {
			c.stores = append(c.stores, NewStore(NodeID(fmt.Sprintf("n%d", i)), 1))
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			c.act(t)
			c.deliver(t)
		}
		c.flying, c.targets = nil, nil // whatever is under way is lost
		for range 3 {                  // facts, then the answers of nodes that were declared dead, then their facts
			c.repair(t)
		}
		want := c.stores[0].Snapshot()
		for _, s := range c.stores[1:] {
			got := s.Snapshot()
			if got.Digest() != want.Digest() || !reflect.DeepEqual(visibleFacts(got), visibleFacts(want)) {
				t.Fatalf("%s and %s differ after repair:\n%+v\n%+v", c.stores[0].Owner(), s.Owner(), want.Facts(), got.Facts())
			}
			if !reflect.DeepEqual(got.Vector(), want.Vector()) {
				t.Fatalf("vectors differ after repair: %v, %v", want.Vector(), got.Vector())
			}
		}
	})
}

// visibleFacts are the facts that count, without the versions of shared ones, which depend on who passed them on.
func visibleFacts(s *Snapshot) []Fact {
	var out []Fact
	s.Each(KindInvalid, func(f *Fact) bool {
		g := *f
		if g.Key.Kind.Shared() {
			g.Version = Version{}
		}
		out = append(out, g)
		return true
	})
	return out
}

func TestSnapshotIsolation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &cluster{nowNs: 100, stores: []*Store{NewStore("n0", 1), NewStore("n1", 1)}}
		type taken struct {
			snap   *Snapshot
			facts  []Fact
			vector Vector
		}
		var all []taken
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			c.act(t)
			c.deliver(t)
			for _, s := range c.stores {
				snap := s.Snapshot()
				all = append(all, taken{snap, snap.Facts(), snap.Vector()})
			}
		}
		for _, then := range all {
			sameFacts(t, "an old snapshot's facts", then.snap.Facts(), then.facts)
			if !reflect.DeepEqual(then.snap.Vector(), then.vector) {
				t.Fatal("an old snapshot's vector changed")
			}
		}
	})
}

func TestValuesAreCopiedIn(t *testing.T) {
	s := NewStore("a", 1)
	lane := Lane{ID: "t#0", Tenant: "t", Slices: []Slice{{Device: "a/cpu0"}}}
	device := Device{ID: "d", PeakFLOPS: map[DType]float64{F32: 1}}
	mustPut(t, s, lane, device)
	lane.Slices[0].Device = "elsewhere"
	device.PeakFLOPS[F32] = 2
	if l, _ := s.Snapshot().Lane("t#0"); l.Slices[0].Device != "a/cpu0" {
		t.Fatal("the store shares its lane's slices with the caller")
	}
	if d, _ := s.Snapshot().Device("d"); d.PeakFLOPS[F32] != 1 {
		t.Fatal("the store shares its device's map with the caller")
	}
}

func TestClockRises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := Clock{Node: "a"}, Clock{Node: "b"}
		var last Stamp
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			clock := rapid.SampledFrom([]*Clock{&a, &b}).Draw(t, "clock")
			clock.Observe(last)
			if rapid.IntRange(0, 9).Draw(t, "wrap") == 0 {
				clock.last.Counter = ^uint32(0)
			}
			next := clock.Next(rapid.Int64Range(-3, 20).Draw(t, "now"))
			if next.Compare(last) <= 0 || next.Node != clock.Node {
				t.Fatalf("%+v after %+v", next, last)
			}
			last = next
		}
	})
}
