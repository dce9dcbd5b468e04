package gmg

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func TestLedgerStaysWithinBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ledger := Ledger{CapacityBytes: rapid.Int64Range(0, 100).Draw(t, "capacity")}
		var held [NumMemoryClasses]int64 // the same by hand
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			class := MemoryClass(rapid.IntRange(0, int(NumMemoryClasses)).Draw(t, "class"))
			bytes := rapid.Int64Range(-5, 60).Draw(t, "bytes")
			before, sum := ledger, ledger.HeldBytes()
			var err error
			bad := bytes < 0 || class >= NumMemoryClasses
			if rapid.Bool().Draw(t, "reserve") {
				ledger, err = ledger.Reserve(class, bytes)
				switch {
				case bad && !errors.Is(err, ErrLedger), !bad && sum+bytes > ledger.CapacityBytes && !errors.Is(err, ErrOutOfMemory):
					t.Fatalf("reserve %d of %v: %v", bytes, class, err)
				case !bad && sum+bytes <= ledger.CapacityBytes:
					held[class] += bytes
				}
			} else {
				ledger, err = ledger.Release(class, bytes)
				bad = bad || bytes > held[class]
				if bad != errors.Is(err, ErrLedger) {
					t.Fatalf("release %d of %v: %v", bytes, class, err)
				}
				if !bad {
					held[class] -= bytes
				}
			}
			if err != nil && ledger != before {
				t.Fatalf("an error changed the ledger: %+v to %+v", before, ledger)
			}
			if ledger.Held != held || ledger.Free() < 0 || ledger.Free()+ledger.HeldBytes() != ledger.CapacityBytes {
				t.Fatalf("ledger %+v, by hand %v", ledger, held)
			}
		}
	})
}
