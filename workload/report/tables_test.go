package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"html"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"slicescheduler/workload"
)

// tiny is a report in which every number is there only once, so that each can be sought in the tables.
func tiny() *Report {
	outcome := 1013.5
	return &Report{
		Title: "tiny", ViolationsPct: 9, Seeds: []uint64{3}, Policies: []Policy{{Name: "slice", Role: Subject}, {Name: "static", Role: Baseline}, {Name: "pool", Role: Bound}},
		Scenarios: []Scenario{{
			Name: "one", GoodLoad: 1.103, SaturatedLoad: 2.207, TargetRatio: 2.29,
			Results: []Result{{
				Policy: "slice", Figures: Figures{Capacity: 3.307, GoodTokensPerS: 4101.5, SaturatedTokensPerS: 5203.5, ViolationsPct: 6.31}, MemoryViolations: 17, LenderRisePoints: 0.41,
				PlanMsP99: 1.873, ForecastErrPct: 7.9, Knobs: []Knob{{"budgetMs", "2"}},
				Curve: []Point{{Load: 1.301, Seed: 31, Requests: 5501, Finished: 5409, ViolationsPct: 4.27, TokensPerS: 6101.5, GoodTokensPerS: 6007.5, MemoryViolations: 19, PlanMsP99: 1.627}},
				Run: &Run{
					Load: 1.409, Seed: 37, Tenants: []string{"a", "b"}, Quantiles: []Quantile{{Share: 0.943, TTFTNs: 417_300_000, TPOTNs: 23_710_000}}, AtNs: []int64{1_511_000_000},
					Devices: []DeviceSeries{{ID: "gpu0", CapacityBytes: 23 << 30, Samples: []DeviceSample{{
						Time: []TenantTime{{Tenant: 1, Busy: 0.613, Borrowed: 0.207}}, WeightsBytes: 13 << 30, KVBytes: 5 << 30, WorkspaceBytes: 1 << 29, StagingBytes: 1 << 28,
					}}}},
					Plans: []PlanEntry{{AtNs: 2_617_000_000, Kind: "spread", Tenant: 1, Reason: "because", ForecastGoodTokens: 907.5, HorizonNs: 8_123_000_000, OutcomeGoodTokens: &outcome, Applied: true}},
				},
			}, {Policy: "static", Figures: Figures{Capacity: 1.171, GoodTokensPerS: 3301.5, SaturatedTokensPerS: 3407.5, ViolationsPct: 12.71}, MemoryViolations: 41}},
		}},
		Ablation:   []Variant{{Name: "without spread", Scenario: "one", Figures: Figures{2.707, 2801.5, 2903.5, 8.37}, MemoryViolations: 43}},
		Robustness: []Variant{{Name: "stale", Scenario: "one", Figures: Figures{2.909, 2713.5, 2819.5, 8.51}, MemoryViolations: 47}},
	}
}

// numbersOf collects all numbers within a value, as tables write them: times in s or ms, bytes in GiB, shares in per cent. Indices and what says how a page is
// made are left out.
func numbersOf(v reflect.Value, name string, out map[string]string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			numbersOf(v.Elem(), name, out)
		}
	case reflect.Slice:
		for i := range v.Len() {
			numbersOf(v.Index(i), name, out)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i).Name; !slices.Contains([]string{"Tenant", "Seeds", "Policies"}, f) && !(name == "Report" && f == "ViolationsPct") {
				numbersOf(v.Field(i), f, out)
			}
		}
	case reflect.Int64:
		n := v.Int()
		switch {
		case strings.HasPrefix(name, "TTFT") || strings.HasPrefix(name, "TPOT"):
			out[number(float64(n)/nsPerMs)] = name
		case strings.HasSuffix(name, "Ns"):
			out[number(float64(n)/nsPerS)] = name
		case strings.HasSuffix(name, "Bytes"):
			out[number(float64(n)/bytesPerGiB)] = name
		default:
			out[strconv.FormatInt(n, 10)] = name
		}
	case reflect.Uint64:
		out[strconv.FormatUint(v.Uint(), 10)] = name
	case reflect.Float64:
		if f := v.Float(); slices.Contains([]string{"Share", "Busy", "Borrowed"}, name) {
			out[percent(f)] = name
		} else {
			out[number(f)] = name
		}
	}
}

// Every number that goes into a report is in a file beside the page, and, but for samples and single plans, in a table of the page.
func TestEveryNumberIsInATable(t *testing.T) {
	r := tiny()
	want := map[string]string{}
	numbersOf(reflect.ValueOf(r), "Report", want)
	if len(want) < 45 {
		t.Fatalf("only %d numbers to seek", len(want))
	}
	inFiles, onPage := map[string]bool{}, map[string]bool{}
	page := html.UnescapeString(rawText.ReplaceAllString(pageOfReport(t, r), ""))
	for _, table := range Tables(r) {
		for _, row := range table.Rows {
			if len(row) != len(table.Columns) {
				t.Fatalf("table %s has %d columns and a row of %d", table.Name, len(table.Columns), len(row))
			}
			for i, v := range row {
				inFiles[v] = true
				shown := cell(table.Columns[i], v)
				if onPage[v] = onPage[v] || strings.Contains(page, ">"+shown+"</td>") || strings.Contains(page, ">"+shown+"</th>"); onPage[v] || slices.Contains([]string{"samples", "plans"}, table.Name) {
					continue
				}
				t.Errorf("table %s: the page lacks %q", table.Name, shown)
			}
		}
	}
	for n, name := range want {
		if !inFiles[n] {
			t.Errorf("%s, %s, is in no table", name, n)
		}
	}
	if d := embedded(t, pageOfReport(t, r)); *d.Scenarios[0].Of["slice"].Run.Plans[0].Outcome != 1013.5 || *d.Scenarios[0].Of["slice"].Run.Plans[0].Forecast != 907.5 {
		t.Error("the plan's forecast or outcome isn't in the page's data")
	}
}

func TestRatiosAndHeadline(t *testing.T) {
	r := madeUp()
	const want = "On 4 scenarios, slice carries 2.41 to 17.9 times the load that static carries and 1.10 to 1.26 times that of the best peer with at most 9 % of requests " +
		"outside their SLA."
	if got := r.Headline(); !strings.HasPrefix(got, want) {
		t.Errorf("the headline is %q", got)
	}
	r.Scenarios = r.Scenarios[:1]
	r.Scenarios[0].Results = r.Scenarios[0].Results[:2] // slice and static
	if got := r.Headline(); got != "On 1 scenario, slice carries 2.41 times the load that static carries with at most 9 % of requests outside their SLA." {
		t.Errorf("the headline is %q", got)
	}
	rows := r.ratioTable().Rows
	if len(rows) != 3 || rows[0][3] != "2.29" || rows[0][5] != "" || math.Abs(parse(t, rows[0][2])-2.41) > 1e-3 {
		t.Errorf("ratios are %q", rows)
	}
}

// The worst ratio is told, not only the best.
func TestHeadlineTellsLosses(t *testing.T) {
	r := tiny()
	r.Scenarios[0].Results[0].Capacity = 1.0539
	if got := r.Headline(); !strings.Contains(got, "carries 0.90 times the load that static carries") {
		t.Errorf("the headline is %q", got)
	}
	if tiles := r.tiles(); len(tiles) != 1 || tiles[0].Over != "0.90×" || tiles[0].Lines[0] != "below the target of 2.29×" {
		t.Errorf("tiles are %+v", tiles)
	}
}

func parse(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestDeviceTableWeighsSamplesByTime(t *testing.T) {
	r := tiny()
	run := r.Scenarios[0].Results[0].Run
	run.AtNs = []int64{1e9, 4e9} // 1 s, 3 s
	run.Devices[0].Samples = []DeviceSample{
		{Time: []TenantTime{{Tenant: 0, Busy: 1}}, KVBytes: 9 << 30},
		{Time: []TenantTime{{Tenant: 1, Busy: 0.5, Borrowed: 0.4}}, KVBytes: 22 << 30},
	}
	row := r.deviceTable().Rows[0]
	if got := strings.Join(row[5:], " "); got != "32.5 30 37.5 23 0 22 0 0 1" {
		t.Errorf("the device is %s", got)
	}
	d := run.pageDevice(&run.Devices[0], []int{2})
	if d.Own[0] != 325 || !slices.Equal(d.Borrowed[0], []int{1, 300}) || d.KV[0] != 22<<10 {
		t.Errorf("the bin of both is %+v", d)
	}
}

// Bins and plans that a page holds are bounded; those left out are the least telling, and borrowers beyond the third are one.
func TestPageIsBounded(t *testing.T) {
	plans := make([]PlanEntry, 40)
	for i := range plans {
		plans[i] = PlanEntry{AtNs: int64(i), ForecastGoodTokens: float64(i * 7 % 40), HorizonNs: 1}
	}
	kept := telling(plans, 10)
	if len(kept) != 10 || !slices.IsSortedFunc(kept, func(a, b PlanEntry) int { return int(a.AtNs - b.AtNs) }) {
		t.Fatalf("%d are kept, or not by time", len(kept))
	}
	for _, p := range kept {
		if p.ForecastGoodTokens < 30 {
			t.Errorf("a decision that brings %g was kept", p.ForecastGoodTokens)
		}
	}
	if got := largest([]float64{1, 5, 2, 0, 4, 3}, 100); !slices.Equal(got, []int{1, 50, 4, 40, 5, 30, otherTenants, 30}) {
		t.Errorf("shares are %v", got)
	}
	run := &Run{AtNs: make([]int64, 10_000), Devices: make([]DeviceSeries, 32)}
	if ends := run.binEnds(); len(ends) != maxBinsInAll/32 || ends[len(ends)-1] != 10_000 {
		t.Errorf("%d bins up to %d", len(ends), ends[len(ends)-1])
	}
	if size := len(madeUpPage()); size > 6<<20 {
		t.Errorf("the made-up page has %d bytes", size)
	}
}

func TestCSVAndSummary(t *testing.T) {
	r := tiny()
	r.Scenarios[0].Note = "a, \"b\"\nc"
	for _, f := range Files(r)[1:] {
		var out bytes.Buffer
		if err := f.Write(&out); err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		switch f.Name {
		case "report.json":
			var back Report
			if err := json.Unmarshal(out.Bytes(), &back); err != nil || !reflect.DeepEqual(&back, r) {
				t.Errorf("report.json is not what was written: %v", err)
			}
		case "summary.json":
			var back map[string]map[string]map[string]float64
			if err := json.Unmarshal(out.Bytes(), &back); err != nil || back["one"]["slice"]["capacity"] != 3.307 || len(back["one"]["static"]) != 4 {
				t.Errorf("summary.json is %s, %v", out.String(), err)
			}
		default:
			rows, err := csv.NewReader(&out).ReadAll() // sees to it that rows are equally long
			if err != nil || len(rows) < 2 {
				t.Errorf("%s: %d rows, %v", f.Name, len(rows), err)
			}
			if f.Name == "scenarios.csv" && rows[1][5] != r.Scenarios[0].Note {
				t.Errorf("the note is %q", rows[1][5])
			}
		}
	}
}

func TestQuantilesOf(t *testing.T) {
	var ttft, tpot workload.Sketch
	for i := range 1000 {
		ttft.Add(int64(i+1) * 1e6)
		tpot.Add(int64(i+1) * 1e3)
	}
	q := QuantilesOf(&ttft, &tpot)
	for i, v := range q {
		if math.Abs(float64(v.TTFTNs)/(v.Share*1e9)-1) > 0.01 || math.Abs(float64(v.TPOTNs)/(v.Share*1e6)-1) > 0.01 || i > 0 && v.Share <= q[i-1].Share {
			t.Errorf("quantile %g is %d and %d ns", v.Share, v.TTFTNs, v.TPOTNs)
		}
	}
}

func TestNumbersAreGrouped(t *testing.T) {
	for value, want := range map[string]string{"1234": "1234", "12345": "12\u202f345", "-1234567.5": "−1\u202f234\u202f567.5", "0.1234": "0.1234", "": "", "n/a": "n/a"} {
		if got := cell(Column{Number: true}, value); got != want {
			t.Errorf("%q is shown as %q", value, got)
		}
	}
	if got := cell(decimal("", 2), "12345.678"); got != "12\u202f345.68" {
		t.Errorf("shown as %q", got)
	}
}
