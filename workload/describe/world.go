// Package describe turns a described cluster, its tenants and some actions into a what-if forecast.
package describe

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/goccy/go-yaml"

	"slicescheduler/batching"
	"slicescheduler/gmg"
	"slicescheduler/whatif"
	"slicescheduler/workload/costs"
)

// ErrWorld is returned for a description that makes no sense.
var ErrWorld = errors.New("invalid description")

// World is a cluster, what runs on it, and what might be done. It is read as YAML or JSON.
type World struct {
	HorizonMs float64  `json:"horizonMs"` // how far to look, 0: 10 s
	Devices   []Device `json:"devices"`
	Links     []Link   `json:"links"`
	Tenants   []Tenant `json:"tenants"`
	Actions   []Action `json:"actions"`
}

// Device is an accelerator of a known kind.
type Device struct {
	ID        string  `json:"id"`
	Hardware  string  `json:"hardware"`  // RTX4090, A100 ..
	MemoryGiB float64 `json:"memoryGiB"` // 0: the kind's
}

// Link joins two devices in both directions.
type Link struct {
	From      string  `json:"from"`
	To        string  `json:"to"`
	GBPerS    float64 `json:"gbPerS"`
	LatencyUs float64 `json:"latencyUs"`
}

// Tenant is a model with its lanes and its work.
type Tenant struct {
	ID             string    `json:"id"`
	Model          string    `json:"model"`
	MaxSequences   int       `json:"maxSequences"`   // 0: 128
	MaxBatchTokens int       `json:"maxBatchTokens"` // 0: 2048
	Lanes          []Lane    `json:"lanes"`
	Running        []Running `json:"running"`
	Requests       []Request `json:"requests"`
	TTFTMs         float64   `json:"ttftMs"` // limits of its SLA, 0: none
	TPOTMs         float64   `json:"tpotMs"`
}

// Lane is a copy of the model, its layers in equal runs over devices.
type Lane struct {
	Devices  []string `json:"devices"`
	KVBlocks int      `json:"kvBlocks"` // pages of 16 tokens; 0: nine tenths of what the tightest device has left beside the weights
	Borrowed bool     `json:"borrowed"` // yields to lanes that aren't
}

// Running is a sequence that is being decoded now.
type Running struct {
	Lane         int `json:"lane"`
	PromptTokens int `json:"promptTokens"`
	TokensSoFar  int `json:"tokensSoFar"`
	OutputTokens int `json:"outputTokens"` // as guessed
	Count        int `json:"count"`        // so many alike, 0: 1
}

// Request comes at a time from now; EveryMs and Count make a row of them.
type Request struct {
	AtMs         float64 `json:"atMs"`
	PromptTokens int     `json:"promptTokens"`
	OutputTokens int     `json:"outputTokens"`
	EveryMs      float64 `json:"everyMs"`
	Count        int     `json:"count"`
}

// hostBytesPerS is how fast weights come from host memory.
const hostBytesPerS = 25e9

// Read reads a description.
func Read(r io.Reader) (*World, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var w World
	if err := yaml.UnmarshalWithOptions(data, &w, yaml.Strict(), yaml.UseJSONUnmarshaler()); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrWorld, err)
	}
	if w.HorizonMs == 0 {
		w.HorizonMs = 10_000
	}
	if len(w.Devices) == 0 || len(w.Tenants) == 0 || w.HorizonMs < 0 {
		return nil, fmt.Errorf("%w: it needs devices, tenants and a horizon above 0", ErrWorld)
	}
	return &w, nil
}

// builder makes a simulation out of a description.
type builder struct {
	world    *World
	profiles string
	spec     *whatif.Spec
	hardware []whatif.Hardware
	programs map[string]*whatif.Program
}

func newBuilder(w *World, profilesDir string) (*builder, error) {
	b := &builder{world: w, profiles: profilesDir, spec: &whatif.Spec{}, programs: map[string]*whatif.Program{}}
	b.spec.Catalog = b
	for _, d := range w.Devices {
		h, err := whatif.FindHardware(d.Hardware)
		if err != nil {
			return nil, fmt.Errorf("device %s: %w", d.ID, err)
		}
		memory := h.MemoryBytes
		if d.MemoryGiB > 0 {
			memory = int64(d.MemoryGiB * (1 << 30))
		}
		b.hardware = append(b.hardware, h)
		b.spec.Devices = append(b.spec.Devices, whatif.DeviceSpec{ID: d.ID, MemoryBytes: memory})
	}
	for _, l := range w.Links {
		from, to := b.device(l.From), b.device(l.To)
		if from < 0 || to < 0 {
			return nil, fmt.Errorf("%w: link from %q to %q: no such device", ErrWorld, l.From, l.To)
		}
		for _, ends := range [2][2]int{{from, to}, {to, from}} {
			b.spec.Links = append(b.spec.Links, whatif.LinkSpec{From: ends[0], To: ends[1], BandwidthBytesPerS: l.GBPerS * 1e9, LatencyNs: int64(l.LatencyUs * 1e3)})
		}
	}
	for i := range w.Tenants {
		t, err := b.tenant(&w.Tenants[i])
		if err != nil {
			return nil, fmt.Errorf("tenant %s: %w", w.Tenants[i].ID, err)
		}
		b.spec.Tenants = append(b.spec.Tenants, t)
	}
	return b, nil
}

func (b *builder) device(id string) int {
	return slices.IndexFunc(b.world.Devices, func(d Device) bool { return d.ID == id })
}

func (b *builder) tenant(t *Tenant) (whatif.TenantSpec, error) {
	out := whatif.TenantSpec{ID: t.ID, TTFTLimitNs: int64(t.TTFTMs * 1e6), TPOTLimitNs: int64(t.TPOTMs * 1e6)}
	for _, l := range t.Lanes {
		lane, err := b.lane(t, l)
		if err != nil {
			return out, err
		}
		out.Lanes = append(out.Lanes, lane)
	}
	for _, r := range t.Running {
		for range max(r.Count, 1) {
			out.Live = append(out.Live, whatif.Live{Lane: r.Lane, PromptTokens: r.PromptTokens, TokensSoFar: r.TokensSoFar, OutputTokens: r.OutputTokens})
		}
	}
	for _, r := range t.Requests {
		for k := range max(r.Count, 1) {
			out.Requests = append(out.Requests, whatif.Request{
				ArrivalNs: int64((r.AtMs + float64(k)*r.EveryMs) * 1e6), PromptTokens: r.PromptTokens, OutputTokens: r.OutputTokens,
			})
		}
	}
	slices.SortStableFunc(out.Requests, func(a, b whatif.Request) int { return int(min(1, max(-1, a.ArrivalNs-b.ArrivalNs))) })
	return out, nil
}

// lane cuts a tenant's model into runs of equal length over a lane's devices.
func (b *builder) lane(t *Tenant, l Lane) (whatif.LaneSpec, error) {
	if len(l.Devices) == 0 {
		return whatif.LaneSpec{}, fmt.Errorf("%w: a lane needs devices", ErrWorld)
	}
	a, err := whatif.FindArchitecture(t.Model)
	if err != nil {
		return whatif.LaneSpec{}, err
	}
	g := a.Graph(1)
	sequences := t.sequences()
	out := whatif.LaneSpec{Borrowed: l.Borrowed, Ranks: []whatif.RankSpec{{}}}
	blocks := l.KVBlocks
	for k, id := range l.Devices {
		d := b.device(id)
		if d < 0 {
			return out, fmt.Errorf("%w: no device %q", ErrWorld, id)
		}
		if out.Engine == nil {
			out.Engine = whatif.VLLM(b.hardware[d], sequences)
		}
		r := gmg.Range{From: k * len(g.Stages) / len(l.Devices), To: (k + 1) * len(g.Stages) / len(l.Devices)}
		p, err := b.program(a, g, r, d, out.Engine, t.Model)
		if err != nil {
			return out, err
		}
		page := g.KVBytesPerToken(r) * batching.DefaultBlockTokens
		if page > 0 && l.KVBlocks == 0 {
			free := float64(b.spec.Devices[d].MemoryBytes - g.WeightBytes(r))
			if fits := int(kvShare * free / float64(page)); blocks == 0 || fits < blocks {
				blocks = max(fits, 1)
			}
		}
		out.Ranks[0].Slices = append(out.Ranks[0].Slices, whatif.SliceSpec{Device: d, Stages: r, Program: p})
	}
	for k := range out.Ranks[0].Slices {
		r := gmg.Range{From: k * len(g.Stages) / len(l.Devices), To: (k + 1) * len(g.Stages) / len(l.Devices)}
		out.Ranks[0].Slices[k].KVBytes = g.KVBytesPerToken(r) * batching.DefaultBlockTokens * int64(blocks)
	}
	out.Batching = batching.Config{KVBlocks: blocks, MaxSequences: sequences, MaxBatchTokens: t.MaxBatchTokens, AdmitWhole: true, CountOnly: true, InFlight: 2, Overlap: batching.OverlapAll, Order: batching.OrderStrict}
	if len(l.Devices) > 1 {
		out.Batching.InFlight, out.Batching.Overlap = len(l.Devices), batching.OverlapPrefill
	}
	return out, nil
}

// kvShare is the share of a device's memory beside the weights that a lane takes for KV unless told otherwise.
const kvShare = 0.9

// Program says what stages of a tenant's model cost on a device that lends to it.
func (b *builder) Program(tenant, device int, stages gmg.Range) (*whatif.Program, error) {
	t := &b.world.Tenants[tenant]
	a, err := whatif.FindArchitecture(t.Model)
	if err != nil {
		return nil, err
	}
	return b.program(a, a.Graph(1), stages, device, whatif.VLLM(b.hardware[device], t.sequences()), t.Model)
}

// sequences is how many may run on a lane.
func (t *Tenant) sequences() int { return cmp.Or(t.MaxSequences, 128) }

// program compiles a run of stages for a device, from measured tables where the profiles have them.
func (b *builder) program(a whatif.Architecture, g *gmg.Graph, r gmg.Range, d int, e *whatif.EngineKind, model string) (*whatif.Program, error) {
	h := b.hardware[d]
	key := fmt.Sprint(h.Name, model, r, len(e.CaptureSizes))
	if p, ok := b.programs[key]; ok {
		return p, nil
	}
	tables, err := costs.Open(b.profiles, h.Name, model, 1)
	if err != nil {
		return nil, err
	}
	p, err := whatif.Compile(g, r, costs.Source(tables, h, a, 1, e, whatif.ExpertGroup{}), whatif.Parallelism{})
	b.programs[key] = p
	return p, err
}
