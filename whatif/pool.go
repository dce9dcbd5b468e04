package whatif

import "slicescheduler/gmg"

// kvPart is what one page of a lane takes on a device whose free memory it shares with others.
type kvPart struct {
	device int // of Spec.Devices
	bytes  int64
}

// sharedParts says what a page of a lane takes where; nil for a lane whose pool is reserved as a whole. Devices that hold several of its slices appear once.
func sharedParts(spec *LaneSpec) []kvPart {
	if !spec.SharedKV {
		return nil
	}
	parts := make([]kvPart, 0, len(spec.Ranks[0].Slices))
	for _, sl := range spec.Ranks[0].Slices {
		bytes := sl.Program.kvPerToken * int64(spec.pageTokens())
		at := -1
		for i := range parts {
			if parts[i].device == sl.Device {
				at = i
			}
		}
		if at < 0 {
			parts = append(parts, kvPart{device: sl.Device})
			at = len(parts) - 1
		}
		parts[at].bytes += bytes
	}
	return parts
}

// weightBytes is what a slice's weights take on its device.
func (l *lane) weightBytes(sl *SliceSpec) int64 {
	if l.spec.FreeWeights {
		return 0
	}
	return sl.Program.weightBytes
}

// offer tells a lane's scheduler how many pages of the shared pool it could have.
func (w *island) offer(l *lane) {
	if l.shared != nil {
		l.ranks[0].Offer(w.roomFor(l))
	}
}

// roomFor is how many more pages a lane with a shared pool could have now.
func (w *island) roomFor(l *lane) int {
	room := l.quota - l.charged
	for _, p := range l.shared {
		if d := &w.devices[w.deviceAt(p.device)]; d.accounted && p.bytes > 0 {
			room = min(room, int(d.ledger.Free()/p.bytes))
		}
	}
	return max(room, 0)
}

// charge enters into the ledgers what a lane's scheduler has taken or given back since the last time.
func (w *island) charge(l *lane) {
	if l.shared == nil {
		return
	}
	delta := l.ranks[0].Held() - l.charged
	if delta == 0 {
		return
	}
	l.charged += delta
	for _, p := range l.shared {
		w.devices[w.deviceAt(p.device)].ledger.Held[gmg.MemKV] += int64(delta) * p.bytes
	}
	w.released = w.released || delta < 0
}

// wants says whether a lane has sequences that could go on if there were room.
func (l *lane) wants() bool {
	for r := range l.ranks {
		if st := l.ranks[r].Stats(); st.Waiting > 0 {
			return true
		}
	}
	return false
}

// feed lets lanes go on that had too few pages, now that some came free.
func (w *island) feed() {
	for range w.lanes { // each round needs a lane that gave pages back without running, so there are few
		w.released = false
		for li := range w.lanes {
			if l := &w.lanes[li]; l.starved {
				w.pump(int32(li))
			}
		}
		if !w.released {
			return
		}
	}
}
