//go:build !linux && !darwin

package machine

// systemMemory is not known here.
func systemMemory() int64 { return 0 }
