package gmg

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestTreeAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := tree[int, int]{order: cmp.Compare[int], hash: func(k int) uint64 {
			h := newHash64()
			h.uint64(uint64(k))
			return h.sum()
		}}
		plain := map[int]int{}
		type frozen struct {
			tree  tree[int, int]
			plain map[int]int
		}
		var old []frozen
		for i := range rapid.IntRange(1, 200).Draw(t, "steps") {
			k := rapid.IntRange(0, 40).Draw(t, "key")
			switch rapid.IntRange(0, 5).Draw(t, "act") {
			case 0:
				old = append(old, frozen{tr.freeze(), maps.Clone(plain)})
			case 1, 2:
				tr.remove(k)
				delete(plain, k)
			default:
				tr.put(k, i)
				plain[k] = i
			}
		}
		for _, f := range append(old, frozen{tr, plain}) {
			from := rapid.IntRange(-1, 41).Draw(t, "from")
			var got, want []string
			f.tree.ascend(from, func(k, v int) bool {
				got = append(got, fmt.Sprint(k, v))
				return true
			})
			for _, k := range slices.Sorted(maps.Keys(f.plain)) {
				if k >= from {
					want = append(want, fmt.Sprint(k, f.plain[k]))
				}
			}
			if !slices.Equal(got, want) || f.tree.size != len(f.plain) {
				t.Fatalf("from %d: tree %v (%d), map %v", from, got, f.tree.size, want)
			}
		}
	})
}

// filled returns a store with n facts, a tenth of a cluster's worth of kinds.
func filled(tb testing.TB, n int) *Store {
	s := NewStore("a", 1)
	for i := range n {
		if err := s.Put(DeviceState{Device: DeviceID(fmt.Sprintf("n%04d/cuda%d", i/8, i%8))}); err != nil {
			tb.Fatal(err)
		}
	}
	s.TakeDelta()
	return s
}

func TestSnapshotCostDoesNotDependOnSize(t *testing.T) {
	allocs := func(n int) float64 {
		s := filled(t, n)
		key := DeviceState{Device: "n0000/cuda0"}
		write := testing.AllocsPerRun(100, func() { mustPut(t, s, key) })
		both := testing.AllocsPerRun(100, func() {
			mustPut(t, s, key)
			s.Snapshot()
			s.snapshot = nil // as another write would
			s.Snapshot()
		})
		t.Logf("%d facts: %v allocations a write, %v with two snapshots", n, write, both)
		return testing.AllocsPerRun(100, func() {
			s.snapshot = nil
			s.Snapshot()
		})
	}
	for _, n := range []int{10, 20000} {
		if got := allocs(n); got != 1 {
			t.Errorf("%d facts: a snapshot takes %v allocations, wants 1", n, got)
		}
	}
}

// BenchmarkSnapshot takes a snapshot after each write. snapshot-ns is the snapshot's own share, which must be the same in all sizes.
func BenchmarkSnapshot(b *testing.B) {
	for _, n := range []int{100, 10_000, 200_000} {
		s := filled(b, n)
		b.Run(fmt.Sprintf("take/facts=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.snapshot = nil
				s.Snapshot()
			}
		})
		b.Run(fmt.Sprintf("write+take/facts=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				k := i * 7919 % n
				if err := s.Put(DeviceState{Device: DeviceID(fmt.Sprintf("n%04d/cuda%d", k/8, k%8)), Queued: i}); err != nil {
					b.Fatal(err)
				}
				s.Snapshot()
			}
		})
	}
}
