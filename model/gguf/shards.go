package gguf

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxIndexBytes bounds a shard index, which is read whole.
const maxIndexBytes = 64 << 20

var shardName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// shardPaths lists the files of a model: the path itself, all shards of the set that it belongs to, or those that an index names.
func shardPaths(path string) ([]string, error) {
	dir, base := filepath.Split(path)
	if strings.HasSuffix(base, ".index.json") {
		return readIndex(path)
	}
	m := shardName.FindStringSubmatch(base)
	if m == nil {
		return []string{path}, nil
	}
	n, err := strconv.Atoi(m[3])
	if err != nil || n < 1 || n > maxShards {
		return nil, fmt.Errorf("%s: %w: %s shards, 1 to %d are possible", path, ErrFormat, m[3], maxShards)
	}
	paths := make([]string, n)
	for i := range paths {
		paths[i] = filepath.Join(dir, fmt.Sprintf("%s-%05d-of-%05d.gguf", m[1], i+1, n))
	}
	return paths, nil
}

// readIndex reads a shard index in the form that model hubs use: {"weight_map": {"<tensor>": "<file>"}}. The files lie beside the index; a
// name that leads anywhere else is refused.
func readIndex(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxIndexBytes+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxIndexBytes {
		return nil, fmt.Errorf("%s: %w: shard index of more than %d bytes", path, ErrFormat, maxIndexBytes)
	}
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(raw, &index); err != nil {
		return nil, fmt.Errorf("%s: %w: shard index: %v", path, ErrFormat, err)
	}
	var names []string
	for tensor, name := range index.WeightMap {
		if !localName(name) {
			return nil, fmt.Errorf("%s: %w: tensor %q lies in %q, which is not the name of a file beside the index", path, ErrFormat, tensor, name)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) == 0 || len(names) > maxShards {
		return nil, fmt.Errorf("%s: %w: shard index names %d files", path, ErrFormat, len(names))
	}
	for i, n := range names {
		names[i] = filepath.Join(filepath.Dir(path), n)
	}
	return names, nil
}

// localName says whether name is a plain file name on every system: no separators of any kind, no drive, no way up.
func localName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\\:\x00") && filepath.IsLocal(name)
}

// checkSplit checks what shard i says of its place in the set.
func (f *File) checkSplit(i int) error {
	s := f.shards[i]
	number := func(key string) (int64, bool) {
		v, ok := s.meta[key]
		if !ok {
			return 0, false
		}
		return v.integer()
	}
	count, hasCount := number("split.count")
	if !hasCount && len(f.shards) == 1 {
		return nil
	}
	if count <= 1 && len(f.shards) == 1 {
		return nil
	}
	if count != int64(len(f.shards)) {
		return fmt.Errorf("%s: %w: split.count is %d, %d files were found: shards are named NAME-00001-of-%05d.gguf and lie side by side",
			s.path, ErrFormat, count, len(f.shards), max(count, 0))
	}
	if no, ok := number("split.no"); !ok || no != int64(i) {
		return fmt.Errorf("%s: %w: split.no is %d where shard %d is expected", s.path, ErrFormat, no, i)
	}
	return nil
}
