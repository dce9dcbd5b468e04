package dispatch

// fifo is a queue that reuses its memory.
type fifo struct {
	items []item
	head  int
}

func (f *fifo) push(it item) {
	if f.head > 0 && f.head == len(f.items) {
		f.items, f.head = f.items[:0], 0
	}
	if f.head > 0 && len(f.items) == cap(f.items) {
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	f.items = append(f.items, it)
}

func (f *fifo) peek() (item, bool) {
	if f.head == len(f.items) {
		return item{}, false
	}
	return f.items[f.head], true
}

func (f *fifo) pop() (item, bool) {
	it, ok := f.peek()
	if ok {
		f.items[f.head] = item{}
		f.head++
	}
	return it, ok
}
