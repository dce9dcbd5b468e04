//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || solaris || windows)

package gguf

func mapFile(path string) (data []byte, unmap func() error, err error) { return readFile(path) }
