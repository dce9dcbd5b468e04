package batching

import "cmp"

// rank orders waiting and running sequences: smaller is served first. Ranks are unique.
type rank struct {
	key int64 // OrderAged: arrival, put forward by AgeNs for each level of priority; OrderStrict: always 0
	seq int64 // order of arrival in this scheduler; preempted ones of OrderStrict go below all others
}

func (a rank) compare(b rank) int {
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.seq, b.seq))
}

// queue is a sorted list of slots. Taking from the front and adding at the back cost nothing, anything else moves the shorter side.
type queue struct {
	slots []int32
	head  int
}

func (q *queue) len() int          { return len(q.slots) - q.head }
func (q *queue) at(i int) int32    { return q.slots[q.head+i] }
func (q *queue) copyFrom(o *queue) { q.slots, q.head = append(q.slots[:0], o.slots[o.head:]...), 0 }

// search returns the position of the first slot whose rank is not below r.
func (q *queue) search(seqs []sequence, r rank) int {
	lo, hi := 0, q.len()
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if seqs[q.at(mid)].rank.compare(r) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

func (q *queue) insert(seqs []sequence, slot int32) {
	n := q.len()
	if n == 0 || seqs[q.at(n-1)].rank.compare(seqs[slot].rank) < 0 {
		q.pushBack(slot)
		return
	}
	i := q.search(seqs, seqs[slot].rank)
	if q.head > 0 && i < n/2 {
		q.head--
		copy(q.slots[q.head:], q.slots[q.head+1:q.head+1+i])
	} else {
		q.pushBack(slot)
		copy(q.slots[q.head+i+1:], q.slots[q.head+i:len(q.slots)-1])
	}
	q.slots[q.head+i] = slot
}

// pushBack adds at the end, moving everything to the front of the memory first where that frees at least half of it.
func (q *queue) pushBack(slot int32) {
	if len(q.slots) == cap(q.slots) && q.head > len(q.slots)/2 {
		q.slots = q.slots[:copy(q.slots, q.slots[q.head:])]
		q.head = 0
	}
	q.slots = append(q.slots, slot)
}

func (q *queue) removeAt(i int) {
	if n := q.len(); i < n/2 {
		copy(q.slots[q.head+1:], q.slots[q.head:q.head+i])
		q.head++
	} else {
		copy(q.slots[q.head+i:], q.slots[q.head+i+1:])
		q.slots = q.slots[:len(q.slots)-1]
	}
	if q.len() == 0 {
		q.slots, q.head = q.slots[:0], 0
	}
}

// remove takes out a slot that is in the queue.
func (q *queue) remove(seqs []sequence, slot int32) { q.removeAt(q.search(seqs, seqs[slot].rank)) }
