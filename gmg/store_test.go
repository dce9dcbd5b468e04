package gmg

import (
	"errors"
	"math"
	"testing"
)

func mustPut(t *testing.T, s *Store, vs ...Value) {
	t.Helper()
	for _, v := range vs {
		if err := s.Put(v); err != nil {
			t.Fatal(err)
		}
	}
}

func mustMerge(t *testing.T, s *Store, d Delta) Merged {
	t.Helper()
	m, err := s.Merge(d)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestDeltaCarriesFactsToAnotherNode(t *testing.T) {
	a, b := NewStore("a", 1), NewStore("b", 1)
	mustPut(t, a, Device{ID: "a/cpu0", Node: "a"}, Lane{ID: "t#1", Tenant: "t"}, Lane{ID: "t#0", Tenant: "t"}, Lane{ID: "tt#0", Tenant: "tt"})
	m := mustMerge(t, b, a.TakeDelta())
	if len(m.Changed) != 4 || len(m.Gaps) != 0 {
		t.Fatalf("merged %+v", m)
	}
	snap := b.Snapshot()
	if d, ok := snap.Device("a/cpu0"); !ok || d.Node != "a" {
		t.Fatalf("device %+v %v", d, ok)
	}
	if lanes := snap.Lanes("t"); len(lanes) != 2 || lanes[0].ID != "t#0" || lanes[1].ID != "t#1" {
		t.Fatalf("lanes %+v", lanes)
	}
	if d := a.TakeDelta(); !d.Empty() {
		t.Fatalf("taken twice: %+v", d)
	}
	if err := a.Delete(LaneKey("t#0")); err != nil {
		t.Fatal(err)
	}
	mustMerge(t, b, a.TakeDelta())
	if lanes := b.Snapshot().Lanes("t"); len(lanes) != 1 || lanes[0].ID != "t#1" {
		t.Fatalf("after delete %+v", lanes)
	}
	if lanes := snap.Lanes("t"); len(lanes) != 2 {
		t.Fatalf("an old snapshot changed: %+v", lanes)
	}
}

func TestGapIsNamedAndRepaired(t *testing.T) {
	a, b := NewStore("a", 1), NewStore("b", 1)
	mustPut(t, a, Node{ID: "a"})
	lost := a.TakeDelta()
	mustPut(t, a, Device{ID: "a/cpu0"})
	m := mustMerge(t, b, a.TakeDelta())
	want := Gap{Owner: "a", Have: Point{1, 0}, After: Point{1, 1}}
	if len(m.Gaps) != 1 || m.Gaps[0] != want {
		t.Fatalf("gaps %+v, want %+v", m.Gaps, want)
	}
	m = mustMerge(t, b, a.Snapshot().DeltaSince(b.Snapshot().Vector()))
	if len(m.Gaps) != 0 || len(m.Changed) != 1 || len(lost.Facts) != 1 {
		t.Fatalf("repair %+v", m)
	}
	if got := b.Snapshot().Vector()["a"]; got != (Point{1, 2}) {
		t.Fatalf("vector %+v", got)
	}
	if a.Snapshot().Digest() != b.Snapshot().Digest() {
		t.Fatal("digests differ")
	}
}

func TestRemovedNodesFactsStayAway(t *testing.T) {
	a, b, c := NewStore("a", 5), NewStore("b", 1), NewStore("c", 1)
	mustPut(t, a, Device{ID: "a/cpu0"})
	if _, err := a.PutShared(TenantSpec{ID: "t", Model: "m"}, 10); err != nil {
		t.Fatal(err)
	}
	old := a.TakeDelta()
	mustMerge(t, b, old)
	if changed := b.RemoveOwner("a", 5); len(changed) != 1 || changed[0] != DeviceKey("a/cpu0") {
		t.Fatalf("removal changed %v", changed)
	}
	mustMerge(t, b, old)
	if _, ok := b.Snapshot().Device("a/cpu0"); ok {
		t.Fatal("an old copy brought a dead node's device back")
	}
	if _, ok := b.Snapshot().Tenant("t"); !ok {
		t.Fatal("the tenant went with the node that submitted it")
	}
	mustMerge(t, c, old)
	mustMerge(t, c, b.Snapshot().DeltaSince(c.Snapshot().Vector()))
	if _, ok := c.Snapshot().Device("a/cpu0"); ok {
		t.Fatal("the removal didn't travel")
	}
	if _, ok := c.Snapshot().Tenant("t"); !ok {
		t.Fatal("the tenant was lost on the way")
	}
	m := mustMerge(t, a, b.Snapshot().DeltaSince(a.Snapshot().Vector()))
	if !m.Reincarnated {
		t.Fatal("a live node that was declared dead must come back under a new incarnation")
	}
	mustMerge(t, b, a.TakeDelta())
	if _, ok := b.Snapshot().Device("a/cpu0"); !ok {
		t.Fatal("the node's device didn't come back with its new incarnation")
	}
}

func TestKeyChangesHands(t *testing.T) {
	// b started later, so only the claim lets a win the key back.
	a, b := NewStore("a", 1), NewStore("b", 2)
	mustPut(t, a, Lane{ID: "t#0", Tenant: "t", Epoch: 1})
	mustMerge(t, b, a.TakeDelta())
	if err := b.Put(Lane{ID: "t#0", Tenant: "t", Epoch: 2}); !errors.Is(err, ErrNotOwner) {
		t.Fatalf("put of another's key: %v", err)
	}
	if err := b.TakeOver(Lane{ID: "t#0", Tenant: "t", Epoch: 2}); err != nil {
		t.Fatal(err)
	}
	m := mustMerge(t, a, b.TakeDelta())
	if len(m.Lost) != 1 || m.Lost[0] != LaneKey("t#0") {
		t.Fatalf("lost %v", m.Lost)
	}
	if err := a.TakeOver(Lane{ID: "t#0", Tenant: "t", Epoch: 3}); err != nil {
		t.Fatal(err)
	}
	mustMerge(t, b, a.TakeDelta())
	for _, s := range []*Store{a, b} {
		if l, _ := s.Snapshot().Lane("t#0"); l.Epoch != 3 {
			t.Fatalf("%s sees epoch %d", s.Owner(), l.Epoch)
		}
	}
	if err := a.Delete(LaneKey("t#0")); err != nil {
		t.Fatal(err)
	}
	mustMerge(t, b, a.TakeDelta())
	if l, ok := b.Snapshot().Lane("t#0"); ok {
		t.Fatalf("a withdrawn lane is seen again: %+v", l)
	}
	mustPut(t, b, Lane{ID: "t#0", Tenant: "t", Epoch: 4})
	mustMerge(t, a, b.TakeDelta())
	if l, _ := a.Snapshot().Lane("t#0"); l.Epoch != 4 {
		t.Fatalf("a sees epoch %d", l.Epoch)
	}
}

func TestSharedFactsLastWriterWins(t *testing.T) {
	a, b := NewStore("a", 1), NewStore("b", 1)
	put := func(s *Store, model string, nowNs int64) {
		if _, err := s.PutShared(TenantSpec{ID: "t", Model: model}, nowNs); err != nil {
			t.Fatal(err)
		}
	}
	put(a, "first", 1000)
	mustMerge(t, b, a.TakeDelta())
	put(b, "second", 10) // b's wall clock is behind, but it has seen the first
	mustMerge(t, a, b.TakeDelta())
	if spec, _ := a.Snapshot().Tenant("t"); spec.Model != "second" {
		t.Fatalf("a sees %q", spec.Model)
	}
	if _, err := a.DeleteShared(TenantKey("t"), 20); err != nil {
		t.Fatal(err)
	}
	mustMerge(t, b, a.TakeDelta())
	if specs := b.Snapshot().Tenants(); len(specs) != 0 {
		t.Fatalf("b sees %v after the removal", specs)
	}
}

func TestRestoredSpecsReachNodesThatKnowThisOne(t *testing.T) {
	a := NewStore("a", 1)
	fact, err := a.PutShared(TenantSpec{ID: "t", Model: "m"}, 5)
	if err != nil {
		t.Fatal(err)
	}
	again, b := NewStore("a", 2), NewStore("b", 1)
	if err := again.Restore([]Fact{fact}); err != nil {
		t.Fatal(err)
	}
	mustMerge(t, b, again.TakeDelta())
	if _, ok := b.Snapshot().Tenant("t"); !ok {
		t.Fatal("a restored tenant didn't travel")
	}
	got, _ := b.Snapshot().Fact(TenantKey("t"))
	if got.Stamp != fact.Stamp {
		t.Fatalf("stamp %v became %v", fact.Stamp, got.Stamp)
	}
}

func TestSharedFactsOfAnEarlierLifeAreRepaired(t *testing.T) {
	// a's tenant reached b alone; then a lost its disk and came back, and c knows it only since.
	a, b, c := NewStore("a", 1), NewStore("b", 1), NewStore("c", 1)
	if _, err := a.PutShared(TenantSpec{ID: "t", Model: "m"}, 5); err != nil {
		t.Fatal(err)
	}
	mustMerge(t, b, a.TakeDelta())
	again := NewStore("a", 2)
	mustPut(t, again, Node{ID: "a"})
	d := again.TakeDelta()
	mustMerge(t, b, d)
	mustMerge(t, c, d)
	mustMerge(t, c, b.Snapshot().DeltaSince(c.Snapshot().Vector()))
	if _, ok := c.Snapshot().Tenant("t"); !ok {
		t.Fatal("the tenant of a's earlier life was not repaired")
	}
}

func TestMalformedFactsAreRefusedWhole(t *testing.T) {
	s := NewStore("a", 1)
	good := Fact{Key: NodeKey("b"), Version: Version{"b", 1, 1}, Value: Node{ID: "b"}}
	for name, bad := range map[string]Fact{
		"no owner":         {Key: NodeKey("b"), Version: Version{"", 1, 1}, Value: Node{ID: "b"}},
		"no sequence":      {Key: NodeKey("b"), Version: Version{"b", 1, 0}, Value: Node{ID: "b"}},
		"other value":      {Key: NodeKey("b"), Version: Version{"b", 1, 1}, Value: Node{ID: "c"}},
		"no value":         {Key: NodeKey("b"), Version: Version{"b", 1, 1}},
		"both":             {Key: NodeKey("b"), Version: Version{"b", 1, 1}, Value: Node{ID: "b"}, Deleted: true},
		"unknown kind":     {Key: Key{200, "b"}, Version: Version{"b", 1, 1}, Deleted: true},
		"shared unstamped": {Key: TenantKey("t"), Version: Version{"b", 1, 1}, Value: TenantSpec{ID: "t"}},
	} {
		if _, err := s.Merge(Delta{Facts: []Fact{good, bad}}); !errors.Is(err, ErrFact) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(s.Snapshot().Facts()); n != 0 {
		t.Errorf("%d facts were taken in from refused deltas", n)
	}
}

func TestPutRefusesWhatOthersCannotRead(t *testing.T) {
	s := NewStore("a", 1)
	odd := smallGraph()
	odd.Blocks[1].Operators[0].FLOPs = TimesT(math.Inf(1))
	for name, v := range map[string]Value{
		"no id":         Node{},
		"no text":       Node{ID: "\xff"},
		"NaN":           Device{ID: "d", PeakFLOPS: map[DType]float64{F32: math.NaN()}},
		"infinite":      Link{From: "a", To: "b", BandwidthBytesPerS: math.Inf(1)},
		"odd time":      OperatorTimes{Device: "d", Times: []OperatorTime{{MeanNs: math.NaN()}}},
		"hollow graph":  &Graph{ID: "g"},
		"infinite cost": odd,
		"shared":        TenantSpec{ID: "t"},
	} {
		if err := s.Put(v); !errors.Is(err, ErrFact) && !errors.Is(err, ErrGraph) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.PutShared(TenantSpec{ID: "\xff"}, 1); !errors.Is(err, ErrFact) {
		t.Errorf("shared without text: %v", err)
	}
	if d := s.TakeDelta(); !d.Empty() {
		t.Errorf("refused values left %+v", d)
	}
}
