package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func tallyOf(t *testing.T, lines ...string) (*tally, *strings.Builder) {
	t.Helper()
	var out strings.Builder
	tally := newTally(&out)
	if err := tally.read(strings.NewReader(strings.Join(lines, "\n"))); err != nil {
		t.Fatal(err)
	}
	return tally, &out
}

func TestCounts(t *testing.T) {
	tests := []struct {
		name  string
		lines []string
		want  counts
	}{
		{"leaves count, tests around them don't", []string{
			`{"Action":"run","Package":"p","Test":"A"}`, `{"Action":"run","Package":"p","Test":"A/x"}`, `{"Action":"run","Package":"p","Test":"A/y"}`,
			`{"Action":"pass","Package":"p","Test":"A/x"}`, `{"Action":"skip","Package":"p","Test":"A/y"}`, `{"Action":"pass","Package":"p","Test":"A"}`,
			`{"Action":"pass","Package":"p"}`}, counts{1, 0, 1}},
		{"one failure inside is one failure", []string{
			`{"Action":"run","Package":"p","Test":"A"}`, `{"Action":"run","Package":"p","Test":"A/x"}`,
			`{"Action":"fail","Package":"p","Test":"A/x"}`, `{"Action":"fail","Package":"p","Test":"A"}`, `{"Action":"fail","Package":"p"}`}, counts{0, 1, 0}},
		{"a test that fails after its subtests passed", []string{
			`{"Action":"run","Package":"p","Test":"A"}`, `{"Action":"run","Package":"p","Test":"A/x"}`,
			`{"Action":"pass","Package":"p","Test":"A/x"}`, `{"Action":"fail","Package":"p","Test":"A"}`, `{"Action":"fail","Package":"p"}`}, counts{1, 1, 0}},
		{"a package that does not build", []string{`{"Action":"fail","Package":"p"}`}, counts{0, 1, 0}},
		{"a test that never ends", []string{
			`{"Action":"run","Package":"p","Test":"A"}`, `{"Action":"run","Package":"p","Test":"B"}`, `{"Action":"pass","Package":"p","Test":"B"}`}, counts{1, 1, 0}},
		{"a package without tests", []string{`{"Action":"skip","Package":"p"}`}, counts{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tally, _ := tallyOf(t, tt.lines...)
			if got := tally.counts(); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestReportNamesReasons(t *testing.T) {
	tally, out := tallyOf(t,
		`{"Action":"run","Package":"slicescheduler/model","Test":"TestReal"}`,
		`{"Action":"output","Package":"slicescheduler/model","Test":"TestReal","Output":"=== RUN   TestReal\n"}`,
		`{"Action":"output","Package":"slicescheduler/model","Test":"TestReal","Output":"    real_test.go:12: no model here\n"}`,
		`{"Action":"output","Package":"slicescheduler/model","Test":"TestReal","Output":"--- SKIP: TestReal (0.00s)\n"}`,
		`{"Action":"skip","Package":"slicescheduler/model","Test":"TestReal"}`)
	tally.report(tally.counts())
	for _, want := range []string{"skipped 1: no model here\n", "    model TestReal\n", "0 passed, 0 failed, 1 skipped\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("report lacks %q:\n%s", want, out)
		}
	}
}

func TestTotalAddsRunsUp(t *testing.T) {
	file := filepath.Join(t.TempDir(), "counts")
	for _, c := range []counts{{3, 0, 1}, {4, 0, 0}} {
		if err := appendCounts(file, c); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if err := printTotal(file, &out); err != nil || out.String() != "7 passed, 0 failed, 1 skipped\n" {
		t.Errorf("got %q, %v", &out, err)
	}
	if err := os.WriteFile(file, []byte("0 passed, 0 failed, 2 skipped\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := printTotal(file, &out); err == nil {
		t.Error("a run without a single test was accepted")
	}
	if err := appendCounts(file, counts{5, 1, 0}); err != nil {
		t.Fatal(err)
	}
	if err := printTotal(file, &out); err == nil {
		t.Error("a failed test was accepted")
	}
}
