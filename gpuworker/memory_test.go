package gpuworker_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
)

// Any mixture of takes and gives leaves the ledger equal to a plain count, and never beyond capacity.
func TestMemoryAgainstCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const capacity = 1000
		m := gpuworker.NewMemory("d", capacity)
		var held, given []*gpuworker.Block
		var count [gmg.NumMemoryClasses]int64
		total := func() (n int64) {
			for _, c := range count {
				n += c
			}
			return n
		}
		for range rapid.IntRange(1, 60).Draw(t, "acts") {
			switch rapid.IntRange(0, 3).Draw(t, "act") {
			case 0, 1:
				class := gmg.MemoryClass(rapid.IntRange(0, int(gmg.NumMemoryClasses)-1).Draw(t, "class"))
				bytes := int64(rapid.IntRange(0, 400).Draw(t, "bytes"))
				b, err := m.Take(class, bytes)
				if fits := total()+bytes <= capacity; fits != (err == nil) || !fits && !errors.Is(err, gmg.ErrOutOfMemory) {
					t.Fatalf("take %d beside %d: %v", bytes, total(), err)
				}
				if err == nil {
					held = append(held, b)
					count[class] += bytes
				}
			case 2:
				if len(held) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				b := held[i]
				if err := m.Give(b); err != nil {
					t.Fatal(err)
				}
				count[b.Class()] -= b.Bytes()
				held = append(held[:i], held[i+1:]...)
				given = append(given, b)
			case 3:
				if len(given) > 0 {
					if err := m.Give(given[len(given)-1]); !errors.Is(err, gpuworker.ErrBadBuffer) {
						t.Fatalf("given twice: %v", err)
					}
				}
			}
			if l := m.Ledger(); l.Held != count || l.Free()+l.HeldBytes() != capacity {
				t.Fatalf("ledger %+v, count %v", l, count)
			}
		}
		m.Close()
		if l := m.Ledger(); l.HeldBytes() != 0 {
			t.Fatalf("closed, and %v held", l.Held)
		}
		if _, err := m.Take(gmg.MemKV, 1); !errors.Is(err, gpuworker.ErrDeviceClosed) {
			t.Fatalf("take after close: %v", err)
		}
	})
}
