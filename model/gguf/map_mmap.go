//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd || solaris || windows

package gguf

import (
	"fmt"
	"os"

	mmap "github.com/edsrzf/mmap-go"
)

// mapFile maps a file for reading. Where the file system cannot map it, the file is read instead.
func mapFile(path string) (data []byte, unmap func() error, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !st.Mode().IsRegular() || st.Size() == 0 {
		return nil, nil, fmt.Errorf("%s: offset 0: %w: not a regular file, or empty", path, ErrFormat)
	}
	m, err := mmap.Map(f, mmap.RDONLY, 0)
	if err != nil {
		return readFile(path)
	}
	return m, m.Unmap, nil
}
