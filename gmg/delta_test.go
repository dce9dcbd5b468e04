package gmg

import (
	"fmt"
	"testing"
)

// BenchmarkDelta is a batch of 64 device states on its way to another node: taken, encoded, decoded and merged.
func BenchmarkDelta(b *testing.B) {
	a, o := filled(b, 2000), NewStore("o", 1)
	if _, err := o.Merge(a.Snapshot().DeltaSince(nil)); err != nil {
		b.Fatal(err)
	}
	var bytes int
	for i := 0; b.Loop(); i++ {
		for k := range 64 {
			if err := a.Put(DeviceState{Device: DeviceID(fmt.Sprintf("n%04d/cuda%d", k/8, k%8)), Queued: i}); err != nil {
				b.Fatal(err)
			}
		}
		wire, err := EncodeDelta(a.TakeDelta())
		if err != nil {
			b.Fatal(err)
		}
		bytes = len(wire)
		d, err := DecodeDelta(wire)
		if err != nil {
			b.Fatal(err)
		}
		if m, err := o.Merge(d); err != nil || len(m.Changed) != 64 || len(m.Gaps) > 0 {
			b.Fatalf("%+v, %v", m, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/fact")
	b.ReportMetric(float64(bytes)/64, "bytes/fact")
}

// BenchmarkDeltaSince looks for one fact that another node lacks.
func BenchmarkDeltaSince(b *testing.B) {
	for _, n := range []int{1000, 30_000} {
		b.Run(fmt.Sprintf("facts=%d", n), func(b *testing.B) {
			s := filled(b, n)
			v := s.Snapshot().Vector()
			if err := s.Put(Node{ID: "late"}); err != nil {
				b.Fatal(err)
			}
			snap := s.Snapshot()
			for b.Loop() {
				if d := snap.DeltaSince(v); len(d.Facts) != 1 {
					b.Fatal(len(d.Facts))
				}
			}
		})
	}
}
