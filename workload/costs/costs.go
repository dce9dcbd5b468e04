// Package costs opens measured cost tables and says what operators take on a kind of hardware.
package costs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"slicescheduler/whatif"
)

// launchNs is what starting a kernel takes on a device of which nothing was measured.
const launchNs = 3000

// Open reads the tables of a model on a kind of hardware at a tensor-parallel degree, or returns nil where there are none. profilesDir holds
// HARDWARE/OWNER/MODEL/bf16/tpN; an owner before a slash of the model's name doesn't matter. An empty profilesDir has no tables.
func Open(profilesDir, hardware, model string, tp int) (*whatif.Tables, error) {
	dir, err := find(profilesDir, hardware, model, tp)
	if err != nil || dir == "" {
		return nil, err
	}
	var files whatif.TableFiles
	var closers []io.Closer
	defer func() {
		for _, c := range closers {
			c.Close()
		}
	}()
	for _, part := range []struct {
		name string
		to   *io.Reader
	}{
		{"dense.csv", &files.Dense}, {"per_sequence.csv", &files.PerSequence}, {"attention.csv", &files.Attention}, {"moe.csv", &files.Experts}, {"skew_fit.csv", &files.Skew},
	} {
		f, err := os.Open(filepath.Join(dir, part.name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		closers = append(closers, f)
		*part.to = f
	}
	t, err := whatif.ReadTables(files)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return t, nil
}

// find returns the directory of a model's tables, or nothing.
func find(profilesDir, hardware, model string, tp int) (string, error) {
	if profilesDir == "" {
		return "", nil
	}
	owners, err := os.ReadDir(filepath.Join(profilesDir, hardware))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	for _, o := range owners {
		dir := filepath.Join(profilesDir, hardware, o.Name(), filepath.Base(filepath.FromSlash(model)), "bf16", fmt.Sprintf("tp%d", max(tp, 1)))
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir, nil
		}
	}
	return "", nil
}

// Source says what a model's operators take on a kind of hardware: what its tables say as that kind serves them, else the roofline. Operators that no table
// of a measured model lists are part of recorded graphs, so they aren't launched by themselves.
func Source(t *whatif.Tables, h whatif.Hardware, a whatif.Architecture, tp int, e *whatif.EngineKind, g whatif.ExpertGroup) whatif.CostSource {
	roofline := whatif.Roofline{FLOPS: h.FLOPS, BandwidthBytesPerS: h.BandwidthBytesPerS}
	if t == nil {
		roofline.LaunchNs = launchNs
	} else {
		t = t.Scaled(h.TableScale).WithKernel(h.Kernel(a, tp, e))
	}
	return whatif.Source(t, g, roofline)
}

// activationBytes is set aside for activations and the CUDA context where nobody recorded how many pages there were: what a recorded RTX 4090's pages and
// weights leave of its 90 % of memory.
const activationBytes = 115 << 30 / 100

// DefaultUtilization is the share of a device's memory that vLLM uses unless told otherwise.
const DefaultUtilization = 0.9

// ServingBytes is what weights and KV may hold of a device's memory at a utilization, as vLLM reckons.
func ServingBytes(memoryBytes int64, utilization float64) int64 {
	return int64(float64(memoryBytes)*utilization) - activationBytes
}
