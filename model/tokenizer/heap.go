package tokenizer

// candidate is a merge of two neighbouring symbols that may be made. The smallest key comes first: the merge's rank above, the left symbol's place below, so that of
// equal merges the leftmost is made first.
type candidate struct {
	key         uint64
	right       int32
	merged      int32
	left, after int32 // what the two symbols were; the merge is stale when they have changed
}

// heap is a binary heap of candidates.
type heap []candidate

func (h *heap) push(c candidate) {
	s := append(*h, c)
	i := len(s) - 1
	for i > 0 {
		up := (i - 1) / 2
		if s[up].key <= c.key {
			break
		}
		s[i] = s[up]
		i = up
	}
	s[i] = c
	*h = s
}

func (h *heap) pop() candidate {
	s := *h
	top, last := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	*h = s
	if len(s) == 0 {
		return top
	}
	i := 0
	for {
		down := 2*i + 1
		if down >= len(s) {
			break
		}
		if down+1 < len(s) && s[down+1].key < s[down].key {
			down++
		}
		if s[down].key >= last.key {
			break
		}
		s[i] = s[down]
		i = down
	}
	s[i] = last
	return top
}
