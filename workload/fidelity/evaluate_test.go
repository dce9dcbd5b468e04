package fidelity

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slicescheduler/whatif"
)

// dataDir is where recordings and tables lie, or the test is skipped.
func dataDir(t testing.TB) string {
	dir := os.Getenv("SLICER_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared")
	}
	if _, err := os.Stat(filepath.Join(dir, "fidelity")); err != nil {
		t.Skipf("no recordings under %s; set SLICER_DATA to where they are", dir)
	}
	return dir
}

func runs(t testing.TB) []*Run {
	dirs, err := filepath.Glob(filepath.Join(dataDir(t), "fidelity", "*"))
	if err != nil || len(dirs) == 0 {
		t.Skip("no recordings")
	}
	var out []*Run
	for _, d := range dirs {
		r, err := Load(d)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// The simulator against every recorded run: means of TTFT, TPOT and latency within 1 %, single requests' latency within 1 % (median) and 3 % (P95), and no
// mean or percentile worse than the published simulator's by more than 0.2 points.
func TestRecordedRuns(t *testing.T) {
	dir := dataDir(t)
	for _, r := range runs(t) {
		res, err := Evaluate(filepath.Join(dir, "fidelity", r.Name), filepath.Join(dir, "profiles"))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range res.Metrics {
			if math.Abs(m.ErrPct) > 1 {
				t.Errorf("%s: the mean %s is off by %+.2f %%", r.Name, m.Name, m.ErrPct)
			}
			for _, s := range m.Statistics {
				if worse := math.Abs(s.ErrPct) - math.Abs(s.PublishedErrPct); s.Published > 0 && worse > 0.2 {
					t.Errorf("%s: %s %s is off by %+.2f %%, the published simulator's by %+.2f %%", r.Name, m.Name, s.Name, s.ErrPct, s.PublishedErrPct)
				}
			}
		}
		if l := res.Metrics[2]; l.PerRequestP50Pct > 1 || l.PerRequestP95Pct > 3 {
			t.Errorf("%s: latency of single requests is off by %.2f %% (median) and %.2f %% (P95)", r.Name, l.PerRequestP50Pct, l.PerRequestP95Pct)
		}
		checkOutputs(t, res)
		var trace bytes.Buffer
		if err := WriteRequestTrace(filepath.Join(dir, "fidelity", r.Name), filepath.Join(dir, "profiles"), &trace); err != nil || !json.Valid(trace.Bytes()) {
			t.Errorf("%s: the trace is no JSON (%d bytes), %v", r.Name, trace.Len(), err)
		}
	}
}

// checkOutputs looks at what programs read of a result.
func checkOutputs(t *testing.T, res Result) {
	data, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Run     string
		Latency struct{ Real, Sim, ErrPct, PerRequestP50Pct, PerRequestP95Pct float64 }
	}
	if err := json.Unmarshal(data, &v); err != nil || v.Run != res.Run || v.Latency.Real != res.Metrics[2].Real || v.Latency.PerRequestP95Pct == 0 {
		t.Errorf("JSON says %+v, %v", v, err)
	}
}

func TestLoadSaysWhatIsWrong(t *testing.T) {
	if _, err := Load(t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty folder gave %v", err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("engine.json", `{"engine_kwargs":{},"cluster":{"nodes":[]}}`)
	if _, err := Load(dir); !errors.Is(err, ErrRun) || !strings.Contains(err.Error(), "hardware is unknown") {
		t.Errorf("a run without hardware gave %v", err)
	}
	write("engine.json", `{"engine_kwargs":{},"cluster":{"nodes":[{"instances":[{"hardware":"RTX4090"}]}]}}`)
	write("workload.jsonl", `{"arrival_ns":0,"input_tokens":1,"output_tokens":1}`+"\n{oops\n")
	if _, err := Load(dir); !errors.Is(err, ErrRun) || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a broken line gave %v", err)
	}
	write("workload.jsonl", `{"arrival_ns":0,"input_tokens":1,"output_tokens":1}`)
	write("vllm-requests.jsonl", "")
	if _, err := Load(dir); !errors.Is(err, ErrRun) {
		t.Errorf("fewer answers than requests gave %v", err)
	}
}

// Both modes must give the same bytes on real workloads.
func TestExactEqualsFast(t *testing.T) {
	for _, r := range runs(t) {
		h, err := whatif.FindHardware(r.Engine.Hardware)
		if err != nil {
			t.Fatal(err)
		}
		tables, err := r.tables(filepath.Join(dataDir(t), "profiles"))
		if err != nil {
			t.Fatal(err)
		}
		fast, ft, fastSeries, err := r.simulate(tables, h, whatif.Fast)
		if err != nil {
			t.Fatal(err)
		}
		exact, et, exactSeries, err := r.simulate(tables, h, whatif.Exact)
		if err != nil {
			t.Fatal(err)
		}
		for i := range fast {
			if fast[i] != exact[i] {
				t.Fatalf("%s: request %d differs:\nfast  %+v\nexact %+v", r.Name, i, fast[i], exact[i])
			}
		}
		if !slices.Equal(fastSeries, exactSeries) {
			t.Errorf("%s: the time series differ", r.Name)
		}
		if ft.Operators != et.Operators || ft.Steps != et.Steps {
			t.Errorf("%s: fast ran %d operators in %d steps, exact %d in %d", r.Name, ft.Operators, ft.Steps, et.Operators, et.Steps)
		}
	}
}

// Where a recording tells how many KV pages there were, the estimate for those that don't comes within 1 %.
func TestPagesEstimated(t *testing.T) {
	for _, r := range runs(t) {
		if r.Engine.KVBlocks == 0 {
			continue
		}
		h, err := whatif.FindHardware(r.Engine.Hardware)
		if err != nil {
			t.Fatal(err)
		}
		a, err := whatif.FindArchitecture(r.Engine.Model)
		if err != nil {
			t.Fatal(err)
		}
		want := r.Engine.KVBlocks
		r.Engine.KVBlocks, r.Engine.MemoryBytes = 0, 0
		if got := r.batching(a, h, 1, 1).KVBlocks + 1; math.Abs(float64(got)/float64(want)-1) > 0.01 {
			t.Errorf("%s: estimated %d pages, there were %d", r.Name, got, want)
		}
	}
}
