package fidelity

import (
	"os"
	"path/filepath"
	"testing"
)

// TestShow prints the comparison of all recorded runs when asked for.
func TestShow(t *testing.T) {
	if os.Getenv("SLICER_SHOW") == "" {
		t.Skip("set SLICER_SHOW=1 to print the comparison with the recorded runs")
	}
	dir := dataDir(t)
	var results []Result
	for _, r := range runs(t) {
		res, err := Evaluate(filepath.Join(dir, "fidelity", r.Name), filepath.Join(dir, "profiles"))
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, res)
	}
	if err := WriteTable(os.Stdout, results); err != nil {
		t.Fatal(err)
	}
}
