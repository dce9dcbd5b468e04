package whatif

import "slicescheduler/gmg"

// Catalog says what slices cost. Implementations return the same program for the same arguments, so that lanes share it.
type Catalog interface {
	// Program compiles a tenant's stages for a device, or returns an ErrSpec.
	Program(tenant, device int, stages gmg.Range) (*Program, error)
}

// QueueOrder says which of the runs that wait for a device goes first. Home work always goes before borrowed work.
type QueueOrder uint8

const (
	// OrderArrival: as they came.
	OrderArrival QueueOrder = iota
	// OrderSlack: the run whose step has the least time left until one of its sequences is late.
	OrderSlack
	// OrderUrgent: as OrderSlack, and a run gives way, at the end of an operator, to one that is wanted earlier.
	OrderUrgent
)

// Router chooses the lane of an arriving request.
type Router interface {
	// Route returns a LaneLoad.Lane, or -1 to hold the request until the tenant's lanes change. It must depend on nothing but the arrival and on what
	// was routed before, and must not keep the arrival.
	Route(a *Arrival) int
}

// DecodeRouter may be implemented by a Router to choose the lane that a sequence goes to from a lane with Prefill, when it has its first token. Without it
// the lane with the least context takes it.
type DecodeRouter interface {
	// RouteDecode returns a LaneLoad.Lane out of a.Lanes, or -1 to let it decode where it is. PromptTokens are those whose KV moves. As for Route, it must
	// not keep the arrival.
	RouteDecode(a *Arrival) int
}

// Arrival is a request at the moment it comes, without its length.
type Arrival struct {
	NowNs                    int64
	Tenant                   int
	Request                  int // among its tenant's
	PromptTokens             int
	Priority                 int
	TTFTLimitNs, TPOTLimitNs int64
	Lanes                    []LaneLoad // of the tenant, those that serve
}

// LaneLoad is what can be seen of a lane from outside.
type LaneLoad struct {
	Lane          int // among its tenant's
	Devices       int // on which it lies
	Device        int // of its first slice
	Borrowed      bool
	Prefill       bool  // hands its sequences over after their first token
	Waiting       int   // requests
	Running       int   // sequences
	PendingTokens int   // prompt tokens that are not computed yet
	ContextTokens int64 // of running sequences, about
	FreeBlocks    int   // KV pages that it could have now
	KVBlocks      int   // KV pages that it could have if it were alone
	StepNs        int64 // what its last step of decodes took: on its devices, or from its formation to its end where prompts are separate
	// QueueNs is the work that lies in its first device's queue, of all lanes; DevicePending are the prompt tokens not computed yet of all lanes there.
	QueueNs       int64
	DevicePending int
	DeviceRunning int // sequences of all lanes there
}

// State is what can be observed of a running world: no true length of an answer, no future arrival, no true cost.
type State struct {
	NowNs   int64
	Devices []DeviceState
	Tenants []TenantState
}

// DeviceState is a device's memory and work.
type DeviceState struct {
	FreeBytes, WeightBytes, KVBytes int64
	BusyNs                          int64 // since the start
	BorrowedNs                      int64 // of these, for lanes that borrow
	QueueNs                         int64 // work that lies in the queue
}

// TenantState is what a tenant has and what is asked of it.
type TenantState struct {
	Lanes    []LaneState // by number; the gone ones too, so that numbers stay
	Held     []SequenceState
	Arrived  int64
	Finished int64
	Totals   Totals
	// MaxSequences is the limit of a Throttle, 0: none.
	MaxSequences int
}

// LanePhase is where a lane is in its life.
type LanePhase uint8

// Phases of a lane.
const (
	LaneServing LanePhase = iota
	LaneLoading
	LaneDraining
	LaneGone
)

// LaneState is a lane and its sequences.
type LaneState struct {
	Spec      *LaneSpec
	Phase     LanePhase
	ReadyNs   int64 // when a loading lane is expected to serve
	Load      LaneLoad
	Sequences []SequenceState // running ones first
	Helpers   []HelperState
}

// HelperState is a device's part in a lane: BorrowRows, or else BorrowAttention.
type HelperState struct {
	Device, Percent int
	Rows            bool
	Bytes           int64 // reserved on the device
	ReadyNs         int64 // when it takes part
}

// SequenceState is how far a request is.
type SequenceState struct {
	Request        int // among its tenant's
	PromptTokens   int
	Tokens         int // of prompt and answer so far
	ComputedTokens int
	ArrivalNs      int64
	FirstNs        int64 // 0: no token yet
	TTFTLimitNs    int64
	TPOTLimitNs    int64
	Priority       int
	Running        bool
	Migrating      bool
}
