package replica

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"slicescheduler/gmg"
)

func deltaOf(t testing.TB, facts int) gmg.Delta {
	t.Helper()
	s := gmg.NewStore("a", 5)
	for i := range facts {
		if err := s.Put(gmg.DeviceState{Device: gmg.DeviceID(fmt.Sprintf("a/cpu%d", i)), BusyNs: int64(i)}); err != nil {
			t.Fatal(err)
		}
	}
	return s.TakeDelta()
}

func TestMessagesComeBack(t *testing.T) {
	for _, m := range []Message{
		{Kind: KindDelta, Hops: 3, Delta: deltaOf(t, 3)},
		{Kind: KindSync, Flags: flagReply | flagChild, Digest: 1 << 63, Vector: gmg.Vector{"a": {Incarnation: 5, Seq: 9}, "b": {}}},
		{Kind: KindWant, Flags: flagParent, Vector: gmg.Vector{}},
		{Kind: KindConfirm, Vector: gmg.Vector{}, Point: gmg.Point{Incarnation: 7, Seq: 8}},
		{Kind: KindKept, Vector: gmg.Vector{}, Point: gmg.Point{Incarnation: 7, Seq: 8}},
	} {
		pieces, err := m.Encode()
		if err != nil || len(pieces) != 1 {
			t.Fatalf("kind %d: %d pieces, %v", m.Kind, len(pieces), err)
		}
		if got, err := Decode(pieces[0]); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%+v came back as %+v, %v", m, got, err)
		}
	}
}

// The actor remote's limits are of bytes, so large deltas go in pieces, each of which a store takes.
func TestLargeDeltasGoInPieces(t *testing.T) {
	m := Message{Kind: KindDelta, Delta: deltaOf(t, 3000)}
	pieces, err := m.Encode()
	if err != nil || len(pieces) < 5 {
		t.Fatalf("%d pieces, %v", len(pieces), err)
	}
	s := gmg.NewStore("b", 1)
	for i, p := range pieces {
		if len(p) > MaxMessageBytes {
			t.Errorf("piece %d has %d bytes", i, len(p))
		}
		got, err := Decode(p)
		if err != nil {
			t.Fatal(err)
		}
		if merged, err := s.Merge(got.Delta); err != nil || len(merged.Gaps) > 0 {
			t.Errorf("piece %d: %+v, %v", i, merged.Gaps, err)
		}
	}
	if got := s.Snapshot().Point("a"); got.Seq != 3000 {
		t.Errorf("known up to %d", got.Seq)
	}
}

func TestJoinKeepsBothDeltas(t *testing.T) {
	span := func(inc, after, through uint64) gmg.Delta {
		return gmg.Delta{Spans: []gmg.Span{{Owner: "a", Incarnation: inc, After: after, Through: through}}}
	}
	for _, c := range []struct{ a, b, want gmg.Delta }{
		{span(1, 0, 3), span(1, 3, 5), span(1, 0, 5)}, {span(1, 3, 5), span(1, 0, 3), span(1, 0, 5)}, {span(1, 0, 3), span(1, 5, 6), span(1, 5, 6)},
		{span(1, 5, 6), span(1, 0, 3), span(1, 5, 6)}, {span(2, 0, 1), span(1, 0, 9), span(2, 0, 1)}, {span(1, 0, 9), span(2, 0, 0), span(2, 0, 0)},
		{gmg.Delta{}, span(1, 0, 1), span(1, 0, 1)},
	} {
		if got := join(c.a, c.b); !reflect.DeepEqual(got.Spans, c.want.Spans) {
			t.Errorf("%v and %v make %v, want %v", c.a.Spans, c.b.Spans, got.Spans, c.want.Spans)
		}
	}
}

// FuzzDecode feeds what any peer may send: it is an error or a message that a replica takes without harm.
func FuzzDecode(f *testing.F) {
	for _, m := range []Message{
		{Kind: KindDelta, Delta: deltaOf(f, 2)}, {Kind: KindSync, Flags: flagReply | flagChild, Vector: gmg.Vector{"a": {Incarnation: 5, Seq: 9}}},
		{Kind: KindWant, Vector: gmg.Vector{"me": {}}}, {Kind: KindConfirm, Point: gmg.Point{Seq: 1}}, {Kind: KindKept},
	} {
		pieces, err := m.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(pieces[0])
	}
	f.Add([]byte{1, 1, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrMessage) {
				t.Errorf("%v is no ErrMessage", err)
			}
			return
		}
		r := New(gmg.NewStore("me", 1), 1, 0)
		r.Members([]gmg.NodeID{"a", "b"}, 0)
		if _, err := r.Receive("a", m, 1); err == nil {
			r.Tick(2 * sec)
		}
		r.Compare(b)
		for _, e := range r.Take() {
			if _, err := e.Message.Encode(); err != nil {
				t.Errorf("what follows can't be sent: %v", err)
			}
		}
	})
}
