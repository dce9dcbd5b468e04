package batching

// pagePool is the KV pool: which pages are free, held or free with content that can be reused. Pages lie on doubly linked lists of indices, and their
// hashes in an open table, so nothing is allocated after it is made.
type pagePool struct {
	next, prev []int32 // of free pages; the two extra entries at the end are the list heads
	refs       []int32 // sequences that hold the page
	hashes     []BlockHash
	table      []int32 // page+1 by hash, 0 for empty; nil without reuse
	mask       uint64
	size       int32 // pages
	free       int32 // on a list, no content
	cached     int32 // on a list, content kept
	oneList    bool  // vLLM keeps both kinds on one list in the order they were freed
}

// List heads, as offsets behind the last page.
const (
	listPlain = iota
	listCached
	numLists
)

func newPagePool(pages int, reuse, oneList bool) pagePool {
	p := pagePool{size: int32(pages), oneList: oneList}
	p.next, p.prev = make([]int32, pages+numLists), make([]int32, pages+numLists)
	p.refs = make([]int32, pages)
	if reuse {
		p.hashes = make([]BlockHash, pages)
		slots := 16
		for slots < 4*pages {
			slots *= 2
		}
		p.table, p.mask = make([]int32, slots), uint64(slots-1)
	}
	for l := range numLists {
		head := p.size + int32(l)
		p.next[head], p.prev[head] = head, head
	}
	for i := range p.size {
		p.append(listPlain, i)
	}
	p.free = p.size
	return p
}

// available is the number of pages that could be taken now.
func (p *pagePool) available() int { return int(p.free + p.cached) }

func (p *pagePool) append(list int, page int32) {
	head := p.size + int32(list)
	last := p.prev[head]
	p.next[last], p.prev[page] = page, last
	p.next[page], p.prev[head] = head, page
}

func (p *pagePool) unlink(page int32) {
	p.next[p.prev[page]] = p.next[page]
	p.prev[p.next[page]] = p.prev[page]
}

// take returns a page for a new owner; content that was longest unused goes first when there is no page without. The caller has checked available.
func (p *pagePool) take() int32 {
	page := p.next[p.size+listPlain]
	if page >= p.size {
		page = p.next[p.size+listCached]
	}
	p.unlink(page)
	if p.isCached(page) {
		p.forget(page)
		p.cached--
	} else {
		p.free--
	}
	p.refs[page] = 1
	return page
}

// share adds an owner to a page with content.
func (p *pagePool) share(page int32) {
	if p.refs[page] == 0 {
		p.unlink(page)
		p.cached--
	}
	p.refs[page]++
}

// release gives a page back for one owner.
func (p *pagePool) release(page int32) {
	p.refs[page]--
	if p.refs[page] > 0 {
		return
	}
	list := listPlain
	if p.isCached(page) {
		p.cached++
		if !p.oneList {
			list = listCached
		}
	} else {
		p.free++
	}
	p.append(list, page)
}

func (p *pagePool) isCached(page int32) bool { return p.table != nil && p.hashes[page] != BlockHash{} }

// find returns a page with the content, or -1.
func (p *pagePool) find(h BlockHash) int32 {
	for i := h[0] & p.mask; p.table[i] != 0; i = (i + 1) & p.mask {
		if page := p.table[i] - 1; p.hashes[page] == h {
			return page
		}
	}
	return -1
}

// remember makes a held page findable by its content.
func (p *pagePool) remember(page int32, h BlockHash) {
	i := h[0] & p.mask
	for p.table[i] != 0 {
		i = (i + 1) & p.mask
	}
	p.table[i] = page + 1
	p.hashes[page] = h
}

// forget drops a page from the table, closing the gap so that probes still end at the first empty slot.
func (p *pagePool) forget(page int32) {
	i := p.hashes[page][0] & p.mask
	for p.table[i] != page+1 {
		i = (i + 1) & p.mask
	}
	p.hashes[page] = BlockHash{}
	for j := i; ; {
		j = (j + 1) & p.mask
		if p.table[j] == 0 {
			break
		}
		home := p.hashes[p.table[j]-1][0] & p.mask
		if (j-home)&p.mask >= (j-i)&p.mask {
			p.table[i] = p.table[j]
			i = j
		}
	}
	p.table[i] = 0
}

// copyFrom makes p equal to o, reusing p's memory.
func (p *pagePool) copyFrom(o *pagePool) {
	p.next, p.prev = append(p.next[:0], o.next...), append(p.prev[:0], o.prev...)
	p.refs = append(p.refs[:0], o.refs...)
	p.hashes = append(p.hashes[:0], o.hashes...)
	if o.table == nil {
		p.table = nil
	} else {
		p.table = append(p.table[:0], o.table...)
	}
	p.mask, p.size, p.free, p.cached, p.oneList = o.mask, o.size, o.free, o.cached, o.oneList
}
