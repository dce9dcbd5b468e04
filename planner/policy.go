package planner

import (
	"slicescheduler/gmg"
	"slicescheduler/whatif"
)

// Policy decides what lies and runs where. All methods are pure: what they return depends on what they were given since Place, never on clocks or global
// randomness, and they know nothing of the future. A Policy serves one run and isn't safe for concurrent use.
type Policy interface {
	Name() string
	// Place says how the tenants' lanes lie at the start. past is what was seen before, never of the run itself.
	Place(c *Cluster, past *Past) (*Start, error)
	// Route names the lane (LaneLoad.Lane) that serves an arriving request, or -1 to hold it until the tenant's lanes change. The arrival is only lent.
	Route(a *whatif.Arrival) int
	// PeriodNs is how often Plan is asked; 0: never.
	PeriodNs() int64
	// Plan looks at a state, which it must not keep or change, and returns what is to be done, in order.
	Plan(s *whatif.State) []Decision
}

// Reshaper is implemented by policies that run on other hardware than the cluster's (bounds). Whoever runs a policy calls Reshape first and uses the result
// in the cluster's place, both with the costs that the policy believes in and with the true ones; what a request takes alone, and so its limits, stay those of
// the cluster as it is.
type Reshaper interface {
	// Reshape returns a cluster of its own and leaves c as it is. It depends on nothing but c.
	Reshape(c *Cluster) *Cluster
}

// Decision is an action with its reason.
type Decision struct {
	Action whatif.Action
	Kind   string // replicate, spread, evict, borrow-attention, borrow-rows, stream-prefill, route, migrate, throttle
	Tenant int
	// Reason says in words why it was chosen. It is deterministic.
	Reason string
	// GoodTokens is how many more tokens within SLA the action is forecast to bring until HorizonNs from now; both are 0 where nothing was forecast.
	GoodTokens float64
	HorizonNs  int64
}

// Cluster is what a policy knows of the hardware and of the tenants' models. It doesn't change during a run.
type Cluster struct {
	Devices []Device
	Links   []whatif.LinkSpec // between all pairs of devices that can reach each other
	Tenants []Tenant
	Costs   whatif.Catalog // what operators are thought to take; the truth differs
	Engine  func(device int) *whatif.EngineKind
}

// Device is an accelerator.
type Device struct {
	ID            string
	Kind          string
	Host          int
	MemoryBytes   int64   // what weights and KV may hold together
	LoadBytesPerS float64 // weights from the host's memory
}

// Tenant is a model that is served.
type Tenant struct {
	ID           string
	Model        string
	Graph        *gmg.Graph
	Priority     int
	Home         int // device of its container where it has one to itself
	MaxSequences int // that may run at a time on one lane
	// AloneTTFTNs and AloneTPOTNs are what a request of these lengths takes alone on the idle home device.
	AloneTTFTNs func(promptTokens int) int64
	AloneTPOTNs func(contextTokens int) int64
}

// Past is what is known of the tenants' past.
type Past struct {
	Tenants []TenantPast
}

// TenantPast sums up a tenant's past requests.
type TenantPast struct {
	RequestsPerS     float64
	PeakRequestsPerS float64 // in the busiest 10 s
	PromptTokens     float64 // mean
	OutputTokens     float64 // mean
	// PromptQuantiles and OutputQuantiles are the 0, 10 .. 100 % quantiles of lengths; nil when nothing is known.
	PromptQuantiles, OutputQuantiles []int
}

// Start is how lanes lie at first.
type Start struct {
	Lanes [][]whatif.LaneSpec // by tenant
	// Devices replaces the specification of devices where a policy shares them in a way of its own; nil: one queue a device.
	Devices []whatif.DeviceSpec
	Order   whatif.QueueOrder
}
