package report

import (
	"cmp"
	"math"
	"slices"

	"slicescheduler/workload/plot"
)

// What a page holds of runs is bounded, whatever the runs held: the files beside it hold the rest.
const (
	maxBinsInAll    = 4000 // of one run's devices together
	minBins         = 60
	maxBins         = 160
	maxTenantsInBin = 3 // those that borrowed most; the others are one
	maxPlansSubject = 1000
	maxPlansOthers  = 250
	permille        = 1000
	bytesPerMiB     = 1 << 20
	otherTenants    = -1
)

// pageData is what the page's scripts draw.
type pageData struct {
	LimitPct  float64        `json:"limitPct"`
	Policies  []pagePolicy   `json:"policies"`
	Scenarios []pageScenario `json:"scenarios"`
}

type pagePolicy struct {
	Name  string `json:"name"`
	Role  Role   `json:"role"`
	Class string `json:"class"`
}

type pageScenario struct {
	Name string            `json:"name"`
	Of   map[string]pageOf `json:"of"` // by policy
}

type pageOf struct {
	Curve *pageCurve `json:"curve,omitempty"`
	Run   *pageRun   `json:"run,omitempty"`
}

// pageCurve holds the violation rate by load, the mean over seeds.
type pageCurve struct {
	Load []float64 `json:"load"`
	Pct  []float64 `json:"pct"`
}

type pageRun struct {
	Load    float64      `json:"load"`
	Seed    uint64       `json:"seed"`
	Tenants []string     `json:"tenants"`
	Share   []float64    `json:"share,omitempty"` // per cent
	TTFTMs  []float64    `json:"ttftMs,omitempty"`
	TPOTMs  []float64    `json:"tpotMs,omitempty"`
	AtS     []float64    `json:"atS,omitempty"` // ends of bins
	Devices []pageDevice `json:"devices,omitempty"`
	Plans   []pagePlan   `json:"plans,omitempty"`
	Decided int          `json:"decided"` // of which Plans are the most telling
	Kinds   []pageKind   `json:"kinds,omitempty"`
}

// pageDevice holds one value a bin. Times are permilles of the bin; memory is in MiB, of the bin's fullest sample.
type pageDevice struct {
	ID        string  `json:"id"`
	Capacity  int64   `json:"capacity"`
	Own       []int   `json:"own"`
	Borrowed  [][]int `json:"borrowed"` // tenant, permille, tenant, permille ..; tenant -1 for all others
	Weights   []int64 `json:"weights"`
	KV        []int64 `json:"kv"`
	Workspace []int64 `json:"workspace"`
	Staging   []int64 `json:"staging"`
}

// pageKind sums up all decisions of a kind; forecast and outcome are of those that have both.
type pageKind struct {
	Kind     string  `json:"kind"`
	Decided  int     `json:"decided"`
	Applied  int     `json:"applied"`
	Scored   int     `json:"scored"`
	Forecast float64 `json:"forecast"`
	Outcome  float64 `json:"outcome"`
}

type pagePlan struct {
	AtS      float64  `json:"s"`
	Kind     string   `json:"k"`
	Tenant   int      `json:"t"`
	Reason   string   `json:"r"`
	Forecast *float64 `json:"f,omitempty"`
	HorizonS float64  `json:"h,omitempty"`
	Outcome  *float64 `json:"o,omitempty"`
	Applied  bool     `json:"a,omitempty"`
	Refusal  string   `json:"x,omitempty"`
}

func (r *Report) pageData() pageData {
	d := pageData{LimitPct: plot.Finite(r.ViolationsPct), Policies: []pagePolicy{}, Scenarios: []pageScenario{}}
	for _, p := range r.policies() {
		d.Policies = append(d.Policies, pagePolicy{Name: p.Name, Role: r.role(p.Name), Class: r.class(p.Name)})
	}
	for i := range r.Scenarios {
		s := pageScenario{Name: r.Scenarios[i].Name, Of: map[string]pageOf{}}
		for _, res := range r.Scenarios[i].Results {
			limit := maxPlansOthers
			if r.role(res.Policy) == Subject {
				limit = maxPlansSubject
			}
			s.Of[res.Policy] = pageOf{Curve: pageCurveOf(res.Curve), Run: pageRunOf(res.Run, limit)}
		}
		d.Scenarios = append(d.Scenarios, s)
	}
	return d
}

// pageCurveOf averages runs of equal load.
func pageCurveOf(points []Point) *pageCurve {
	if len(points) == 0 {
		return nil
	}
	points = slices.Clone(points)
	slices.SortStableFunc(points, func(a, b Point) int { return cmp.Compare(a.Load, b.Load) })
	c := &pageCurve{}
	for i := 0; i < len(points); {
		sum, n := 0.0, 0
		for ; i+n < len(points) && points[i+n].Load == points[i].Load; n++ {
			sum += points[i+n].ViolationsPct
		}
		c.Load = append(c.Load, plot.Finite(points[i].Load))
		c.Pct = append(c.Pct, plot.Thousandth(sum/float64(n)))
		i += n
	}
	return c
}

func pageRunOf(run *Run, maxPlans int) *pageRun {
	if run == nil {
		return nil
	}
	out := &pageRun{Load: plot.Finite(run.Load), Seed: run.Seed, Tenants: run.Tenants, Decided: len(run.Plans)}
	for _, q := range run.Quantiles {
		out.Share = append(out.Share, plot.Thousandth(q.Share*100))
		out.TTFTMs = append(out.TTFTMs, plot.Thousandth(float64(q.TTFTNs)/nsPerMs))
		out.TPOTMs = append(out.TPOTMs, plot.Thousandth(float64(q.TPOTNs)/nsPerMs))
	}
	ends := run.binEnds()
	for _, k := range ends {
		out.AtS = append(out.AtS, plot.Thousandth(float64(run.AtNs[k-1])/nsPerS))
	}
	for i := range run.Devices {
		out.Devices = append(out.Devices, run.pageDevice(&run.Devices[i], ends))
	}
	out.addPlans(run, maxPlans)
	return out
}

func (out *pageRun) addPlans(run *Run, most int) {
	for _, k := range run.kindSums() {
		out.Kinds = append(out.Kinds, pageKind{k.kind, k.decided, k.applied, k.scored, plot.Thousandth(k.forecast), plot.Thousandth(k.outcome)})
	}
	for _, p := range telling(run.Plans, most) {
		q := pagePlan{AtS: plot.Thousandth(float64(p.AtNs) / nsPerS), Kind: p.Kind, Tenant: p.Tenant, Reason: p.Reason, Applied: p.Applied, Refusal: p.Refusal}
		if p.HorizonNs != 0 {
			forecast := plot.Thousandth(p.ForecastGoodTokens)
			q.Forecast, q.HorizonS = &forecast, plot.Thousandth(float64(p.HorizonNs)/nsPerS)
		}
		if p.OutcomeGoodTokens != nil {
			outcome := plot.Thousandth(*p.OutcomeGoodTokens)
			q.Outcome = &outcome
		}
		out.Plans = append(out.Plans, q)
	}
}

// binEnds cuts the samples into bins of equal numbers of samples and returns each bin's end.
func (run *Run) binEnds() []int {
	if len(run.Devices) == 0 || len(run.AtNs) == 0 {
		return nil
	}
	bins := min(len(run.AtNs), max(minBins, min(maxBins, maxBinsInAll/len(run.Devices))))
	ends := make([]int, bins)
	for i := range ends {
		ends[i] = (i + 1) * len(run.AtNs) / bins
	}
	return ends
}

// pageDevice sums up a device's samples by bin; bins past the device's last sample are empty.
func (run *Run) pageDevice(d *DeviceSeries, ends []int) pageDevice {
	out := pageDevice{ID: d.ID, Capacity: d.CapacityBytes / bytesPerMiB}
	for i, end := range ends {
		begin := 0
		if i > 0 {
			begin = ends[i-1]
		}
		end = min(end, len(d.Samples))
		own, lent := 0.0, make([]float64, len(run.Tenants))
		var total float64
		fullest := -1
		for k := begin; k < end; k++ {
			ns := float64(run.sampleNs(k))
			total += ns
			for _, t := range d.Samples[k].Time {
				own += (t.Busy - t.Borrowed) * ns
				if t.Tenant >= 0 && t.Tenant < len(lent) {
					lent[t.Tenant] += t.Borrowed * ns
				}
			}
			if fullest < 0 || d.freeBytes(k) < d.freeBytes(fullest) {
				fullest = k
			}
		}
		var m DeviceSample
		if fullest >= 0 {
			m = d.Samples[fullest]
		}
		out.Own = append(out.Own, shareOf(own, total))
		out.Borrowed = append(out.Borrowed, largest(lent, total))
		out.Weights = append(out.Weights, m.WeightsBytes/bytesPerMiB)
		out.KV = append(out.KV, m.KVBytes/bytesPerMiB)
		out.Workspace = append(out.Workspace, m.WorkspaceBytes/bytesPerMiB)
		out.Staging = append(out.Staging, m.StagingBytes/bytesPerMiB)
	}
	return out
}

func shareOf(ns, total float64) int {
	if total <= 0 || ns <= 0 {
		return 0
	}
	return int(math.Round(permille * min(1, ns/total)))
}

// largest returns the tenants with the largest shares of a bin, as pageDevice.Borrowed has them.
func largest(ns []float64, total float64) []int {
	out := []int{}
	for range maxTenantsInBin {
		at := -1
		for t, v := range ns {
			if v > 0 && (at < 0 || v > ns[at]) {
				at = t
			}
		}
		if at < 0 {
			return out
		}
		if p := shareOf(ns[at], total); p > 0 {
			out = append(out, at, p)
		}
		ns[at] = 0
	}
	rest := 0.0
	for _, v := range ns {
		rest += v
	}
	if p := shareOf(rest, total); p > 0 {
		out = append(out, otherTenants, p)
	}
	return out
}

// telling returns at most n decisions by time: those that were forecast to bring, or brought, most.
func telling(plans []PlanEntry, n int) []PlanEntry {
	if len(plans) <= n {
		return plans
	}
	weight := func(p *PlanEntry) float64 {
		w := math.Abs(p.ForecastGoodTokens)
		if p.OutcomeGoodTokens != nil {
			w = max(w, math.Abs(*p.OutcomeGoodTokens))
		}
		return w
	}
	at := make([]int, len(plans))
	for i := range at {
		at[i] = i
	}
	slices.SortStableFunc(at, func(a, b int) int { return cmp.Compare(weight(&plans[b]), weight(&plans[a])) })
	at = at[:n]
	slices.Sort(at)
	out := make([]PlanEntry, n)
	for i, k := range at {
		out[i] = plans[k]
	}
	return out
}
