// Package gguf reads and maps GGUF model files, versions 2 and 3, whole or in shards. Nothing in a file is believed: every length is
// checked against the bytes that are there before it is used, and memory never grows with what a file merely claims.
//
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
package gguf

import (
	"errors"
	"fmt"
)

// Errors of files. They are wrapped with file, offset and reason; test with errors.Is.
var (
	ErrFormat      = errors.New("malformed model file")
	ErrUnsupported = errors.New("unsupported model")
)

// Limits on what a file may contain. They lie far above what models have.
const (
	maxDims      = 4
	maxKeyBytes  = 1 << 16
	maxAlignment = 1 << 20
	maxShards    = 4096
)

const (
	magic            = 0x46554747 // "GGUF", little-endian
	magicSwapped     = 0x47475546
	minVersion       = 2
	maxVersion       = 3
	defaultAlignment = 32
)

// Tensor is one tensor of a file. Dims are in GGUF's order: Dims[0] is the length of a row.
type Tensor struct {
	Name   string
	Type   Type
	Dims   []int64
	Offset int64 // of the data, from the start of its shard
	Bytes  int64
	shard  int
}

// Rows returns the number of rows, the product of all dimensions but the first.
func (t Tensor) Rows() int64 {
	n := int64(1)
	for _, d := range t.Dims[1:] {
		n *= d
	}
	return n
}

// Elements returns the number of weights.
func (t Tensor) Elements() int64 { return t.Dims[0] * t.Rows() }

// File is an opened model file: its metadata, the list of its tensors and the mapped bytes. It is safe for concurrent use until Close.
type File struct {
	path    string
	shards  []*shard
	tensors []Tensor
	byName  map[string]int
}

// shard is one mapped file with its parsed header.
type shard struct {
	path    string
	data    []byte
	unmap   func() error
	version uint32
	meta    map[string]value
	tensors []Tensor
}

// Open maps a file, or all files of a sharded model when path names any of its shards (NAME-00001-of-00003.gguf) or its index
// (NAME.index.json), and checks all of its structure.
func Open(path string) (*File, error) {
	paths, err := shardPaths(path)
	if err != nil {
		return nil, err
	}
	f := &File{path: path}
	for _, p := range paths {
		s, err := openShard(p)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		f.shards = append(f.shards, s)
	}
	if err := f.join(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// OpenBytes reads a whole file that is already in memory; name stands for its path in errors. The bytes must not change.
func OpenBytes(name string, data []byte) (*File, error) {
	s := &shard{path: name, data: data, unmap: func() error { return nil }}
	if err := s.parse(); err != nil {
		return nil, err
	}
	f := &File{path: name, shards: []*shard{s}}
	return f, f.join()
}

func openShard(path string) (*shard, error) {
	data, unmap, err := mapFile(path)
	if err != nil {
		return nil, err
	}
	s := &shard{path: path, data: data, unmap: unmap}
	if err := s.parse(); err != nil {
		return nil, errors.Join(err, unmap())
	}
	return s, nil
}

// join gathers the tensors of all shards and checks what the shards say of each other.
func (f *File) join() error {
	f.byName = make(map[string]int)
	for i, s := range f.shards {
		if err := f.checkSplit(i); err != nil {
			return err
		}
		for _, t := range s.tensors {
			t.shard = i
			if _, dup := f.byName[t.Name]; dup {
				return fmt.Errorf("%s: %w: tensor %q is there twice", s.path, ErrFormat, t.Name)
			}
			f.byName[t.Name] = len(f.tensors)
			f.tensors = append(f.tensors, t)
		}
	}
	if want, ok := f.Int("split.tensors.count"); ok && len(f.shards) > 1 && want != int64(len(f.tensors)) {
		return fmt.Errorf("%s: %w: split.tensors.count is %d, the shards hold %d", f.path, ErrFormat, want, len(f.tensors))
	}
	return nil
}

// Path returns the path that Open was given.
func (f *File) Path() string { return f.path }

// Version returns the format's version.
func (f *File) Version() uint32 { return f.shards[0].version }

// Bytes returns the size of all shards together.
func (f *File) Bytes() int64 {
	var n int64
	for _, s := range f.shards {
		n += int64(len(s.data))
	}
	return n
}

// Tensors lists the tensors in the file's order. The slice must not be changed.
func (f *File) Tensors() []Tensor { return f.tensors }

// Tensor finds a tensor by name.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := f.byName[name]
	if !ok {
		return Tensor{}, false
	}
	return f.tensors[i], true
}

// Data returns a tensor's bytes: mapped memory, valid until Close and never to be written.
func (f *File) Data(t Tensor) []byte {
	return f.shards[t.shard].data[t.Offset : t.Offset+t.Bytes : t.Offset+t.Bytes]
}

// Close unmaps the file. Nothing that Data returned may be in use.
func (f *File) Close() error {
	var errs []error
	for _, s := range f.shards {
		errs = append(errs, s.unmap())
	}
	f.shards = nil
	return errors.Join(errs...)
}
