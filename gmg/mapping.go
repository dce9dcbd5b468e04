package gmg

import "fmt"

// Identifiers. A DeviceID is "<node>/<kind><index>", a LaneID "<tenant>#<n>"; both are unique in a cluster.
type (
	NodeID   string
	DeviceID string
	TenantID string
	LaneID   string
)

// DeviceKind says what runs a device's programs.
type DeviceKind string

const (
	DeviceCPU  DeviceKind = "cpu"
	DeviceCUDA DeviceKind = "cuda"
	DeviceSim  DeviceKind = "sim"
)

// Device describes one accelerator: a set of CPU cores, a CUDA GPU or a simulated one. Model names its cost table ("RTX4090", "cpu-avx2").
type Device struct {
	ID                 DeviceID          `json:"id"`
	Node               NodeID            `json:"node"`
	Kind               DeviceKind        `json:"kind"`
	Model              string            `json:"model"`
	Cores              int               `json:"cores"`
	MemoryBytes        int64             `json:"memoryBytes"`
	BandwidthBytesPerS float64           `json:"bandwidthBytesPerS"`
	PeakFLOPS          map[DType]float64 `json:"peakFlops"`
	Healthy            bool              `json:"healthy"`
	Reason             string            `json:"reason,omitempty"` // why it is not healthy
}

// LinkKind says how bytes move over a link.
type LinkKind string

const (
	LinkMemory  LinkKind = "memory"  // both ends share memory
	LinkPeer    LinkKind = "peer"    // device to device
	LinkStaged  LinkKind = "staged"  // through host memory
	LinkNetwork LinkKind = "network" // between hosts
	LinkHost    LinkKind = "host"    // host memory to device (weights)
)

// Link is a directed path between two devices.
type Link struct {
	From               DeviceID `json:"from"`
	To                 DeviceID `json:"to"`
	Kind               LinkKind `json:"kind"`
	BandwidthBytesPerS float64  `json:"bandwidthBytesPerS"`
	LatencyNs          int64    `json:"latencyNs"`
}

// Residency is the state of weights on a device.
type Residency uint8

const (
	Absent Residency = iota
	Loading
	Resident
	Evicting
	Failed
	numResidencies
)

var residencyNames = [numResidencies]string{"absent", "loading", "resident", "evicting", "failed"}

// String returns the state's name in listings.
func (r Residency) String() string {
	if r >= numResidencies {
		return fmt.Sprintf("residency(%d)", uint8(r))
	}
	return residencyNames[r]
}

// MarshalText makes states travel by name.
func (r Residency) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Residency) UnmarshalText(b []byte) error {
	for i, name := range residencyNames {
		if name == string(b) {
			*r = Residency(i)
			return nil
		}
	}
	return fmt.Errorf("%w: unknown residency %q", ErrFact, b)
}

// Slice is a run of consecutive operators of one tenant on one device: the unit that is placed, moved and run.
type Slice struct {
	Device      DeviceID  `json:"device"`
	Stages      Range     `json:"stages"`
	Weights     Residency `json:"weights"`
	LoadedBytes int64     `json:"loadedBytes"` // progress of Loading
	WeightBytes int64     `json:"weightBytes"`
	KVBlocks    int       `json:"kvBlocks"` // KV pages reserved for this slice, of BlockTokens tokens each
	KVBytes     int64     `json:"kvBytes"`
}

// Lane is an ordered list of slices that covers a tenant's whole graph. Epoch rises with each change of the lane, so that a message meant for an
// older shape is recognised.
type Lane struct {
	ID     LaneID   `json:"id"`
	Tenant TenantID `json:"tenant"`
	Epoch  uint64   `json:"epoch"`
	Slices []Slice  `json:"slices"`
	Ready  bool     `json:"ready"`
	Reason string   `json:"reason,omitempty"` // why it is not ready
}

// TenantSpec is what people submit: a model, its SLA, quota and priority.
type TenantSpec struct {
	ID           TenantID `json:"id"`
	Model        string   `json:"model"`                  // name or path of the model
	ChatTemplate string   `json:"chatTemplate,omitempty"` // overrides the model's own; empty for none
	TTFTMs       int64    `json:"ttftMs"`                 // 0: five times alone, at least 1 s
	TPOTMs       int64    `json:"tpotMs"`                 // 0: twice alone, at least 50 ms
	Priority     int      `json:"priority"`
	MaxSequences int      `json:"maxSequences"` // sequences in one step, 0 for the default
	MaxQueue     int      `json:"maxQueue"`     // requests waiting, 0 for the default
	MaxContext   int      `json:"maxContext"`   // tokens of one request, 0 for the model's
	SplitOver    int      `json:"splitOver"`    // at least this many devices share the lane's layers; 0 and 1: as few as fit
	KeyHashes    []string `json:"keyHashes,omitempty"`
}

// SequenceState is what the GMG keeps of one live request within its cell.
type SequenceState struct {
	ID            uint64 `json:"id"`
	PromptTokens  int    `json:"promptTokens"`
	ContextTokens int    `json:"contextTokens"`
	OutputTokens  int    `json:"outputTokens"`
	ArrivalNs     int64  `json:"arrivalNs"`
	DeadlineNs    int64  `json:"deadlineNs"`
}

// TenantState is a tenant's execution state.
type TenantState struct {
	Tenant        TenantID        `json:"tenant"`
	Waiting       []SequenceState `json:"waiting"`
	Running       []SequenceState `json:"running"`
	KVBlocksFree  int             `json:"kvBlocksFree"`
	KVBlocksTotal int             `json:"kvBlocksTotal"`
}

// DeviceState is a device's execution state.
type DeviceState struct {
	Device   DeviceID `json:"device"`
	Ledger   Ledger   `json:"ledger"`
	Running  TenantID `json:"running"` // whose slice runs now, empty for none
	Queued   int      `json:"queued"`
	FreeAtNs int64    `json:"freeAtNs"` // when what is queued is expected to end
	BusyNs   int64    `json:"busyNs"`   // total since start
}
