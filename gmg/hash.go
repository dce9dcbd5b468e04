package gmg

// hash64 is FNV-1a with a final mix: the same on every machine and in every process, and without an allocation.
type hash64 uint64

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

func newHash64() hash64 { return fnvOffset }

func (h *hash64) byte(b byte) { *h = (*h ^ hash64(b)) * fnvPrime }

func (h *hash64) uint64(v uint64) {
	for range 8 {
		h.byte(byte(v))
		v >>= 8
	}
}

// string adds the length too, so that ("a", "bc") and ("ab", "c") differ.
func (h *hash64) string(s string) {
	h.uint64(uint64(len(s)))
	for i := range len(s) {
		h.byte(s[i])
	}
}

// sum spreads the last bytes over all bits (the finaliser of MurmurHash3).
func (h hash64) sum() uint64 {
	x := uint64(h)
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
