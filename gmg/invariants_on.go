//go:build invariants

package gmg

import "fmt"

// checkEvery is how many writes of a large store go by between two checks, which read all of it.
const checkEvery = 1024

// checkInvariants panics when a store's digest or vector doesn't match its facts.
func (s *Store) checkInvariants() {
	if s.facts.size > checkEvery && s.seq%checkEvery != 0 {
		return
	}
	var digest uint64
	count := 0
	s.facts.ascend(register{}, func(r register, f *Fact) bool {
		digest += f.hash()
		count++
		if r != registerOf(f) {
			panic(fmt.Sprintf("gmg: %v lies in the register of %v", f.Key, r))
		}
		p, ok := s.vector.get(f.Version.Owner)
		if r.owner != "" && (!ok || f.Version.Incarnation != p.Incarnation) {
			panic(fmt.Sprintf("gmg: %v is of incarnation %d of %s, which is at %d", f.Key, f.Version.Incarnation, f.Version.Owner, p.Incarnation))
		}
		return true
	})
	if digest != s.digest || count != s.facts.size {
		panic(fmt.Sprintf("gmg: digest %x of %d facts, held as %x of %d", digest, count, s.digest, s.facts.size))
	}
}

// checkInvariants panics when a ledger holds less than nothing or more than its capacity.
func (l Ledger) checkInvariants() {
	for c, h := range l.Held {
		if h < 0 {
			panic(fmt.Sprintf("gmg: ledger holds %d bytes of %v", h, MemoryClass(c)))
		}
	}
	if l.Free() < 0 {
		panic(fmt.Sprintf("gmg: ledger holds %d of %d bytes", l.HeldBytes(), l.CapacityBytes))
	}
}
