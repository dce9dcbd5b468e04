package replay

import (
	"slicescheduler/planner"
	"slicescheduler/workload"
)

// Result is what became of one run. The first fields, up to PlanMsP99, are those that `slicer replay --json` promises.
type Result struct {
	Scenario         string  `json:"scenario"`
	Policy           string  `json:"policy"`
	Load             float64 `json:"load"`
	Seed             uint64  `json:"seed"`
	Requests         int64   `json:"requests"`
	Finished         int64   `json:"finished"`
	ViolationsPct    float64 `json:"violationsPct"`  // workload.ViolationRate
	TokensPerS       float64 `json:"tokensPerS"`     // prompt tokens computed and answer tokens made while requests arrived, per second of that time
	GoodTokensPerS   float64 `json:"goodTokensPerS"` // prompt and answer tokens of requests within SLA, per second of the time in which requests arrived
	MemoryViolations int64   `json:"memoryViolations"`
	PlanMsP99        float64 `json:"planMsP99"`

	Knobs            planner.Knobs    `json:"knobs,omitempty"`
	Part             Part             `json:"part"`
	Stopped          bool             `json:"stopped,omitempty"` // early, for its violations; figures hold up to then
	WindowS          float64          `json:"windowS"`           // in which requests arrived
	EndS             float64          `json:"endS"`              // when the run ended
	Plans            int64            `json:"plans"`
	PlanMsP50        float64          `json:"planMsP50"`
	PlanMsMax        float64          `json:"planMsMax"`
	Actions          map[string]int64 `json:"actions,omitempty"` // that were carried out, by kind
	Refused          int64            `json:"refused"`           // actions that couldn't be carried out any more
	RefusedForMemory int64            `json:"refusedForMemory"`  // of these
	Lost             int64            `json:"lost"`              // actions that a disturbance ate
	LenderPct        float64          `json:"lenderViolationsPct"`
	Steps            int64            `json:"steps"`
	WallS            float64          `json:"wallS"` // that the run itself took, 0 without a clock
	Tenants          []TenantResult   `json:"tenants,omitempty"`
	TTFT             Figures          `json:"ttft"`
	TPOT             Figures          `json:"tpot"`
	Detail           *Detail          `json:"-"`
}

// Figures are a distribution in milliseconds.
type Figures struct {
	MeanMs float64 `json:"meanMs"`
	P50Ms  float64 `json:"p50Ms"`
	P90Ms  float64 `json:"p90Ms"`
	P99Ms  float64 `json:"p99Ms"`
	MaxMs  float64 `json:"maxMs"`
}

func figuresOf(d workload.Distribution) Figures {
	return Figures{MeanMs: d.MeanNs / 1e6, P50Ms: float64(d.P50Ns) / 1e6, P90Ms: float64(d.P90Ns) / 1e6, P99Ms: float64(d.P99Ns) / 1e6, MaxMs: float64(d.MaxNs) / 1e6}
}

// TenantResult is one tenant's share.
type TenantResult struct {
	ID             string  `json:"id"`
	Model          string  `json:"model"`
	Requests       int64   `json:"requests"`
	Finished       int64   `json:"finished"`
	ViolationsPct  float64 `json:"violationsPct"`
	LateFirst      int64   `json:"lateFirstToken"`
	SlowTokens     int64   `json:"slowTokens"`
	GoodTokensPerS float64 `json:"goodTokensPerS"`
	Lender         bool    `json:"lender,omitempty"` // others had lanes or helpers on its home device
	TTFT           Figures `json:"ttft"`
	TPOT           Figures `json:"tpot"`
}

// Detail is what is kept of a run that is looked at closely.
type Detail struct {
	On        *planner.Cluster `json:"-"` // what it ran on
	Decisions []DecisionResult `json:"decisions"`
	AtNs      []int64          `json:"atNs"`    // of samples
	Devices   [][]DeviceSample `json:"devices"` // by device and sample
	TTFT      workload.Sketch  `json:"-"`       // of all requests that finished
	TPOT      workload.Sketch  `json:"-"`       // of those whose answers are long enough
}

// DecisionResult is a decision and what then happened.
type DecisionResult struct {
	AtNs               int64   `json:"atNs"` // when it was carried out, or refused
	Kind               string  `json:"kind"`
	Tenant             int     `json:"tenant"`
	Reason             string  `json:"reason"`
	Applied            bool    `json:"applied"`
	Refusal            string  `json:"refusal,omitempty"`
	ForecastGoodTokens float64 `json:"forecastGoodTokens"` // that it would bring until HorizonNs later
	HorizonNs          int64   `json:"horizonNs"`
	// GoodTokens are the tokens within SLA of the tenant's requests that ended in that time; GoodTokensBefore as many of as long a time before.
	GoodTokens       int64 `json:"goodTokens"`
	GoodTokensBefore int64 `json:"goodTokensBefore"`
}

// DeviceSample is what a device did since the sample before, and what it held at its end.
type DeviceSample struct {
	Busy        float64 `json:"busy"`     // share of time
	Borrowed    float64 `json:"borrowed"` // of time, for lanes that borrow
	WeightBytes int64   `json:"weightBytes"`
	KVBytes     int64   `json:"kvBytes"`
	FreeBytes   int64   `json:"freeBytes"`
	// Tenants are those that it worked for, by share of time.
	Tenants []TenantShare `json:"tenants,omitempty"`
}

// TenantShare is the share of a sample that a device worked for a tenant.
type TenantShare struct {
	Tenant int     `json:"tenant"`
	Busy   float64 `json:"busy"`
}
