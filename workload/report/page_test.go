package report

import (
	"bytes"
	"os"
	"testing"
)

// page writes a report's page; SLICER_PAGE names a file to keep it in, to look at.
func page(t *testing.T, r *Report) string {
	t.Helper()
	var out bytes.Buffer
	if err := WriteHTML(&out, r); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestMadeUp(t *testing.T) {
	p := page(t, madeUp())
	if f := os.Getenv("SLICER_PAGE"); f != "" {
		os.WriteFile(f, []byte(p), 0o644)
	}
}
