// Package report turns the outcome of a replay or a sweep into one page that needs nothing but itself, and into tables (CSV, JSON) to lie beside it.
//
// The page is built for up to ten policies on a handful of scenarios; everything on it is also in a table.
package report

import "slicescheduler/workload"

// Role is what a policy is compared as.
type Role string

// Roles. A report has one subject and one baseline at most; what has no role is a peer.
const (
	Subject  Role = "subject"  // whose merits the report is about
	Baseline Role = "baseline" // what ratios are first taken over
	Peer     Role = "peer"     // the best of these is what ratios are taken over next
	Bound    Role = "bound"    // what no policy can exceed; drawn as a line
)

// Report is everything that a page shows. All of it is optional: what is missing is left out of the page, or said to be missing.
type Report struct {
	Title         string     `json:"title"`
	Command       string     `json:"command,omitempty"` // that made it
	Seeds         []uint64   `json:"seeds,omitempty"`
	ViolationsPct float64    `json:"violationsPct"` // up to which a load counts as carried: 9 in the headline experiment; 0: nothing is drawn
	Policies      []Policy   `json:"policies"`      // in the order in which they are shown
	Scenarios     []Scenario `json:"scenarios"`
	Ablation      []Variant  `json:"ablation,omitempty"`   // the subject with one action switched off at a time
	Robustness    []Variant  `json:"robustness,omitempty"` // the subject under one disturbance at a time
	Extra         []Table    `json:"extra,omitempty"`      // further tables, shown as they are: planning time by budget, smallest clusters ..
	Links         []Link     `json:"links,omitempty"`      // files beside the page other than those that Files names
}

// Policy is one of those compared.
type Policy struct {
	Name string `json:"name"`
	Role Role   `json:"role"`
	What string `json:"what,omitempty"` // in a few words
}

// Link is a file beside the page: a Perfetto trace, for example.
type Link struct {
	Name string `json:"name"` // relative to the page
	What string `json:"what"`
}

// Scenario is a cluster with tenants and a trace, and what each policy made of it.
type Scenario struct {
	Name    string `json:"name"`
	Cluster string `json:"cluster,omitempty"` // in words, as are the next two
	Tenants string `json:"tenants,omitempty"`
	Note    string `json:"note,omitempty"` // what a reader should know, such as the bound that forbids a target
	// GoodLoad is the load factor at which GoodTokensPerS was taken (1.5 x the baseline's capacity), SaturatedLoad that of SaturatedTokensPerS.
	GoodLoad      float64 `json:"goodLoad,omitempty"`
	SaturatedLoad float64 `json:"saturatedLoad,omitempty"`
	// TargetRatio is what the subject's capacity over the baseline's was meant to reach, 0 for no target.
	TargetRatio float64  `json:"targetRatio,omitempty"`
	Results     []Result `json:"results"`
}

// Figures are what policies are compared by.
type Figures struct {
	Capacity            float64 `json:"capacity"`            // largest load factor within the violation rate, 0 where it wasn't sought
	GoodTokensPerS      float64 `json:"goodTokensPerS"`      // prompt and answer tokens of requests within SLA, at the scenario's GoodLoad
	SaturatedTokensPerS float64 `json:"saturatedTokensPerS"` // all tokens, at the scenario's SaturatedLoad
	ViolationsPct       float64 `json:"violationsPct"`       // at the scenario's GoodLoad
}

// Result is one policy on one scenario.
type Result struct {
	Policy string `json:"policy"` // Policy.Name
	Figures
	MemoryViolations int64   `json:"memoryViolations"`           // in all runs
	LenderRisePoints float64 `json:"lenderRisePoints,omitempty"` // the most by which lending raised a tenant's own violation rate, in percentage points
	PlanMsP99        float64 `json:"planMsP99,omitempty"`        // 99 % of plans took no longer
	// ForecastErrPct is the median error of the predicted TTFT of admitted requests.
	ForecastErrPct float64 `json:"forecastErrPct,omitempty"`
	Knobs          []Knob  `json:"knobs,omitempty"` // as the sweep chose them
	Curve          []Point `json:"curve,omitempty"` // in any order; points of one load are averaged over their seeds
	Run            *Run    `json:"run,omitempty"`   // the run that is shown in detail
}

// Knob is a setting of a policy that the sweep chose.
type Knob struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Point is one run of a policy on a scenario.
type Point struct {
	Load             float64 `json:"load"`
	Seed             uint64  `json:"seed"`
	Requests         int64   `json:"requests"`
	Finished         int64   `json:"finished"`
	ViolationsPct    float64 `json:"violationsPct"`
	TokensPerS       float64 `json:"tokensPerS"`
	GoodTokensPerS   float64 `json:"goodTokensPerS"`
	MemoryViolations int64   `json:"memoryViolations"`
	PlanMsP99        float64 `json:"planMsP99,omitempty"`
}

// Run is one run in detail. Policies that are to be compared should show runs of the same load and seed.
type Run struct {
	Load      float64        `json:"load"`
	Seed      uint64         `json:"seed"`
	Tenants   []string       `json:"tenants"`             // by demand; samples and plans name them by index
	Quantiles []Quantile     `json:"quantiles,omitempty"` // of all tenants' requests, by Share
	AtNs      []int64        `json:"atNs,omitempty"`      // when each sample ends; it begins where the one before ends, the first at 0
	Devices   []DeviceSeries `json:"devices,omitempty"`
	Plans     []PlanEntry    `json:"plans,omitempty"` // by time
}

// Quantile is what the given share of requests don't exceed.
type Quantile struct {
	Share  float64 `json:"share"` // 0 to 1
	TTFTNs int64   `json:"ttftNs"`
	TPOTNs int64   `json:"tpotNs"`
}

// QuantilesOf reads the quantiles that a page shows from two sketches.
func QuantilesOf(ttft, tpot *workload.Sketch) []Quantile {
	var out []Quantile
	for _, q := range []float64{0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1} {
		out = append(out, Quantile{Share: q, TTFTNs: ttft.Quantile(q), TPOTNs: tpot.Quantile(q)})
	}
	return out
}

// DeviceSeries is what one device did and held over a run.
type DeviceSeries struct {
	ID            string         `json:"id"`
	CapacityBytes int64          `json:"capacityBytes"`
	Samples       []DeviceSample `json:"samples"` // one for each of Run.AtNs
}

// DeviceSample is a device during one sample: time by tenant (what is left to 1 was idle) and memory at the sample's end (what is left of the capacity was free).
type DeviceSample struct {
	Time           []TenantTime `json:"time,omitempty"` // tenants without a share left out
	WeightsBytes   int64        `json:"weightsBytes"`
	KVBytes        int64        `json:"kvBytes"`
	WorkspaceBytes int64        `json:"workspaceBytes"`
	StagingBytes   int64        `json:"stagingBytes"`
}

// TenantTime is the share of a sample that a device worked for a tenant.
type TenantTime struct {
	Tenant   int     `json:"tenant"`   // of Run.Tenants
	Busy     float64 `json:"busy"`     // 0 to 1
	Borrowed float64 `json:"borrowed"` // the part of Busy on a device that isn't the tenant's own
}

// PlanEntry is one decision.
type PlanEntry struct {
	AtNs   int64  `json:"atNs"`
	Kind   string `json:"kind"`   // as in planner.Decision
	Tenant int    `json:"tenant"` // of Run.Tenants; -1 where it concerns no single one
	Reason string `json:"reason"`
	// ForecastGoodTokens is how many more tokens within SLA were forecast until HorizonNs after AtNs; HorizonNs is 0 where nothing was forecast.
	ForecastGoodTokens float64 `json:"forecastGoodTokens"`
	HorizonNs          int64   `json:"horizonNs"`
	// OutcomeGoodTokens is what the decision brought, nil where that wasn't measured.
	OutcomeGoodTokens *float64 `json:"outcomeGoodTokens,omitempty"`
	Applied           bool     `json:"applied"`
	Refusal           string   `json:"refusal,omitempty"` // why it wasn't applied
}

// Variant is the subject changed in one way, on one scenario.
type Variant struct {
	Name     string `json:"name"` // "without borrow-attention", "costs wrong by 30 %"
	Scenario string `json:"scenario"`
	Figures
	MemoryViolations int64 `json:"memoryViolations"`
}

// Table is a table as it is shown and written.
type Table struct {
	Name    string     `json:"name"` // of its CSV file without the ending
	Title   string     `json:"title"`
	Note    string     `json:"note,omitempty"`
	Columns []Column   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// Column is a column of a table.
type Column struct {
	Name     string `json:"name"`               // with its unit
	Number   bool   `json:"number"`             // its cells are numbers, or empty
	Decimals int    `json:"decimals,omitempty"` // that a page shows of a number, files have them all; 0: cells are shown as they stand
}
