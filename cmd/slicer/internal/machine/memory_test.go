package machine

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMemory(t *testing.T) {
	if got := Memory(); got < 64<<20 || got > 1<<50 {
		t.Errorf("this machine has %d bytes of memory?", got)
	}
}

func TestContainerLimit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "memory.max")
	for content, want := range map[string]int64{"max\n": 0, "1073741824\n": 1 << 30, "": 0, "-1": 0} {
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := containerLimit(file); got != want {
			t.Errorf("%q: got %d, want %d", content, got, want)
		}
	}
	if got := containerLimit(file + ".none"); got != 0 {
		t.Errorf("no file: got %d", got)
	}
}
