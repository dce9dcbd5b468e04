// Package machine asks the operating system what this machine has.
package machine

import (
	"os"
	"strconv"
	"strings"
)

// unknownMemoryBytes is assumed where the operating system does not say.
const unknownMemoryBytes = 8 << 30

// Memory returns the bytes of memory that this process may use: the machine's, or its container's when that has fewer.
func Memory() int64 {
	total := systemMemory()
	if total <= 0 {
		total = unknownMemoryBytes
	}
	if limit := containerLimit("/sys/fs/cgroup/memory.max"); limit > 0 {
		total = min(total, limit)
	}
	return total
}

// containerLimit reads a limit of control groups; 0 when there is none.
func containerLimit(file string) int64 {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil || limit < 0 {
		return 0
	}
	return limit
}
