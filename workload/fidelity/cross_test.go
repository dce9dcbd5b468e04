package fidelity

import (
	"os"
	"path/filepath"
	"testing"
)

// TestCrossCheck prints the leave-one-out check; it runs for minutes, so only when asked for.
func TestCrossCheck(t *testing.T) {
	if os.Getenv("SLICER_CROSSCHECK") == "" {
		t.Skip("set SLICER_CROSSCHECK=1 to fit the simulator's figures with each run left out in turn")
	}
	dir := dataDir(t)
	dirs, err := filepath.Glob(filepath.Join(dir, "fidelity", "*"))
	if err != nil {
		t.Fatal(err)
	}
	if err := CrossCheck(dirs, filepath.Join(dir, "profiles"), 150, os.Stdout); err != nil {
		t.Fatal(err)
	}
}
