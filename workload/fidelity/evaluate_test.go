package fidelity

import (
	"os"
	"path/filepath"
	"testing"
	"time"

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

func TestTable(t *testing.T) {
	dir := dataDir(t)
	var results []Result
	for _, r := range runs(t) {
		start := time.Now()
		res, err := Evaluate(filepath.Join(dir, "fidelity", r.Name), filepath.Join(dir, "profiles"))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %v, %d steps, %d leaps, %d operators", r.Name, time.Since(start), res.Totals.Steps, res.Totals.Leaps, res.Totals.Operators)
		results = append(results, res)
	}
	_ = whatif.Fast
	_ = WriteTable(os.Stdout, results)
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
		start := time.Now()
		fast, ft, err := r.simulate(tables, h, whatif.Fast)
		if err != nil {
			t.Fatal(err)
		}
		d1 := time.Since(start)
		start = time.Now()
		exact, et, err := r.simulate(tables, h, whatif.Exact)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: fast %v, exact %v, %.1f M operators/s", r.Name, d1, time.Since(start), float64(et.Operators)/time.Since(start).Seconds()/1e6)
		for i := range fast {
			if fast[i] != exact[i] {
				t.Fatalf("%s: request %d differs:\nfast  %+v\nexact %+v", r.Name, i, fast[i], exact[i])
			}
		}
		if ft.Operators != et.Operators || ft.Steps != et.Steps {
			t.Errorf("%s: fast ran %d operators in %d steps, exact %d in %d", r.Name, ft.Operators, ft.Steps, et.Operators, et.Steps)
		}
	}
}
