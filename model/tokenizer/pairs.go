package tokenizer

import "math"

// pairTable finds the rank and the result of merging two symbols: open addressing on the pair's hash.
type pairTable struct {
	entries []pairEntry
	mask    uint64
}

type pairEntry struct {
	pair         uint64 // left symbol above, right below, plus 1: 0 is empty
	rank, merged int32
}

func pairKey(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) + 1 }

// mix spreads a pair over all bits (Fibonacci hashing).
func mix(key uint64) uint64 {
	key *= 0x9e3779b97f4a7c15
	return key ^ key>>32
}

// find returns the merge of two symbols; no rank comes after math.MaxInt32, which stands for none.
func (t *pairTable) find(left, right int32) (rank, merged int32) {
	key := pairKey(left, right)
	for i := mix(key) & t.mask; ; i = (i + 1) & t.mask {
		switch e := &t.entries[i]; e.pair {
		case key:
			return e.rank, e.merged
		case 0:
			return math.MaxInt32, -1
		}
	}
}

// pairBuilder collects merges whose number is not known before.
type pairBuilder struct{ list []pairEntry }

func newPairBuilder() *pairBuilder { return &pairBuilder{} }

func (b *pairBuilder) add(left, right, rank, merged int32) {
	b.list = append(b.list, pairEntry{pairKey(left, right), rank, merged})
}

// table builds the table; of equal pairs the lowest rank stays.
func (b *pairBuilder) table() pairTable {
	size := 16
	for size < 2*len(b.list) {
		size *= 2
	}
	t := pairTable{entries: make([]pairEntry, size), mask: uint64(size - 1)}
	for _, e := range b.list {
		i := mix(e.pair) & t.mask
		for t.entries[i].pair != 0 && t.entries[i].pair != e.pair {
			i = (i + 1) & t.mask
		}
		if t.entries[i].pair == 0 {
			t.entries[i] = e
		}
	}
	return t
}
