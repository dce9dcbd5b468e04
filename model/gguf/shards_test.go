package gguf_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slicescheduler/gmg"
	"slicescheduler/model/gguf"
	"slicescheduler/model/ggufwrite"
)

// writeShards writes a model of n shards with one tensor each and returns their paths. change may spoil a shard's numbers.
func writeShards(t *testing.T, n int, change func(i int, no, count *uint32)) []string {
	t.Helper()
	dir := t.TempDir()
	paths := make([]string, n)
	for i := range paths {
		no, count := uint32(i), uint32(n)
		if change != nil {
			change(i, &no, &count)
		}
		var b ggufwrite.Builder
		if i == 0 {
			b.Set("general.name", "sharded")
		}
		b.Set("split.no", no)
		b.Set("split.count", count)
		b.Set("split.tensors.count", int32(n))
		b.Tensor(fmt.Sprintf("t%d", i), gmg.F32, []byte{byte(i), 0, 0, 0}, 1)
		data, err := b.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		paths[i] = filepath.Join(dir, fmt.Sprintf("m-%05d-of-%05d.gguf", i+1, n))
		if err := os.WriteFile(paths[i], data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return paths
}

func TestShardsAreOneModel(t *testing.T) {
	paths := writeShards(t, 3, nil)
	for _, p := range paths {
		f, err := gguf.Open(p)
		if err != nil {
			t.Fatal(err)
		}
		if name, _ := f.String("general.name"); name != "sharded" || len(f.Tensors()) != 3 {
			t.Errorf("%s: name %q, %d tensors", p, name, len(f.Tensors()))
		}
		for i, tensor := range f.Tensors() {
			if f.Data(tensor)[0] != byte(i) {
				t.Errorf("tensor %d holds another's data", i)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBrokenShardSetsAreRefused(t *testing.T) {
	for name, change := range map[string]func(i int, no, count *uint32){
		"count too high": func(_ int, _, count *uint32) { *count = 4 },
		"wrong order":    func(_ int, no, _ *uint32) { *no = 2 - *no },
		"same twice":     func(_ int, no, _ *uint32) { *no = 0 },
	} {
		if _, err := gguf.Open(writeShards(t, 3, change)[0]); !errors.Is(err, gguf.ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
	paths := writeShards(t, 3, nil)
	if err := os.Remove(paths[1]); err != nil {
		t.Fatal(err)
	}
	if _, err := gguf.Open(paths[0]); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "m-00002-of-00003") {
		t.Errorf("a missing shard: %v", err)
	}
	if alone := filepath.Join(t.TempDir(), "alone.gguf"); os.Rename(paths[0], alone) == nil {
		if _, err := gguf.Open(alone); !errors.Is(err, gguf.ErrFormat) {
			t.Errorf("a renamed shard: %v", err)
		}
	}
}

func writeIndex(t *testing.T, dir string, files ...string) string {
	t.Helper()
	weights := make(map[string]string)
	for i, f := range files {
		weights[fmt.Sprintf("t%d", i)] = f
	}
	raw, err := json.Marshal(map[string]any{"weight_map": weights})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "model.index.json")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestShardIndex(t *testing.T) {
	paths := writeShards(t, 2, nil)
	index := writeIndex(t, filepath.Dir(paths[0]), filepath.Base(paths[0]), filepath.Base(paths[1]))
	f, err := gguf.Open(index)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Tensors()) != 2 {
		t.Errorf("%d tensors", len(f.Tensors()))
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestShardIndexStaysInItsFolder(t *testing.T) {
	outside := writeShards(t, 1, nil)[0]
	dir := t.TempDir()
	up, err := filepath.Rel(dir, outside)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{outside, up, "../x", "..", ".", "", "a/../../x", "sub/x.gguf", `..\x`, `C:\x`, "C:x", "/x", `\\host\x`, "x\x00.gguf"} {
		if _, err := gguf.Open(writeIndex(t, dir, name)); !errors.Is(err, gguf.ErrFormat) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, text := range []string{"", "[]", "{", `{"weight_map": 3}`, `{"weight_map": {}}`, `{"weight_map": {"t": 7}}`} {
		path := filepath.Join(dir, "broken.index.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := gguf.Open(path); !errors.Is(err, gguf.ErrFormat) {
			t.Errorf("index %q: %v", text, err)
		}
	}
}
