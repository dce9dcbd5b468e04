package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tinyScenario is a scenario that is over in a moment.
func tinyScenario(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tiny.yaml")
	text := "name: tiny\ndevices: {kind: RTX4090, count: 2}\ntenants: {model: Llama-3.1-8B}\nwindowS: 30\ndrainS: 300\n" +
		"trace: {generate: {seed: 1, tenants: 2, ratePerS: 2, pattern: poisson, prompt: {median: 200, sigma: 1, max: 2000}, output: {median: 50, sigma: 1, max: 400}}}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReplayPrintsWhatItPromises(t *testing.T) {
	got := call(t, nil, "replay", tinyScenario(t), "--policy", "static,spread", "--plan-cost", "fixed:1ms", "--json")
	if got.status != exitOK {
		t.Fatalf("status %d, %s", got.status, got.err)
	}
	var runs []struct {
		Scenario, Policy   string
		Requests, Finished int64
	}
	if err := json.Unmarshal([]byte(got.out), &runs); err != nil {
		t.Fatal(err)
	}
	if len(runs) != 2 || runs[0].Scenario != "tiny" || runs[1].Policy != "spread" || runs[0].Requests < 30 || runs[0].Finished != runs[0].Requests {
		t.Errorf("%+v", runs)
	}
}

func TestSweepLeavesTablesAndAPage(t *testing.T) {
	dir, scenario := filepath.Join(t.TempDir(), "out"), tinyScenario(t)
	args := []string{"replay", scenario, "--sweep", "--policy", "static,pool", "--seeds", "1", "--plan-cost", "fixed:1ms", "--out", dir}
	first := call(t, nil, args...)
	if first.status != exitOK || !strings.Contains(first.out, "x STATIC") {
		t.Fatalf("status %d, %s%s", first.status, first.out, first.err)
	}
	runs := lines(t, filepath.Join(dir, "runs.jsonl"))
	var summary map[string]map[string]map[string]float64
	data, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	if err == nil {
		err = json.Unmarshal(data, &summary)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"capacity", "goodTokensPerS", "saturatedTokensPerS", "violationsPct"} {
		if _, ok := summary["tiny"]["pool"][name]; !ok {
			t.Errorf("summary.json has no %s: %s", name, data)
		}
	}
	if summary["tiny"]["static"]["capacity"] <= 0 {
		t.Errorf("%s", data)
	}
	for _, name := range []string{"report.html", "report.json", "tiny.trace.json"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	again := call(t, nil, args...)
	// Only the run that is shown in detail is done again, as its detail isn't kept.
	if now := lines(t, filepath.Join(dir, "runs.jsonl")); again.status != exitOK || again.out != first.out || now > runs+2 {
		t.Errorf("the same command did %d runs more, and prints\n%s\nbefore\n%s", now-runs, again.out, first.out)
	}
}

func lines(t *testing.T, path string) int {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(data), "\n")
}

func TestSizeNamesTheSmallestCluster(t *testing.T) {
	got := call(t, nil, "size", tinyScenario(t), "--policy", "static", "--seeds", "1")
	if got.status != exitOK || !strings.Contains(got.out, "tiny needs 2 x RTX4090 under static") {
		t.Errorf("status %d, %s%s", got.status, got.out, got.err)
	}
}

func TestReplayNamesWhatIsWrong(t *testing.T) {
	scenario := tinyScenario(t)
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"replay", exitUsage, "name one scenario"},
		{"replay nothing-of-that-name", exitFailed, "nothing-of-that-name"},
		{"replay " + scenario + " --policy best", exitFailed, "best"},
		{"replay " + scenario + " --knob budget", exitUsage, "NAME=VALUE"},
		{"replay " + scenario + " --knob budget=-1", exitFailed, "budget"},
		{"replay " + scenario + " --load 0", exitUsage, "load 0"},
		{"replay " + scenario + " --plan-cost free", exitUsage, "fixed:1ms"},
		{"replay " + scenario + " --devices 4", exitUsage, "KIND*N"},
		{"replay " + scenario + " --trace no.csv", exitFailed, "no.csv"},
		{"size", exitUsage, "name one scenario"},
	} {
		got := call(t, nil, strings.Fields(c.args)...)
		if got.status != c.status || !strings.Contains(got.err, c.want) || got.out != "" {
			t.Errorf("%s: status %d, want %d and %q in\n%s%s", c.args, got.status, c.status, c.want, got.err, got.out)
		}
	}
}
