package actors

import (
	"cmp"
	"slices"
	"time"

	"slicescheduler/actors/protocol"
	"slicescheduler/gmg"
)

// busyWindow keeps samples of a device's total busy time over a sliding window.
type busyWindow struct {
	samples []busySample // a ring
	next    int
}

type busySample struct{ atNs, busyNs int64 }

func newBusyWindow(window, interval time.Duration) *busyWindow {
	return &busyWindow{samples: make([]busySample, max(2, int(window/interval)+1))}
}

func (w *busyWindow) add(atNs, busyNs int64) {
	w.samples[w.next] = busySample{atNs, busyNs}
	w.next = (w.next + 1) % len(w.samples)
}

// percent returns the share of time that was busy from the oldest sample until now, 0 before there is one.
func (w *busyWindow) percent(nowNs, busyNs int64) float64 {
	for i := range w.samples {
		s := w.samples[(w.next+i)%len(w.samples)]
		if s.atNs > 0 && s.atNs < nowNs {
			return min(100, 100*float64(busyNs-s.busyNs)/float64(nowNs-s.atNs))
		}
	}
	return 0
}

// describe returns the device as the GMG should know it.
func (g *gpuActor) describe() gmg.Device {
	d := g.device.Describe()
	if g.lost != "" {
		d.Healthy, d.Reason = false, g.lost
	}
	return d
}

func (g *gpuActor) deviceState() gmg.DeviceState {
	s := gmg.DeviceState{
		Device: g.id, Ledger: g.device.Ledger(), Queued: int(g.counters.pending.Load()), BusyNs: g.counters.busyNs.Load(),
	}
	if e := g.counters.running.Load(); e != nil {
		s.Running = e.spec.ID
	}
	return s
}

func (g *gpuActor) status() DeviceStatus {
	s := DeviceStatus{Device: g.describe(), State: g.deviceState(), Held: make(map[string]int64, gmg.NumMemoryClasses)}
	for c, bytes := range s.State.Ledger.Held {
		s.Held[gmg.MemoryClass(c).String()] = bytes
	}
	s.FreeBytes = s.State.Ledger.Free()
	s.BusyPct = g.busy.percent(g.rt.nowNs(), s.State.BusyNs)
	return s
}

// slices lists the device's slices, by lane and place in it.
func (g *gpuActor) slices() []SliceStatus {
	var list []SliceStatus
	for _, h := range g.holdings {
		list = append(list, SliceStatus{
			Tenant: h.slice.tenant.spec.ID, Lane: gmg.LaneID(h.slice.lane), Index: h.slice.index, State: h.stateName(),
			Steps: h.slice.steps.Load(), BusyNs: h.slice.busyNs.Load(), Slice: g.sliceFact(h),
		})
	}
	sortSlices(list)
	return list
}

func sortSlices(list []SliceStatus) {
	slices.SortFunc(list, func(a, b SliceStatus) int {
		return cmp.Or(cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.Index, b.Index))
	})
}

func (g *gpuActor) sliceFact(h *holding) gmg.Slice {
	s := gmg.Slice{Device: g.id, Stages: h.config.Stages, LoadedBytes: h.loaded, WeightBytes: h.total, KVBlocks: h.config.KVBlocks}
	if h.slice.runner != nil {
		memory := h.slice.runner.Memory()
		s.WeightBytes, s.KVBytes = memory[gmg.MemWeights], memory[gmg.MemKV]
	}
	switch {
	case h.dropping:
		s.Weights = gmg.Evicting
	case h.state == protocol.SliceState_LOADING:
		s.Weights = gmg.Loading
	case h.state == protocol.SliceState_RESIDENT:
		s.Weights = gmg.Resident
	case h.state == protocol.SliceState_FAILED:
		s.Weights = gmg.Failed
	}
	return s
}

func (h *holding) stateName() string {
	switch {
	case h.dropping:
		return "evicting"
	case h.state == protocol.SliceState_LOADING:
		return "loading"
	case h.state == protocol.SliceState_RESIDENT:
		return "resident"
	case h.state == protocol.SliceState_FAILED:
		return "failed"
	}
	return "reserved"
}
