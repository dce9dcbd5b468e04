package cpu_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
	"slicescheduler/gpuworker/cpu"
	"slicescheduler/model"
	"slicescheduler/model/embedded"
)

// Files of the real models.
const (
	smolFile  = "SmolLM2-135M-Instruct.Q4_1.gguf"
	gemmaFile = "gemma-3-270m-q4_k_m.gguf"
)

// realModel opens a model from $SLICER_MODELS, else the user's cache; the test is skipped where it is absent.
func realModel(t testing.TB, file string) *model.Model {
	t.Helper()
	dir, err := model.DefaultDir()
	if err != nil {
		t.Skip(err)
	}
	path := filepath.Join(dir, file)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%s is absent: fetch it, or set SLICER_MODELS", path)
	}
	m, err := model.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func embeddedModel(t testing.TB, name string) *model.Model {
	t.Helper()
	data, err := embedded.File(name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.OpenBytes(name, data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// sharedData returns a path in $SLICER_DATA, else ../shared beside the repository; the test is skipped where it is absent.
func sharedData(t testing.TB, elem ...string) string {
	t.Helper()
	dir := os.Getenv("SLICER_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared")
	}
	path := filepath.Join(append([]string{dir}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%s is absent: set SLICER_DATA", path)
	}
	return path
}

// readLines decodes a file of one JSON object a line.
func readLines[T any](t testing.TB, path string) []T {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []T
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<24)
	for s.Scan() {
		var v T
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	if len(out) == 0 || s.Err() != nil {
		t.Fatalf("%s: %d lines, %v", path, len(out), s.Err())
	}
	return out
}

// open opens devices that are closed when the test ends.
func open(t testing.TB, n int, c cpu.Config) []gpuworker.Device {
	t.Helper()
	var out []gpuworker.Device
	for i := range n {
		c := c
		c.ID, c.MemoryBytes, c.Cores = gmg.DeviceID("t/cpu"+string(rune('0'+i))), 2<<30, max(1, c.Cores)
		d, err := cpu.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		out = append(out, d)
	}
	return out
}
