package whatif

import (
	"fmt"

	"slicescheduler/batching"
	"slicescheduler/gmg"
)

// Spec is the world that a simulation starts from. It is not changed by running.
type Spec struct {
	Devices []DeviceSpec
	Links   []LinkSpec
	Tenants []TenantSpec
	// Catalog compiles slices that come without a program; nil where all have one.
	Catalog Catalog
	// Router chooses lanes; nil: the one with the least load.
	Router Router
	Order  QueueOrder
	Noise  Noise
	// KeepRecords keeps one Record for each request; forks made of the simulation keep none.
	KeepRecords bool
	// KeepTimeline keeps what every device and link did when. It costs memory for each step, and leaps.
	KeepTimeline bool
}

// DeviceSpec is one accelerator.
type DeviceSpec struct {
	ID          string
	MemoryBytes int64 // 0: not accounted
	// PartOf makes it another stream of a device with a Sharing, whose index it is plus one. Lanes are laid on that device, which picks a stream for each run.
	PartOf  int
	Sharing *Sharing // runs of prompts and of decodes beside each other; nil: one after the other
	Swap    *Swap    // lanes whose weights take turns in its memory; nil: all are there
}

// LinkSpec is a directed path between two devices; transfers use it one after the other.
type LinkSpec struct {
	From, To           int // of Spec.Devices
	BandwidthBytesPerS float64
	LatencyNs          int64
}

// TenantSpec is one tenant's lanes and what is asked of it.
type TenantSpec struct {
	ID       string
	Lanes    []LaneSpec
	Requests []Request // by arrival
	Live     []Live    // running at the start, on lane and rank
	// TTFTLimitNs and TPOTLimitNs are absolute limits of the SLA, 0 for none; Totals count who breaks them.
	TTFTLimitNs, TPOTLimitNs int64
}

// Request is one request of the world: its true length is known to the world, not to the scheduler's decisions.
type Request struct {
	ArrivalNs    int64
	PromptTokens int
	OutputTokens int
	Priority     int
	Blocks       []batching.BlockHash // of full pages of prompt and answer, nil without prefix reuse
	// TTFTLimitNs and TPOTLimitNs are the limits of this request; 0: the tenant's.
	TTFTLimitNs, TPOTLimitNs int64
}

// Noise is what a world does that no cost model knows. The zero value is none.
type Noise struct {
	Seed uint64
	// StepPct stretches each run of a step on a device by 0 to this many percent, drawn anew for each.
	StepPct int
	// One in HiccupEvery runs is held up by HiccupNs; 0: none.
	HiccupEvery int
	HiccupNs    int64
}

// Live is a sequence that is being decoded when the simulation starts.
type Live struct {
	Lane, Rank            int
	PromptTokens          int
	TokensSoFar           int // of the answer, at least 1
	OutputTokens          int // in all, as far as known or guessed
	ArrivalNs, FirstToken int64
}

// LaneSpec is one copy of a model over one or more devices. Lanes of one rank run their slices one after the other; lanes of several ranks run them in
// step, each with its own sequences (data parallelism with shared experts), and have one slice a rank.
type LaneSpec struct {
	Engine   *EngineKind
	Batching batching.Config
	Ranks    []RankSpec
	Borrowed bool // runs yield to those of lanes that aren't, at operator ends
	// SharedKV: pages are taken from what the lane's devices have free as they are needed, and given back, together with all other such lanes there.
	// Batching.KVBlocks is then the most that it may hold, and SliceSpec.KVBytes 0.
	SharedKV bool
	// QuotaBlocks is how many of Batching.KVBlocks a lane with SharedKV may hold until a SetQuota says otherwise; 0: all.
	QuotaBlocks int
	// TurnNs is for how long the lane keeps a device that swaps when others wait for it, until a SetTurn says otherwise.
	TurnNs int64
	// FreeWeights: its weights take no memory (bounds only).
	FreeWeights bool
	// Prefill: its sequences go to another lane after their first token, their KV over the links; see HandOver.
	Prefill bool
	// ColdNs is for how long the engine is held up by launching its first step, when nothing has been served yet; 0 for a lane that is warm.
	ColdNs int64
}

// RankSpec is an ordered list of slices that covers the model.
type RankSpec struct {
	Slices []SliceSpec
}

// SliceSpec is a run of stages on a device, or on a gang of devices in tensor parallel of which Device leads; a gang's other devices serve nobody else.
type SliceSpec struct {
	Device  int
	Gang    []int
	Stages  gmg.Range // what Spec.Catalog compiles where Program is nil
	Program *Program
	KVBytes int64 // reserved for its share of the KV pool
}

// Validate says what is wrong with a world.
func (s *Spec) Validate() error {
	if err := s.validateDevices(); err != nil {
		return err
	}
	for i, l := range s.Links {
		if l.From < 0 || l.From >= len(s.Devices) || l.To < 0 || l.To >= len(s.Devices) || l.BandwidthBytesPerS <= 0 || l.LatencyNs < 0 {
			return fmt.Errorf("%w: link %d needs two devices, a bandwidth above 0 and a latency of at least 0", ErrSpec, i)
		}
	}
	for i := range s.Tenants {
		t := &s.Tenants[i]
		for k := range t.Lanes {
			if err := s.validateLane(&t.Lanes[k]); err != nil {
				return fmt.Errorf("tenant %s, lane %d: %w", t.ID, k, err)
			}
		}
		for k, r := range t.Requests {
			if r.PromptTokens < 1 || r.OutputTokens < 1 {
				return fmt.Errorf("%w: tenant %s, request %d has %d prompt and %d output tokens; leave it out", ErrSpec, t.ID, k, r.PromptTokens, r.OutputTokens)
			}
			if k > 0 && r.ArrivalNs < t.Requests[k-1].ArrivalNs {
				return fmt.Errorf("%w: tenant %s, request %d arrives before the one listed ahead of it", ErrSpec, t.ID, k)
			}
		}
	}
	return nil
}

func (s *Spec) validateLane(l *LaneSpec) error {
	if l.Engine == nil || len(l.Ranks) == 0 {
		return fmt.Errorf("%w: a lane needs an engine and a rank", ErrSpec)
	}
	if l.ColdNs < 0 || l.TurnNs < 0 || l.QuotaBlocks < 0 {
		return fmt.Errorf("%w: ColdNs is %d, TurnNs %d and QuotaBlocks %d, must not be negative", ErrSpec, l.ColdNs, l.TurnNs, l.QuotaBlocks)
	}
	if err := l.Batching.Validate(); err != nil {
		return err
	}
	if l.SharedKV && (!l.Batching.CountOnly || len(l.Ranks) > 1) {
		return fmt.Errorf("%w: a lane with a shared pool needs one rank, and pages that are only counted", ErrSpec)
	}
	for _, r := range l.Ranks {
		if len(r.Slices) == 0 || len(l.Ranks) > 1 && len(r.Slices) > 1 {
			return fmt.Errorf("%w: a rank needs a slice, and exactly one beside other ranks", ErrSpec)
		}
		for k, sl := range r.Slices {
			if sl.Program == nil && s.Catalog == nil || sl.Device < 0 || sl.Device >= len(s.Devices) {
				return fmt.Errorf("%w: slice %d has no program or no device", ErrSpec, k)
			}
			if l.SharedKV && sl.KVBytes != 0 {
				return fmt.Errorf("%w: slice %d reserves %d bytes of KV, but the lane's pool is shared", ErrSpec, k, sl.KVBytes)
			}
			if k > 0 && r.Slices[k-1].Device != sl.Device && s.link(r.Slices[k-1].Device, sl.Device) < 0 {
				return fmt.Errorf("%w: no link from %s to %s", ErrSpec, s.Devices[r.Slices[k-1].Device].ID, s.Devices[sl.Device].ID)
			}
		}
	}
	return s.validateManaged(l)
}

// link returns the index of a link, or -1.
func (s *Spec) link(from, to int) int {
	for i := range s.Links {
		if s.Links[i].From == from && s.Links[i].To == to {
			return i
		}
	}
	return -1
}

// Record is what became of one request, in nanoseconds since the simulation's origin; zero where it didn't happen.
type Record struct {
	ArrivalNs, QueuedNs, ScheduledNs, FirstNs, LastNs int64
	Lane, Rank                                        int
	CachedTokens                                      int
	Preemptions                                       int
	Refused                                           bool
}

// Mode says how a simulation advances. Both give the same results.
type Mode uint8

const (
	// Fast sums the operators of an undisturbed run and jumps over steps between which nothing arrives, ends or contends.
	Fast Mode = iota
	// Exact makes every operator an event.
	Exact
)
