package model

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"slicescheduler/model/miniature"
)

// writeMiniature writes a model file and returns its path.
func writeMiniature(t *testing.T, dir, name string, seed uint64) string {
	t.Helper()
	spec := miniature.Default()
	spec.Seed = seed
	data, err := miniature.Make(spec)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNames(t *testing.T) {
	dir := t.TempDir()
	path := writeMiniature(t, dir, "SmolLM2-135M-Instruct.Q4_1.gguf", 1)
	writeMiniature(t, dir, "gemma-3-270m-q4_k_m.gguf", 2)
	writeMiniature(t, dir, "gemma-3-1b.gguf", 3)
	writeMiniature(t, dir, "big-00001-of-00002.gguf", 4)
	writeMiniature(t, dir, "big-00002-of-00002.gguf", 5)
	l := NewLibrary(filepath.Join(dir, "absent"), dir)
	for name, want := range map[string]string{
		"tiny-story": "tiny-story", "TINY-GUIDE": "tiny-guide", path: "SmolLM2-135M-Instruct.Q4_1",
		"SmolLM2-135M-Instruct.Q4_1.gguf": "SmolLM2-135M-Instruct.Q4_1", "smollm2-135m-instruct.q4_1": "SmolLM2-135M-Instruct.Q4_1",
		"smollm2-135m": "SmolLM2-135M-Instruct.Q4_1", "gemma3-270m": "gemma-3-270m-q4_k_m", "gemma-3-1b": "gemma-3-1b", "big": "big-00001-of-00002",
	} {
		if got, err := l.Resolve(name); err != nil || got.Name != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for name, hint := range map[string]string{"llama": "slicer pull", "gemma3": "gemma-3-1b", "": "tiny-story", "../x": "slicer pull", "...": "slicer pull"} {
		if got, err := l.Resolve(name); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), hint) {
			t.Errorf("%q: %+v, %v", name, got, err)
		}
	}
	list, err := l.List()
	if err != nil || len(list) != 6 {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestTenantsOfAFileShareIt(t *testing.T) {
	dir := t.TempDir()
	path := writeMiniature(t, dir, "m.gguf", 1)
	link := filepath.Join(dir, "other-name.gguf")
	if err := os.Symlink(path, link); err != nil {
		t.Skip("no symbolic links here")
	}
	l := NewLibrary(dir)
	var mu sync.Mutex
	models := map[*Model]int{}
	var releases []func()
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			m, release, err := l.Open([]string{"m", path, "M.GGUF", link}[i%4])
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			models[m]++
			releases = append(releases, release)
		})
	}
	group.Wait()
	if len(models) != 1 {
		t.Fatalf("%d models are open of one file", len(models))
	}
	for m := range models {
		for i, release := range releases {
			if _, data, err := m.Weight(0, embeddingTensor); err != nil || data[0] == 0 && data[1] == 0 {
				t.Fatalf("after %d releases of %d: %v", i, len(releases), err)
			}
			release()
			release()
		}
	}
	if len(l.open) != 0 {
		t.Errorf("%d models are left open", len(l.open))
	}
}

func TestReplacedFileIsAnotherModel(t *testing.T) {
	dir := t.TempDir()
	writeMiniature(t, dir, "m.gguf", 1)
	l := NewLibrary(dir)
	first, releaseFirst, err := l.Open("m")
	if err != nil {
		t.Fatal(err)
	}
	defer releaseFirst()
	next := writeMiniature(t, dir, "next", 2)
	if err := os.Rename(next, filepath.Join(dir, "m.gguf")); err != nil {
		t.Fatal(err)
	}
	second, releaseSecond, err := l.Open("m")
	if err != nil {
		t.Fatal(err)
	}
	defer releaseSecond()
	if first == second || first.Graph.ID == second.Graph.ID {
		t.Error("the replaced file is served for the new one")
	}
}

func TestFailedOpenLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "broken.gguf")
	if err := os.WriteFile(path, []byte("GGUF and nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := NewLibrary(dir)
	for range 3 {
		if _, _, err := l.Open("broken"); !errors.Is(err, ErrFormat) && !errors.Is(err, ErrUnsupported) {
			t.Fatalf("got %v", err)
		}
	}
	if len(l.open) != 0 {
		t.Error("a failed model stays in the library")
	}
}
