package sampling

// ranked is a token with its logit. a is before b when its logit is larger, or equal and its id lower: a total order, so that ties never depend on chance.
type ranked struct {
	logit float32
	token int32
}

func (a ranked) before(b ranked) bool {
	return a.logit > b.logit || a.logit == b.logit && a.token < b.token
}

// topHeap keeps the k first of the tokens that are offered, the last of them at index 0.
type topHeap struct {
	items []ranked
}

// fill makes the heap hold the k first of all tokens. Masked tokens never enter.
func (h *topHeap) fill(logits []float32, k int) {
	h.items = h.items[:0]
	floor := masked // what a newcomer must exceed; ids ascend, so an equal logit comes later in the order
	for i, x := range logits {
		if x <= floor {
			continue
		}
		h.offer(ranked{x, int32(i)}, k)
		if len(h.items) == k {
			floor = h.items[0].logit
		}
	}
}

func (h *topHeap) offer(r ranked, k int) {
	if len(h.items) < k {
		h.items = append(h.items, r)
		for i := len(h.items) - 1; i > 0; {
			parent := (i - 1) / 2
			if h.items[i].before(h.items[parent]) {
				return
			}
			h.items[i], h.items[parent] = h.items[parent], h.items[i]
			i = parent
		}
		return
	}
	if r.before(h.items[0]) {
		h.items[0] = r
		h.sink(len(h.items))
	}
}

// sink moves the item at index 0 to its place among the first n.
func (h *topHeap) sink(n int) {
	for i := 0; ; {
		last := i
		for c := 2*i + 1; c <= 2*i+2 && c < n; c++ {
			if h.items[last].before(h.items[c]) {
				last = c
			}
		}
		if last == i {
			return
		}
		h.items[i], h.items[last] = h.items[last], h.items[i]
		i = last
	}
}

// sort puts the items in order, first ones first. The heap must be filled again before it is used as one.
func (h *topHeap) sort() {
	for n := len(h.items) - 1; n > 0; n-- {
		h.items[0], h.items[n] = h.items[n], h.items[0]
		h.sink(n)
	}
}
