package gguf

import (
	"fmt"
	"os"
)

// readFile reads a whole file into memory: the fallback where files cannot be mapped.
func readFile(path string) (data []byte, unmap func() error, err error) {
	data, err = os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	if len(data) == 0 {
		return nil, nil, fmt.Errorf("%s: offset 0: %w: empty file", path, ErrFormat)
	}
	return data, func() error { return nil }, nil
}
