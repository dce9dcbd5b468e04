package describe

import (
	"fmt"
	"slices"

	"slicescheduler/whatif"
)

// Action is something that might be done. Kind is one of those of ActionForms, which say what each is; the comments say which kinds read a field.
type Action struct {
	Kind   string  `json:"kind"`
	Tenant string  `json:"tenant"`
	Lane   int     `json:"lane"` // move, evict, borrow-attention, borrow-rows, migrate
	To     Lane    `json:"to"`   // replicate, move, stream-prefill
	AtMs   float64 `json:"atMs"`
	LoadMs float64 `json:"loadMs"` // replicate, move, stream-prefill, borrow-rows; 0: weights at 25 GB/s a device
	// Helper and Percent are the device that lends and the share that it takes: borrow-attention, borrow-rows.
	Helper  string `json:"helper"`
	Percent int    `json:"percent"`
	// KVGiB is reserved at the helper: borrow-attention; 0: that share of what the lane has.
	KVGiB        float64 `json:"kvGiB"`
	MaxSequences int     `json:"maxSequences"` // throttle
	// Sequence goes to ToLane: migrate. It counts the tenant's requests by arrival from 0 or, with OfRunning, its running sequences as they are listed.
	Sequence  int     `json:"sequence"`
	OfRunning bool    `json:"ofRunning"`
	ToLane    int     `json:"toLane"`
	StopMs    float64 `json:"stopMs"` // for which it stands still: migrate; 0: 25
}

// stopMs is how long a migrating sequence stands still at the end: Llumnix measured 20 to 30 ms.
const stopMs = 25

// action turns a described action into the simulator's.
func (b *builder) action(a Action) (whatif.Action, error) {
	ti := slices.IndexFunc(b.world.Tenants, func(t Tenant) bool { return t.ID == a.Tenant })
	if ti < 0 {
		return nil, fmt.Errorf("%w: action on tenant %q: no such tenant", ErrWorld, a.Tenant)
	}
	switch a.Kind {
	case "evict":
		return whatif.RemoveLane{Tenant: ti, Lane: a.Lane}, nil
	case "throttle":
		return whatif.Throttle{Tenant: ti, MaxSequences: a.MaxSequences}, nil
	case "migrate":
		return b.migrate(ti, &a)
	case "borrow-attention", "borrow-rows":
		return b.borrow(ti, &a)
	case "replicate", "move", "stream-prefill":
	default:
		kinds := ""
		for _, f := range ActionForms() {
			kinds += " " + f.Kind
		}
		return nil, fmt.Errorf("%w: unknown action %q; it is one of%s", ErrWorld, a.Kind, kinds)
	}
	lane, err := b.lane(&b.world.Tenants[ti], a.To)
	if err != nil {
		return nil, fmt.Errorf("action on tenant %s: %w", a.Tenant, err)
	}
	load := int64(a.LoadMs * 1e6)
	if load == 0 {
		for _, s := range lane.Ranks[0].Slices {
			load = max(load, loadNs(s.Program.WeightBytes()))
		}
	}
	if a.Kind == "move" {
		return whatif.MoveLane{Tenant: ti, Lane: a.Lane, To: lane, LoadNs: load}, nil
	}
	lane.Prefill = a.Kind == "stream-prefill"
	return whatif.AddLane{Tenant: ti, Lane: lane, LoadNs: load}, nil
}

// loadNs is how long weights come from host memory.
func loadNs(bytes int64) int64 { return int64(float64(bytes) / hostBytesPerS * 1e9) }

func (b *builder) borrow(ti int, a *Action) (whatif.Action, error) {
	helper := b.device(a.Helper)
	if helper < 0 {
		return nil, fmt.Errorf("%w: %s for tenant %s: no device %q; helper names one", ErrWorld, a.Kind, a.Tenant, a.Helper)
	}
	lanes := b.spec.Tenants[ti].Lanes
	if a.Kind == "borrow-rows" {
		load := int64(a.LoadMs * 1e6)
		if load == 0 && a.Lane >= 0 && a.Lane < len(lanes) {
			weights := int64(0)
			for _, s := range lanes[a.Lane].Ranks[0].Slices {
				weights += s.Program.WeightBytes()
			}
			load = loadNs(weights)
		}
		return whatif.BorrowRows{Tenant: ti, Lane: a.Lane, Helper: helper, Percent: a.Percent, LoadNs: load}, nil
	}
	kv := int64(a.KVGiB * (1 << 30))
	if kv == 0 && a.Percent > 0 {
		if a.Lane < 0 || a.Lane >= len(lanes) {
			return nil, fmt.Errorf("%w: borrow-attention for tenant %s: lane %d is none of those that it begins with; say kvGiB", ErrWorld, a.Tenant, a.Lane)
		}
		for _, s := range lanes[a.Lane].Ranks[0].Slices {
			kv += s.KVBytes * int64(a.Percent) / 100
		}
	}
	return whatif.BorrowAttention{Tenant: ti, Lane: a.Lane, Helper: helper, Percent: a.Percent, KVBytes: kv}, nil
}

func (b *builder) migrate(ti int, a *Action) (whatif.Action, error) {
	t := &b.spec.Tenants[ti]
	n, of := len(t.Requests), "requests"
	if a.OfRunning {
		n, of = len(t.Live), "running sequences"
	}
	if a.Sequence < 0 || a.Sequence >= n {
		return nil, fmt.Errorf("%w: migrate for tenant %s: sequence %d of %d %s, counted from 0", ErrWorld, a.Tenant, a.Sequence, n, of)
	}
	stop := a.StopMs
	if stop == 0 {
		stop = stopMs
	}
	m := whatif.MigrateSequence{Tenant: ti, Request: a.Sequence, From: a.Lane, To: a.ToLane, StopNs: int64(stop * 1e6)}
	if a.OfRunning {
		m.Request = whatif.LiveRequest(a.Sequence)
	}
	return m, nil
}
