package whatif

// event is something that happens at a time. Order is (time, kind, whose it is, sequence): it depends neither on how a heap breaks ties nor on how many
// events a mode makes.
type event struct {
	at   int64
	seq  uint64
	what eventKind
	a, b int32
}

// eventKind is also the class: of events at one time, lower kinds happen first.
type eventKind uint8

const (
	eventArrival  eventKind = iota // a: tenant
	eventTransfer                  // a: lane, b: flight; what a step sent has arrived
	eventRun                       // a: device, b: generation of its run
	eventReady                     // a: lane; its weights are loaded
	eventWarm                      // a: lane; its first step is launched
	eventMigrate                   // a: of island.moves; its next stage
	eventReshape                   // a: of island.reshapes; its lanes are loaded
	eventRows                      // a: lane, b: share; a helper's rows leave for it
	eventShare                     // a: lane, b: share; the first of them are there
	eventBack                      // a: lane, b: share; the last results are back
	eventLoaded                    // a: lane, b: helper; its copy of the weights is loaded
)

func (e *event) before(o *event) bool {
	if e.at != o.at {
		return e.at < o.at
	}
	if e.what != o.what {
		return e.what < o.what
	}
	if e.a != o.a {
		return e.a < o.a
	}
	return e.seq < o.seq
}

// eventHeap is a binary min-heap in place.
type eventHeap []event

func (h *eventHeap) push(e event) {
	*h = append(*h, e)
	h.up(len(*h) - 1)
}

func (h eventHeap) up(i int) {
	e := h[i]
	for i > 0 {
		p := (i - 1) / 2
		if !e.before(&h[p]) {
			break
		}
		h[i] = h[p]
		i = p
	}
	h[i] = e
}

func (h eventHeap) down(i int) {
	e := h[i]
	for {
		c := 2*i + 1
		if c >= len(h) {
			break
		}
		if c+1 < len(h) && h[c+1].before(&h[c]) {
			c++
		}
		if !h[c].before(&e) {
			break
		}
		h[i] = h[c]
		i = c
	}
	h[i] = e
}

// pop removes the first event.
func (h *eventHeap) pop() {
	old := *h
	last := len(old) - 1
	old[0] = old[last]
	*h = old[:last]
	if last > 0 {
		old[:last].down(0)
	}
}

// replace puts e in the first event's place.
func (h eventHeap) replace(e event) {
	h[0] = e
	h.down(0)
}

// never is later than everything.
const never = 1<<63 - 1
