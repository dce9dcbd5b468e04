package cli

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	madeUp         = "../../../../workload/fidelity/testdata/made-up"
	madeUpProfiles = "../../../../workload/fidelity/testdata/profiles"
	fidelityGolden = "testdata/fidelity.txt"
)

type called struct {
	status   int
	out, err string
}

// call runs a command line in an environment of its own.
func call(t *testing.T, env map[string]string, args ...string) called {
	t.Helper()
	var out, errs bytes.Buffer
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	status := Run(t.Context(), args, Streams{In: strings.NewReader(""), Out: &out, Err: &errs, Lookup: lookup, Start: time.Time{}})
	return called{status, out.String(), errs.String()}
}

// The table of a small recording; SLICER_UPDATE=1 writes it anew.
func TestFidelityTable(t *testing.T) {
	got := call(t, nil, "fidelity", "--profiles", madeUpProfiles, madeUp)
	if got.status != exitOK {
		t.Fatalf("status %d, %s", got.status, got.err)
	}
	if os.Getenv("SLICER_UPDATE") != "" {
		if err := os.MkdirAll(filepath.Dir(fidelityGolden), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(fidelityGolden, []byte(got.out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(fidelityGolden)
	if err != nil || got.out != string(want) {
		t.Errorf("the table is\n%s\nwant\n%s\n%v", got.out, want, err)
	}
	for line := range strings.Lines(got.out) {
		if len(line) > 81 || strings.Contains(line, "\x1b") {
			t.Errorf("%q is no plain line of 80 columns", line)
		}
	}
}

type fidelityMetric struct {
	Real, Sim, ErrPct, PerRequestP50Pct, PerRequestP95Pct *float64
}

type fidelityRun struct {
	Run                 string
	TTFT, TPOT, Latency fidelityMetric
}

func fidelityJSON(t *testing.T, text string) []fidelityRun {
	t.Helper()
	var runs []fidelityRun
	if err := json.Unmarshal([]byte(text), &runs); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return runs
}

// A program reads an array, whose tables come from SLICER_DATA here.
func TestFidelityJSON(t *testing.T) {
	env := map[string]string{"SLICER_DATA": filepath.Dir(madeUpProfiles)}
	got := call(t, env, "fidelity", "--json", madeUp, madeUp)
	runs := fidelityJSON(t, got.out)
	if got.status != exitOK || len(runs) != 2 || runs[0].Run != "made-up" {
		t.Fatalf("status %d, %+v, %s", got.status, runs, got.err)
	}
	for _, m := range []fidelityMetric{runs[0].TTFT, runs[0].TPOT, runs[0].Latency} {
		if m.Real == nil || m.Sim == nil || m.ErrPct == nil || m.PerRequestP50Pct == nil || m.PerRequestP95Pct == nil {
			t.Fatalf("a field is missing: %s", got.out)
		}
		if want := (*m.Sim / *m.Real - 1) * 100; math.Abs(*m.ErrPct-want) > 1e-6 || *m.PerRequestP50Pct > *m.PerRequestP95Pct {
			t.Errorf("error is %g %%, want %g %%; single requests %g %% and %g %%", *m.ErrPct, want, *m.PerRequestP50Pct, *m.PerRequestP95Pct)
		}
	}
	if real := *runs[0].Latency.Real; math.Abs(real-200) > 0.01 {
		t.Errorf("recorded latencies are 200 ms, JSON says %g", real)
	}
}

// copyRun copies the small recording, changing its engine.json.
func copyRun(t *testing.T, name, old, new string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.CopyFS(dir, os.DirFS(madeUp)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "engine.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(data, []byte(old), []byte(new)), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// What is wrong is named together with what to do.
func TestFidelitySaysWhatIsWrong(t *testing.T) {
	lacking := copyRun(t, "lacking", "", "")
	if err := os.Remove(filepath.Join(lacking, "workload.jsonl")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		dir, says string
	}{
		"no recording":     {t.TempDir(), "is no recorded run"},
		"absent":           {"nowhere", "nowhere"},
		"a file":           {fidelityGolden, "name the directory"},
		"a missing file":   {lacking, "lacks workload.jsonl"},
		"unknown hardware": {copyRun(t, "abacus", "A100", "ABACUS"), "hardware known here: [RTX4090"},
		"unknown model":    {copyRun(t, "parrot", "Llama-3.1-8B", "parrot"), "parrot"},
		"no tables":        {copyRun(t, "h100", "A100", "H100"), "--profiles"},
		"not JSON":         {copyRun(t, "broken", "{", "["), "engine.json"},
	} {
		got := call(t, nil, "fidelity", "--profiles", madeUpProfiles, c.dir, madeUp)
		if got.status != exitFailed || !strings.Contains(got.err, c.says) || !strings.Contains(got.err, "1 of 2 runs") {
			t.Errorf("%s: status %d, %q; want %q", name, got.status, got.err, c.says)
		}
		if !strings.Contains(got.out, "Latency P99") {
			t.Errorf("%s: the other run is not shown", name)
		}
	}
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"fidelity"}, exitUsage, "name the directories"},
		{[]string{"fidelity", "--cross", "--json", madeUp}, exitUsage, "--cross"},
		{[]string{"fidelity", "--cross", madeUp}, exitUsage, "two directories"},
		{[]string{"fidelity", "--cross", "--profiles", madeUpProfiles, madeUp, lacking}, exitFailed, "lacks workload.jsonl"},
		{[]string{"fidelity", "--profiles", "nowhere", madeUp}, exitFailed, "SLICER_DATA"},
		{[]string{"fidelity", "--profiles", madeUpProfiles, "--out", fidelityGolden, madeUp}, exitFailed, "directory for the report"},
	} {
		if got := call(t, nil, c.args...); got.status != c.status || !strings.Contains(got.err, c.says) {
			t.Errorf("%v: status %d, %q; want %q", c.args, got.status, got.err, c.says)
		}
	}
	got := call(t, nil, "fidelity", "--json", "--profiles", madeUpProfiles, t.TempDir())
	if runs := fidelityJSON(t, got.out); got.status != exitFailed || runs == nil || len(runs) != 0 {
		t.Errorf("without a good run JSON is %q, status %d", got.out, got.status)
	}
}

// A report holds a page and a trace for each run, also for two of one name.
func TestFidelityReport(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "report")
	got := call(t, nil, "fidelity", "--profiles", madeUpProfiles, "--out", dir, madeUp, madeUp)
	if got.status != exitOK {
		t.Fatalf("status %d, %s", got.status, got.err)
	}
	for _, name := range []string{"made-up.html", "made-up.trace.json", "made-up-2.html", "made-up-2.trace.json"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || len(data) == 0 || !strings.Contains(got.out, name) {
			t.Errorf("%s: %d bytes, %v, printed: %v", name, len(data), err, strings.Contains(got.out, name))
		}
		if strings.HasSuffix(name, ".json") && !json.Valid(data) {
			t.Errorf("%s is no JSON", name)
		}
	}
}

// Each run is left out in turn and its errors are printed.
func TestFidelityCrossCheck(t *testing.T) {
	got := call(t, nil, "fidelity", "--cross", "--profiles", madeUpProfiles, madeUp, copyRun(t, "other", "", ""))
	for _, want := range []string{"fitted to all", "without made-up", "without other", "Latency"} {
		if got.status != exitOK || !strings.Contains(got.out, want) {
			t.Errorf("status %d, %q lacks %q, %s", got.status, got.out, want, got.err)
		}
	}
}

// Recorded runs of real servers: the means are within 1 %.
func TestFidelityOfRecordedRuns(t *testing.T) {
	data := os.Getenv("SLICER_DATA")
	if data == "" {
		data = "../../../../../shared"
	}
	dirs, err := filepath.Glob(filepath.Join(data, "fidelity", "*"))
	if err != nil || len(dirs) == 0 {
		t.Skipf("no recordings under %s; set SLICER_DATA to where they are", data)
	}
	got := call(t, map[string]string{"SLICER_DATA": data}, append([]string{"fidelity", "--json"}, dirs...)...)
	runs := fidelityJSON(t, got.out)
	if got.status != exitOK || len(runs) != len(dirs) {
		t.Fatalf("status %d, %d of %d runs, %s", got.status, len(runs), len(dirs), got.err)
	}
	for _, r := range runs {
		for name, m := range map[string]fidelityMetric{"TTFT": r.TTFT, "TPOT": r.TPOT, "latency": r.Latency} {
			if m.ErrPct == nil || math.Abs(*m.ErrPct) > 1 {
				t.Errorf("%s: the mean %s is off by %v %%", r.Run, name, m.ErrPct)
			}
		}
	}
}
