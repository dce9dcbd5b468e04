package tokenizer

import (
	"bytes"
	"fmt"
	"math"
)

// bpe is byte-level byte pair encoding: a piece begins as its bytes, and the pair of neighbours with the lowest rank is merged, the leftmost first, until no pair
// has a rank (Sennrich et al., arXiv 1508.07909).
type bpe struct {
	vocab      *vocabulary
	split      splitter
	wholeWords bool
	symbols    [256]int32 // the symbol of each byte
	pairs      pairTable
	// extra holds the texts of symbols that merges name but the vocabulary lacks; symbol count+i is extra[i].
	extra []string
	unk   int32
}

// newBPE builds the merge table.
func newBPE(c Config, v *vocabulary) (*bpe, error) {
	b := &bpe{vocab: v, unk: c.Unk}
	var err error
	if b.split, b.wholeWords, err = splitterOf(c.Pre); err != nil {
		return nil, err
	}
	if c.Merges == nil {
		return nil, fmt.Errorf("%w: no merges", ErrVocabulary)
	}
	extra := make(map[string]int32)
	symbol := func(text string) int32 {
		if id := v.find(text); id >= 0 {
			return id
		}
		id, known := extra[text]
		if !known {
			id = int32(len(v.types) + len(b.extra))
			extra[text] = id
			b.extra = append(b.extra, text)
		}
		return id
	}
	for i := range b.symbols {
		b.symbols[i] = symbol(string([]byte{byte(i)}))
	}
	if err := b.readMerges(c, symbol); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *bpe) readMerges(c Config, symbol func(string) int32) error {
	var buffer []byte
	ranks := newPairBuilder()
	for rank, merge := range c.Merges {
		// The left part is not empty, and neither part holds a space: GPT-2's alphabet has none.
		cut := bytes.IndexByte(merge, ' ')
		if cut < 1 || cut == len(merge)-1 || rank > math.MaxInt32 {
			return fmt.Errorf("%w: merge %d is %q, two parts are needed", ErrVocabulary, rank, merge)
		}
		buffer, _ = appendByteLevel(buffer[:0], merge[:cut])
		n := len(buffer)
		buffer, _ = appendByteLevel(buffer, merge[cut+1:])
		text := string(buffer)
		ranks.add(symbol(text[:n]), symbol(text[n:]), int32(rank), symbol(text))
	}
	b.pairs = ranks.table()
	return nil
}

func (b *bpe) encode(dst []int32, text string, _ bool) []int32 {
	var m merger
	b.split(text, func(piece string) {
		if b.wholeWords {
			if id := b.vocab.find(piece); id >= 0 {
				dst = append(dst, id)
				return
			}
		}
		for _, s := range b.merge(&m, piece) {
			dst = b.emit(dst, s)
		}
	})
	return dst
}

// emit appends a symbol's token. A symbol that is no token is written byte by byte, and a byte without a token as the unknown token where there is one.
func (b *bpe) emit(dst []int32, s int32) []int32 {
	if int(s) < len(b.vocab.types) {
		return append(dst, s)
	}
	text := b.extra[int(s)-len(b.vocab.types)]
	for i := range len(text) {
		if id := b.symbols[text[i]]; int(id) < len(b.vocab.types) {
			dst = append(dst, id)
		} else if b.unk >= 0 {
			dst = append(dst, b.unk)
		}
	}
	return dst
}

// merger is the scratch memory of one call of encode.
type merger struct {
	ids        []int32
	prev, next []int32
	ranks      []int32
	merged     []int32
	heap       heap
}

// shortPiece is the number of symbols up to which looking at all pairs beats a heap.
const shortPiece = 24

// merge returns the symbols of a piece; they are valid until the next call.
func (b *bpe) merge(m *merger, piece string) []int32 {
	m.ids = m.ids[:0]
	for i := range len(piece) {
		m.ids = append(m.ids, b.symbols[piece[i]])
	}
	if len(m.ids) <= shortPiece {
		return b.mergeShort(m)
	}
	return b.mergeLong(m)
}

// mergeShort keeps the rank of each pair and scans for the lowest.
func (b *bpe) mergeShort(m *merger) []int32 {
	ids, ranks, merged := m.ids, m.ranks[:0], m.merged[:0]
	for i := 0; i+1 < len(ids); i++ {
		rank, id := b.pairs.find(ids[i], ids[i+1])
		ranks, merged = append(ranks, rank), append(merged, id)
	}
	m.ranks, m.merged = ranks, merged
	for {
		best, at := int32(math.MaxInt32), -1
		for i, r := range ranks {
			if r < best {
				best, at = r, i
			}
		}
		if at < 0 {
			return ids
		}
		ids[at] = merged[at]
		ids = append(ids[:at+1], ids[at+2:]...)
		ranks = append(ranks[:at], ranks[at+1:]...)
		merged = append(merged[:at], merged[at+1:]...)
		for _, i := range [...]int{at - 1, at} {
			if i >= 0 && i < len(ranks) {
				ranks[i], merged[i] = b.pairs.find(ids[i], ids[i+1])
			}
		}
	}
}

// mergeLong keeps the symbols in a linked list and the pairs in a heap.
func (b *bpe) mergeLong(m *merger) []int32 {
	n := int32(len(m.ids))
	m.prev, m.next, m.heap = m.prev[:0], m.next[:0], m.heap[:0]
	for i := range n {
		m.prev, m.next = append(m.prev, i-1), append(m.next, i+1)
	}
	push := func(left, right int32) {
		if left < 0 || right >= n {
			return
		}
		if rank, id := b.pairs.find(m.ids[left], m.ids[right]); id >= 0 {
			m.heap.push(candidate{uint64(rank)<<32 | uint64(left), right, id, m.ids[left], m.ids[right]})
		}
	}
	for i := range n - 1 {
		push(i, i+1)
	}
	for len(m.heap) > 0 {
		c := m.heap.pop()
		left := int32(uint32(c.key))
		if m.ids[left] != c.left || m.ids[c.right] != c.after || m.next[left] != c.right {
			continue
		}
		m.ids[left], m.ids[c.right] = c.merged, -1
		after := m.next[c.right]
		m.next[left] = after
		if after < n {
			m.prev[after] = left
		}
		push(m.prev[left], left)
		push(left, after)
	}
	out := m.ids[:0]
	for i := int32(0); i < n; i = m.next[i] {
		out = append(out, m.ids[i])
	}
	return out
}
