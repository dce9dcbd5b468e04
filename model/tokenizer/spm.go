package tokenizer

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// spaceMark stands for a space in SentencePiece vocabularies.
const spaceMark = "\u2581"

// spm is SentencePiece's merging by score: a text begins as its characters, and the two neighbours whose join is the token of the highest score are merged, the leftmost
// first, until no join is a token. A character that is no token becomes its bytes (Kudo and Richardson, arXiv 1808.06226).
type spm struct {
	vocab       *vocabulary
	scores      []float32
	bytes       [256]int32
	unk         int32
	spacePrefix bool
}

// decodeSPM appends what a token stands for: the mark is a space, "<0xHH>" is a byte. Special tokens are written as they are. merges says that merging may yield
// the token.
func decodeSPM(dst []byte, text []byte, typ Type) (out []byte, merges bool) {
	switch typ {
	case Normal, Unused:
		for {
			mark := bytes.Index(text, []byte(spaceMark))
			if mark < 0 {
				return append(dst, text...), true
			}
			dst = append(append(dst, text[:mark]...), ' ')
			text = text[mark+len(spaceMark):]
		}
	case Byte:
		if b, ok := byteToken(string(text)); ok {
			dst = append(dst, b)
		}
		return dst, false
	}
	return append(dst, text...), typ == UserDefined
}

func byteToken(text string) (byte, bool) {
	if len(text) != len("<0x00>") || text[:3] != "<0x" || text[5] != '>' {
		return 0, false
	}
	b, err := strconv.ParseUint(text[3:5], 16, 8)
	return byte(b), err == nil
}

func newSPM(c Config, v *vocabulary) (*spm, error) {
	if len(c.Scores) != c.Count {
		return nil, fmt.Errorf("%w: %d scores for %d tokens", ErrVocabulary, len(c.Scores), c.Count)
	}
	s := &spm{vocab: v, scores: c.Scores, unk: c.Unk, spacePrefix: c.AddSpacePrefix}
	for i := range s.bytes {
		s.bytes[i] = -1
	}
	for id, typ := range v.types {
		if text := v.text(int32(id)); typ == Byte && len(text) == 1 {
			s.bytes[text[0]] = int32(id)
		}
	}
	return s, nil
}

// spmMerger is the scratch memory of one call of encode. Symbol i is text[start[i]:start[i]+length[i]].
type spmMerger struct {
	text          string
	start, length []int32
	prev, next    []int32
	heap          heap
}

func (s *spm) encode(dst []int32, text string, afterSpecial bool) []int32 {
	if s.spacePrefix && afterSpecial {
		text = " " + text
	}
	m := newSPMMerger(text)
	for i := range m.start[:len(m.start)-1] {
		s.push(m, int32(i), int32(i+1))
	}
	for len(m.heap) > 0 {
		c := m.heap.pop()
		left := int32(uint32(c.key))
		if m.length[left] != c.left || m.length[c.right] != c.after || m.next[left] != c.right {
			continue
		}
		m.length[left] += m.length[c.right]
		m.length[c.right] = 0
		after := m.next[c.right]
		m.next[left] = after
		if int(after) < len(m.start) {
			m.prev[after] = left
		}
		s.push(m, m.prev[left], left)
		s.push(m, left, after)
	}
	for i := int32(0); int(i) < len(m.start); i = m.next[i] {
		dst = s.emit(dst, m.symbol(i))
	}
	return dst
}

func newSPMMerger(text string) *spmMerger {
	n := utf8.RuneCountInString(text)
	memory := make([]int32, 4*n)
	m := &spmMerger{text: text, start: memory[:n], length: memory[n : 2*n], prev: memory[2*n : 3*n], next: memory[3*n:], heap: make(heap, 0, n)}
	at := 0
	for i := range m.start {
		_, size := utf8.DecodeRuneInString(text[at:])
		m.start[i], m.length[i], m.prev[i], m.next[i] = int32(at), int32(size), int32(i-1), int32(i+1)
		at += size
	}
	return m
}

func (m *spmMerger) symbol(i int32) string { return m.text[m.start[i] : m.start[i]+m.length[i]] }

// push adds the merge of two symbols when their join is a token.
func (s *spm) push(m *spmMerger, left, right int32) {
	if left < 0 || int(right) >= len(m.start) {
		return
	}
	id := s.vocab.find(m.text[m.start[left] : m.start[right]+m.length[right]])
	if id >= 0 {
		m.heap.push(candidate{uint64(descending(s.scores[id]))<<32 | uint64(left), right, id, m.length[left], m.length[right]})
	}
}

// descending maps scores to numbers that sort the other way round.
func descending(score float32) uint32 {
	bits := math.Float32bits(score)
	if bits>>31 == 0 {
		return ^(bits | 1<<31)
	}
	return bits
}

// emit appends the token of a symbol, or the tokens of its bytes, or the unknown token.
func (s *spm) emit(dst []int32, symbol string) []int32 {
	if id := s.vocab.find(symbol); id >= 0 {
		return append(dst, id)
	}
	for i := range len(symbol) {
		if id := s.bytes[symbol[i]]; id >= 0 {
			dst = append(dst, id)
		} else if s.unk >= 0 {
			return append(dst, s.unk)
		}
	}
	return dst
}
