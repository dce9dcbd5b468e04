package whatif

import "slices"

// routeBy sends a request to the lane that the router names.
func (w *island) routeBy(ti, request int32) {
	t := &w.tenants[ti]
	a := &w.arrival
	w.describe(a, t, request)
	number := w.spec.Router.Route(a)
	k := slices.IndexFunc(a.Lanes, func(l LaneLoad) bool { return l.Lane == number })
	if number < 0 || k < 0 {
		t.held = append(t.held, request)
		return
	}
	li := t.lanes[number]
	l := &w.lanes[li]
	best, least := 0, int64(never)
	for r := range l.ranks {
		st := l.ranks[r].Stats()
		if load := int64(waitingWeight*(st.Waiting+len(l.inbox[r])) + st.Running); load < least {
			best, least = r, load
		}
	}
	w.receive(li, best, request)
}

// describe fills in what a router may see of a request and of its tenant's lanes.
func (w *island) describe(a *Arrival, t *tenant, request int32) {
	r := &t.spec.Requests[request]
	ttft, tpot := t.limits(&liveRequest{request: request})
	*a = Arrival{
		NowNs: w.now, Tenant: t.id, Request: int(request), PromptTokens: r.PromptTokens, Priority: r.Priority,
		TTFTLimitNs: ttft, TPOTLimitNs: tpot, Lanes: a.Lanes[:0],
	}
	for _, li := range t.lanes {
		if l := &w.lanes[li]; l.serves() {
			a.Lanes = append(a.Lanes, w.loadOf(l))
		}
	}
	w.sumDevices()
	for k := range a.Lanes {
		w.deviceLoad(&a.Lanes[k])
	}
}

// loadOf is what can be seen of a lane.
func (w *island) loadOf(l *lane) LaneLoad {
	s := l.spec.Ranks[0].Slices
	out := LaneLoad{
		Lane: l.number, Devices: len(s), Device: s[0].Device, Borrowed: l.spec.Borrowed, Prefill: l.spec.Prefill,
		PendingTokens: int(max(l.pending, 0)), StepNs: l.decodeNs, KVBlocks: l.quota,
	}
	for r := range l.ranks {
		st := l.ranks[r].Stats()
		out.Waiting += st.Waiting + len(l.inbox[r])
		out.Running += st.Running
		out.ContextTokens += int64(st.HeldBlocks) * int64(l.spec.pageTokens())
		out.FreeBlocks += st.FreeBlocks + st.CachedBlocks
	}
	if l.shared != nil {
		out.FreeBlocks = w.roomFor(l)
		for _, p := range l.shared {
			if d := &w.devices[w.deviceAt(p.device)]; d.accounted && p.bytes > 0 {
				out.KVBlocks = min(out.KVBlocks, int((d.ledger.Free()+d.ledger.Held[1])/p.bytes))
			}
		}
	} else {
		out.KVBlocks = l.spec.Batching.KVBlocks * len(l.ranks)
	}
	return out
}

// deviceSum is what all lanes on a device have to do.
type deviceSum struct {
	pending, running int
	queueNs          int64
}

// sumDevices fills in what lies on each device, for deviceLoad.
func (w *island) sumDevices() {
	w.sums = resize(w.sums, len(w.devices))
	for di := range w.devices {
		w.sums[di] = deviceSum{queueNs: w.queueNs(&w.devices[di])}
	}
	for i := range w.lanes {
		l := &w.lanes[i]
		if l.state == laneGone || l.state == laneLoading {
			continue
		}
		running := 0
		for r := range l.ranks {
			running += l.ranks[r].Running()
		}
		if running == 0 && l.pending <= 0 {
			continue
		}
		for r := range l.spec.Ranks {
			slices := l.spec.Ranks[r].Slices
			for k := range slices {
				if k > 0 && slices[k].Device == slices[k-1].Device {
					continue
				}
				sum := &w.sums[w.deviceAt(slices[k].Device)]
				sum.pending, sum.running = sum.pending+int(max(l.pending, 0)), sum.running+running
			}
		}
	}
}

// deviceLoad adds what lies on a lane's first device; sumDevices was called before.
func (w *island) deviceLoad(out *LaneLoad) {
	sum := &w.sums[w.deviceAt(out.Device)]
	out.QueueNs, out.DevicePending, out.DeviceRunning = sum.queueNs, sum.pending, sum.running
}

// uses says whether a lane has a slice on a device.
func (l *lane) uses(device int) bool {
	for r := range l.spec.Ranks {
		for k := range l.spec.Ranks[r].Slices {
			if l.spec.Ranks[r].Slices[k].Device == device {
				return true
			}
		}
	}
	return false
}

// queueNs is the work that lies in a device's queue, with what is left of the current run.
func (w *island) queueNs(d *device) int64 {
	if !d.busy {
		return 0
	}
	ns := max(0, d.current.startNs+w.operatorsNs(&d.current)-w.now)
	for i := range d.queue {
		ns += w.operatorsNs(&d.queue[i])
	}
	return ns
}
