package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// countsFormat is how counts are printed and read back.
const countsFormat = "%d passed, %d failed, %d skipped"

type counts struct{ Passed, Failed, Skipped int }

func (c counts) String() string { return fmt.Sprintf(countsFormat, c.Passed, c.Failed, c.Skipped) }

func (c counts) plus(o counts) counts {
	return counts{c.Passed + o.Passed, c.Failed + o.Failed, c.Skipped + o.Skipped}
}

func (c counts) verdict() error {
	switch {
	case c.Failed > 0:
		return fmt.Errorf("%d failed", c.Failed)
	case c.Passed == 0:
		return errors.New("no test passed: nothing was run")
	}
	return nil
}

// event is one line of go test -json; see "go doc test2json".
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
	Elapsed    float64
}

// testID names a test; an empty Test is the package itself.
type testID struct{ Package, Test string }

// parent returns the test around a subtest, the package around a test.
func (id testID) parent() testID {
	return testID{id.Package, id.Test[:max(0, strings.LastIndexByte(id.Test, '/'))]}
}

// tally follows the events of one run. Its output of tests that pass is forgotten, that of tests that fail is shown at once.
type tally struct {
	out      io.Writer
	output   map[testID][]string
	outcomes map[testID]string // "" while running
	inner    map[testID]bool   // has subtests
	broken   map[testID]bool   // something inside failed, so its own failure adds nothing
}

func newTally(out io.Writer) *tally {
	return &tally{out: out, output: make(map[testID][]string), outcomes: make(map[testID]string), inner: make(map[testID]bool), broken: make(map[testID]bool)}
}

// read handles all events of a stream. What is no event (a build's complaint) is passed on.
func (t *tally) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Action == "" {
			fmt.Fprintln(t.out, lines.Text())
			continue
		}
		t.handle(e)
	}
	return lines.Err()
}

func (t *tally) handle(e event) {
	id := testID{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(t.out, e.Output)
	case "run":
		t.outcomes[id] = ""
		if p := id.parent(); p.Test != "" {
			t.inner[p] = true
		}
	case "output":
		t.output[id] = append(t.output[id], e.Output)
	case "pass", "fail", "skip":
		t.finish(id, e)
	}
}

// finish records an outcome and prints what a reader wants to see of it: a line for a package, all output of a failure.
func (t *tally) finish(id testID, e event) {
	t.outcomes[id] = e.Action
	if e.Action == "fail" {
		for _, line := range t.output[id] {
			fmt.Fprint(t.out, line)
		}
		if id.Test != "" {
			t.broken[id.parent()] = true
		}
	}
	switch {
	case e.Action == "pass":
		delete(t.output, id)
	case id.Test == "" && e.Action == "skip":
		delete(t.output, id)
	}
	if id.Test == "" && e.Action != "skip" {
		fmt.Fprintf(t.out, "%-4s  %s  %.1fs\n", e.Action, e.Package, e.Elapsed)
	}
}

// counts counts each test without subtests once. A test that never ended failed, and so did a package or a test around others that
// failed on its own account.
func (t *tally) counts() counts {
	var c counts
	for id, outcome := range t.outcomes {
		around := id.Test == "" || t.inner[id]
		switch {
		case outcome == "pass" && !around:
			c.Passed++
		case outcome == "skip" && !around:
			c.Skipped++
		case outcome == "fail" && !t.broken[id], outcome == "" && !around:
			c.Failed++
		}
	}
	return c
}

// report prints the skipped tests by reason, the failed ones, and the counts.
func (t *tally) report(c counts) {
	var failed []string
	reasons := make(map[string][]string)
	for id, outcome := range t.outcomes {
		name := strings.TrimPrefix(id.Package, "slicescheduler/") + " " + id.Test
		switch {
		case outcome == "skip" && id.Test != "" && !t.inner[id]:
			reason := skipReason(t.output[id])
			reasons[reason] = append(reasons[reason], name)
		case outcome == "fail" && !t.broken[id]:
			failed = append(failed, name)
		case outcome == "" && id.Test != "" && !t.inner[id]:
			failed = append(failed, name+" (did not end)")
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		names := reasons[reason]
		slices.Sort(names)
		fmt.Fprintf(t.out, "skipped %d: %s\n", len(names), reason)
		for _, name := range names {
			fmt.Fprintf(t.out, "    %s\n", name)
		}
	}
	slices.Sort(failed)
	for _, name := range failed {
		fmt.Fprintf(t.out, "failed: %s\n", name)
	}
	fmt.Fprintln(t.out, c)
}

// skipReason takes the reason out of a skipped test's output: what is left without the frame, without file and line.
func skipReason(output []string) string {
	var reason []string
	for _, line := range output {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- SKIP") {
			continue
		}
		if file, text, found := strings.Cut(line, ": "); found && strings.Contains(file, ".go:") {
			line = text
		}
		reason = append(reason, line)
	}
	if len(reason) == 0 {
		return "no reason given"
	}
	return strings.Join(reason, " ")
}
