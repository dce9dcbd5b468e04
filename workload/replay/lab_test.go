package replay

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slicescheduler/planner"
	"slicescheduler/workload/report"
)

func newLab(t *testing.T, dir string, seeds ...uint64) *Lab {
	t.Helper()
	s, err := OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
	return &Lab{Store: s, Seeds: seeds}
}

func TestCapacityIsTheLastLoadThatIsCarried(t *testing.T) {
	p := openSetup(t, small(t, 2, 2, 6, 200, ""))
	lab := newLab(t, "", 1, 2)
	for _, hint := range []float64{0.02, 1, 50} {
		c, err := lab.Capacity(p, fixed("static", 1), hint)
		if err != nil {
			t.Fatal(err)
		}
		for load, want := range map[float64]bool{c.Load: true, c.Load * gridStep: false} {
			sum := 0.0
			for _, seed := range lab.Seeds {
				o := fixed("static", load)
				o.Seed = seed
				sum += mustRun(t, p, o).ViolationsPct
			}
			if carried := sum/2 <= LimitPct; carried != want {
				t.Errorf("from %g: capacity %g (%.2f %%), but at %g violations are %.2f %%", hint, c.Load, c.ViolationsPct, load, sum/2)
			}
		}
	}
}

// tinySweep compares two policies on a small scenario.
func tinySweep(t *testing.T, dir string, stopAfter int) (*Sweep, *int) {
	fresh := 0
	lab := newLab(t, dir, 1)
	lab.Done = func(_ *Result, known bool) {
		if !known {
			fresh++
		}
	}
	s := &Sweep{
		Setups: []*Setup{openSetup(t, small(t, 2, 2, 4, 60, ""))}, Policies: []string{"static", "spread", "pool"}, Lab: lab, Workers: 1, Base: fixed("", 1),
		Grid: func(policy string) []planner.Knobs {
			if policy == "static" {
				return []planner.Knobs{{"budget": 512}, {"budget": 2048}}
			}
			return []planner.Knobs{{}}
		},
	}
	s.Base.Interrupted = func() bool { return stopAfter > 0 && fresh >= stopAfter }
	return s, &fresh
}

func TestInterruptedSweepGoesOn(t *testing.T) {
	whole, wholeRuns := tinySweep(t, "", 0)
	want, err := whole.Run()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	first, before := tinySweep(t, dir, 9)
	if _, err := first.Run(); !errors.Is(err, ErrInterrupted) {
		t.Fatalf("the sweep ended with %v", err)
	}
	if err := first.Lab.Store.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, runsFile)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(data, `{"key":"cut of`...), 0o600); err != nil {
		t.Fatal(err)
	}
	second, after := tinySweep(t, dir, 0)
	got, err := second.Run()
	if err != nil {
		t.Fatal(err)
	}
	if *before != 9 || *before+*after != *wholeRuns {
		t.Errorf("%d runs before the interruption and %d after, %d without one", *before, *after, *wholeRuns)
	}
	a, b := report.Summary(whole.Report(want, "")), report.Summary(second.Report(got, ""))
	x, y := mustJSON(t, a), mustJSON(t, b)
	if x != y {
		t.Errorf("figures differ:\n%s\n%s", x, y)
	}
	if c := got[0].Of("static").Capacity.Load; c <= 0 || got[0].GoodLoad != goodFactor*c || got[0].SaturatedLoad != got[0].Of("pool").Capacity.Load {
		t.Errorf("capacity %g, goodput at %g, saturated at %g", c, got[0].GoodLoad, got[0].SaturatedLoad)
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestBrokenStoreIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), runsFile)
	if err := os.WriteFile(path, []byte("{}\nnonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenStore(filepath.Dir(path)); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("%v", err)
	}
}

func TestSizeAgreesWithTryingAll(t *testing.T) {
	for _, c := range []struct {
		tenants, devices int
		rate             float64
		policy           string
	}{
		{1, 1, 2, "static"}, {2, 3, 4, "static"}, {3, 2, 20, "replicas"}, {2, 1, 30, "pool"}, {3, 5, 12, "spread"}, {2, 3, 25, "spread"},
	} {
		s := small(t, c.tenants, c.devices, c.rate, 30, "")
		p := openSetup(t, s)
		lab := newLab(t, "", 1)
		const largest = 10
		got, tries, err := lab.Size(p, fixed(c.policy, 1), largest)
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		for n := 1; n <= largest && want == 0; n++ {
			try, err := lab.suffices(p, fixed(c.policy, 1), n)
			if err != nil {
				t.Fatal(err)
			}
			if try.Fits {
				want = n
			}
		}
		if got != want {
			t.Errorf("%+v: the search says %d after %+v, trying all says %d", c, got, tries, want)
		}
		t.Logf("%+v needs %d", c, got)
	}
}

func TestTablesHaveTheColumnsTheySay(t *testing.T) {
	p := openSetup(t, small(t, 2, 2, 3, 30, ""))
	o := fixed("static", 1)
	o.Knobs = planner.Knobs{"budget": 512}
	r := mustRun(t, p, o)
	for name, c := range map[string]struct {
		write func(*strings.Builder) error
		rows  int
	}{
		"runs":    {func(b *strings.Builder) error { return WriteRunsCSV(b, []*Result{r, r}) }, 3},
		"tenants": {func(b *strings.Builder) error { return WriteTenantsCSV(b, []*Result{r}) }, 3},
	} {
		var b strings.Builder
		if err := c.write(&b); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(b.String())).ReadAll() // which fails where a row has another length than the header
		if err != nil || len(rows) != c.rows {
			t.Errorf("%s: %d rows, %v:\n%s", name, len(rows), err, b.String())
		}
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(mustJSON(t, r)), &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"scenario", "policy", "load", "seed", "requests", "finished", "violationsPct", "tokensPerS", "goodTokensPerS", "memoryViolations", "planMsP99"} {
		if _, ok := fields[name]; !ok {
			t.Errorf("a run's JSON has no %s", name)
		}
	}
}

func TestKnobsAreTunedOnTheOtherPiece(t *testing.T) {
	s, _ := tinySweep(t, "", 0)
	var parts []Part
	s.Lab.Done = func(r *Result, _ bool) { parts = append(parts, r.Part) }
	if _, _, err := s.Lab.Tune(s.Setups[0], fixed("static", 1), s.Grid("static"), 1); err != nil {
		t.Fatal(err)
	}
	if len(parts) == 0 || slices.Contains(parts, Scored) {
		t.Errorf("runs on %v", parts)
	}
}
