package term

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestFilesGetNoEscapes(t *testing.T) {
	var b bytes.Buffer
	s := Of(&b, func(name string) string { return map[string]string{"TERM": "xterm-256color"}[name] })
	if s.Terminal || s.Color || s.Bold("x") != "x" {
		t.Errorf("a buffer counts as a terminal: %+v", s)
	}
	if w, h := s.Size(); w != fallbackWidth || h != fallbackHeight {
		t.Errorf("size %d x %d", w, h)
	}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	err := Table(&b, []string{"NAME", "TOKENS", "TTFT"}, [][]string{{"a", "12", "-"}, {"löng", "7", "3.00 ms"}})
	want := "NAME  TOKENS     TTFT\na         12        -\nlöng       7  3.00 ms\n"
	if err != nil || b.String() != want {
		t.Errorf("got\n%swant\n%s", &b, want)
	}
}

func TestFormats(t *testing.T) {
	for got, want := range map[string]string{
		Bytes(0): "0 B", Bytes(1023): "1023 B", Bytes(1 << 20): "1.0 MiB", Bytes(3 << 29): "1.5 GiB", Bytes(1 << 45): "32.0 TiB",
		Count(999): "999", Count(134_500_000): "134.5M", Count(8_000_000_000): "8.0B",
		Ms(0): "-", Ms(0.5): "0.50 ms", Ms(123.4): "123 ms", Ms(1500): "1.50 s",
		Age(90 * time.Second): "1m", Age(3 * time.Hour): "3h", Age(72 * time.Hour): "3d",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestProgressCountsOnlyThisRun(t *testing.T) {
	got := progress(60<<20, 100<<20, 20<<20, 10*time.Second, Bytes)
	if want := "60.0 MiB of 100.0 MiB  60 %  4.0 MiB/s  10s left"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := progress(1<<20, -1, 0, time.Second, Bytes); got != "1.0 MiB  1.0 MiB/s" {
		t.Errorf("without a total: %q", got)
	}
}

func TestMeterIsSparingInFiles(t *testing.T) {
	var b bytes.Buffer
	now := time.Unix(0, 0)
	m := NewMeter(Stream{Writer: &b}, func() time.Time { return now })
	for i := range 100 {
		now = now.Add(100 * time.Millisecond)
		m.Show("x", int64(i), 100, 0)
	}
	if n := strings.Count(b.String(), "\n"); n != 2 {
		t.Errorf("%d lines in 10 s, want 2:\n%s", n, &b)
	}
	if strings.Contains(b.String(), "\x1b") {
		t.Error("escapes in a file")
	}
}
