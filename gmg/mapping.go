package gmg

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
	ID                 DeviceID
	Node               NodeID
	Kind               DeviceKind
	Model              string
	Cores              int
	MemoryBytes        int64
	BandwidthBytesPerS float64
	PeakFLOPS          map[DType]float64
	Healthy            bool
	Reason             string // why it is not healthy
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
	From, To           DeviceID
	Kind               LinkKind
	BandwidthBytesPerS float64
	LatencyNs          int64
}

// Residency is the state of weights on a device.
type Residency uint8

const (
	Absent Residency = iota
	Loading
	Resident
	Evicting
	Failed
)

// Slice is a run of consecutive operators of one tenant on one device: the unit that is placed, moved and run.
type Slice struct {
	Device      DeviceID
	Stages      Range
	Weights     Residency
	LoadedBytes int64 // progress of Loading
	WeightBytes int64
	KVBlocks    int // KV pages reserved for this slice, of BlockTokens tokens each
	KVBytes     int64
}

// Lane is an ordered list of slices that covers a tenant's whole graph. Epoch rises with each change of the lane, so that a message meant for an
// older shape is recognised.
type Lane struct {
	ID     LaneID
	Tenant TenantID
	Epoch  uint64
	Slices []Slice
	Ready  bool
	Reason string // why it is not ready
}

// TenantSpec is what people submit: a model, its SLA, quota and priority.
type TenantSpec struct {
	ID           TenantID
	Model        string // name or path of the model
	ChatTemplate string // overrides the model's own; empty for none
	TTFTMs       int64  // 0: five times alone, at least 1 s
	TPOTMs       int64  // 0: twice alone, at least 50 ms
	Priority     int
	MaxSequences int // sequences in one step, 0 for the default
	MaxQueue     int // requests waiting, 0 for the default
	MaxContext   int // tokens of one request, 0 for the model's
	SplitOver    int // at least this many devices share the lane's layers; 0 and 1: as few as fit
	KeyHashes    []string
}

// SequenceState is what the GMG keeps of one live request within its cell.
type SequenceState struct {
	ID            uint64
	PromptTokens  int
	ContextTokens int
	OutputTokens  int
	ArrivalNs     int64
	DeadlineNs    int64
}

// TenantState is a tenant's execution state.
type TenantState struct {
	Tenant           TenantID
	Waiting, Running []SequenceState
	KVBlocksFree     int
	KVBlocksTotal    int
}

// DeviceState is a device's execution state.
type DeviceState struct {
	Device   DeviceID
	Ledger   Ledger
	Running  TenantID // whose slice runs now, empty for none
	Queued   int
	FreeAtNs int64 // when what is queued is expected to end
	BusyNs   int64 // total since start
}
