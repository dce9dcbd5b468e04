package kernels

import (
	"errors"
	"fmt"
)

// ErrPath is returned for a path that does not exist or that this machine can't run.
var ErrPath = errors.New("kernel path not available")

// path is one implementation of the kernels.
type path uint8

const (
	pathPortable path = iota
	pathAVX2
)

var pathNames = [...]string{pathPortable: "portable", pathAVX2: "avx2"}

// Set is one path's kernels. All paths give the same bits. A Set is immutable and safe for concurrent use.
type Set struct{ path path }

// Name returns the path's name.
func (s *Set) Name() string { return pathNames[s.path] }

// Portable returns the path in plain Go, which runs everywhere.
func Portable() *Set { return &Set{pathPortable} }

// Available returns every path that this machine can run, the fastest first.
func Available() []*Set {
	var sets []*Set
	for _, p := range machinePaths() {
		sets = append(sets, &Set{p})
	}
	return append(sets, Portable())
}

// Best returns the fastest path of this machine.
func Best() *Set { return Available()[0] }

// Named returns a path by its name, "portable" or "avx2".
func Named(name string) (*Set, error) {
	names := []string{}
	for _, s := range Available() {
		if s.Name() == name {
			return s, nil
		}
		names = append(names, s.Name())
	}
	return nil, fmt.Errorf("%w: %q, this machine has %v", ErrPath, name, names)
}
