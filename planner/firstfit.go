package planner

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"slicescheduler/gmg"
)

// Errors of a placement. ErrNoRoom may pass when memory frees; ErrNeverFits can't.
var (
	ErrDemand    = errors.New("invalid placement demand")
	ErrNoRoom    = errors.New("no room")
	ErrNeverFits = errors.New("model exceeds the devices' memory")
)

// Sizes says what a graph would take on one device, stage by stage, so that any run of stages can be added up.
type Sizes struct {
	Device        gmg.DeviceID
	CapacityBytes int64
	FreeBytes     int64
	StageBytes    []int64 // weights of each stage
	TiedBytes     int64   // saved by a slice that holds the first and the last stage, whose weight is one
	BlockBytes    []int64 // one KV page, by stage
	FixedBytes    int64   // workspace and staging of any slice, at most
	SlotBytes     int64   // more staging for each slice of the lane after the first, since as many steps are in flight
}

// Demand is what a tenant wants of its first lane.
type Demand struct {
	Stages     int // of the graph
	WantBlocks int // KV pages that would serve it at full load
	MinBlocks  int // KV pages below which it isn't worth starting
	KVSharePct int // share of what is free beside the weights that its KV may take on a device, so that later tenants find room
	SplitOver  int // at least this many devices; 0 and 1: as few as fit
}

// Validate says what is wrong with a demand.
func (d Demand) Validate() error {
	switch {
	case d.Stages < 1:
		return fmt.Errorf("%w: %d stages", ErrDemand, d.Stages)
	case d.MinBlocks < 1 || d.WantBlocks < d.MinBlocks:
		return fmt.Errorf("%w: %d KV pages wanted, %d at least", ErrDemand, d.WantBlocks, d.MinBlocks)
	case d.KVSharePct < 1 || d.KVSharePct > 100:
		return fmt.Errorf("%w: KV share of %d %%, must be 1 to 100", ErrDemand, d.KVSharePct)
	case d.SplitOver < 0 || d.SplitOver > d.Stages:
		return fmt.Errorf("%w: split over %d devices, the graph has %d stages", ErrDemand, d.SplitOver, d.Stages)
	}
	return nil
}

// Placement is a lane's slices, in order, and its KV pages, the same number on each.
type Placement struct {
	Slices   []gmg.Slice // Device, Stages, WeightBytes, KVBlocks and KVBytes are set
	KVBlocks int
}

// FirstFit places a whole lane on the first device where it fits, else splits it by layers over as few devices as fit (or over at least
// SplitOver), those with the most free memory, with the layers as even as memory allows. It fits where weights, workspace and MinBlocks pages
// within the KV share do. Devices are tried in the order given.
func FirstFit(d Demand, devices []Sizes) (Placement, error) {
	if err := d.Validate(); err != nil {
		return Placement{}, err
	}
	least := max(1, d.SplitOver)
	if least > len(devices) {
		return Placement{}, fmt.Errorf("%w: to be split over %d devices, there are %d", ErrNoRoom, least, len(devices))
	}
	if least == 1 {
		for i := range devices {
			if p, ok := split(d, devices[i:i+1]); ok {
				return p, nil
			}
		}
		least = 2
	}
	for n := least; n <= len(devices) && n <= d.Stages; n++ {
		if p, ok := split(d, freest(devices, n)); ok {
			return p, nil
		}
	}
	return Placement{}, noRoom(d, devices)
}

// freest returns the n devices with the most free memory, in their given order.
func freest(devices []Sizes, n int) []Sizes {
	order := make([]int, len(devices))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(devices[b].FreeBytes, devices[a].FreeBytes) })
	order = order[:n]
	slices.Sort(order)
	chosen := make([]Sizes, n)
	for i, at := range order {
		chosen[i] = devices[at]
	}
	return chosen
}

// blocks returns how many KV pages stages [from, to) may have on a device in a lane of n slices, up to WantBlocks; negative when the weights alone don't fit.
func blocks(d Demand, s *Sizes, n, from, to int) int {
	left := s.FreeBytes - s.FixedBytes - int64(n-1)*s.SlotBytes - weightBytes(d, s, from, to)
	if left < 0 {
		return -1
	}
	page := sum(s.BlockBytes[from:to])
	if page == 0 {
		return d.WantBlocks
	}
	share := left * int64(d.KVSharePct) / 100
	return int(min(int64(d.WantBlocks), share/page))
}

func weightBytes(d Demand, s *Sizes, from, to int) int64 {
	n := sum(s.StageBytes[from:to])
	if from == 0 && to == d.Stages && d.Stages > 1 {
		n -= s.TiedBytes
	}
	return n
}

// split cuts the graph into one run of stages for each device, so that the longest run is as short as can be, each fits, and among those the lane's KV is
// largest. best[k][t] is the best way to put the first t stages on the first k devices.
func split(d Demand, devices []Sizes) (Placement, bool) {
	type cut struct {
		longest, kv, from int
		ok                bool
	}
	better := func(a, b cut) bool { return !b.ok || a.longest < b.longest || a.longest == b.longest && a.kv > b.kv }
	best := make([][]cut, len(devices)+1)
	for k := range best {
		best[k] = make([]cut, d.Stages+1)
	}
	best[0][0] = cut{kv: d.WantBlocks, ok: true}
	for k := range devices {
		for to := k + 1; to <= d.Stages; to++ {
			for from := k; from < to; from++ {
				before := best[k][from]
				if !before.ok {
					continue
				}
				kv := blocks(d, &devices[k], len(devices), from, to)
				if kv < d.MinBlocks {
					continue
				}
				c := cut{max(before.longest, to-from), min(before.kv, kv), from, true}
				if better(c, best[k+1][to]) {
					best[k+1][to] = c
				}
			}
		}
	}
	end := best[len(devices)][d.Stages]
	if !end.ok {
		return Placement{}, false
	}
	p := Placement{Slices: make([]gmg.Slice, len(devices)), KVBlocks: end.kv}
	for k, to := len(devices), d.Stages; k > 0; k-- {
		from := best[k][to].from
		s := &devices[k-1]
		p.Slices[k-1] = gmg.Slice{
			Device: s.Device, Stages: gmg.Range{From: from, To: to}, WeightBytes: weightBytes(d, s, from, to),
			KVBlocks: end.kv, KVBytes: int64(end.kv) * sum(s.BlockBytes[from:to]),
		}
		to = from
	}
	return p, true
}

// noRoom tells whether the lane would fit if nothing else were there.
func noRoom(d Demand, devices []Sizes) error {
	empty := slices.Clone(devices)
	var free, capacity int64
	for i := range empty {
		free += empty[i].FreeBytes
		capacity += empty[i].CapacityBytes
		empty[i].FreeBytes = empty[i].CapacityBytes
	}
	need := weightBytes(d, &devices[0], 0, d.Stages) + int64(d.MinBlocks)*sum(devices[0].BlockBytes)
	for n := max(1, d.SplitOver); n <= len(empty) && n <= d.Stages; n++ {
		if _, ok := split(d, freest(empty, n)); ok {
			return fmt.Errorf("%w: about %d bytes needed beside workspace, %d free on %d devices", ErrNoRoom, need, free, len(devices))
		}
	}
	return fmt.Errorf("%w: about %d bytes needed beside workspace, %d devices hold %d", ErrNeverFits, need, len(devices), capacity)
}

func sum(values []int64) int64 {
	var n int64
	for _, v := range values {
		n += v
	}
	return n
}
