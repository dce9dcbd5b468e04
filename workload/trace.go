package workload

import (
	"errors"
	"fmt"
	"slices"
)

// ErrTrace is returned for a trace that can't be read at all; single bad rows are reported in Trace.Rejected instead.
var ErrTrace = errors.New("invalid trace")

// Arrival is one request of a trace.
type Arrival struct {
	ArrivalNs    int64 // since the trace's first arrival
	Tenant       string
	PromptTokens int
	OutputTokens int
	Blocks       []int64 // ids of the prompt's (and answer's) chained blocks: equal ids mean equal prefixes; nil where the trace has none
}

// Reject is a row that was left out.
type Reject struct {
	Row    int // 1-based, the header counted
	Reason string
}

// Trace is what was asked of a service, in order of arrival.
type Trace struct {
	Name        string
	Arrivals    []Arrival
	Rejected    []Reject
	BlockTokens int // tokens of one of Arrival.Blocks, 0 where the trace has none
}

// TraceLimits say which rows can be used.
type TraceLimits struct {
	MaxContextTokens int // prompt plus answer; 0: no limit
	MaxRows          int // 0: all
}

// Tenants lists the trace's tenants in order of name.
func (t *Trace) Tenants() []string {
	seen := map[string]bool{}
	var out []string
	for i := range t.Arrivals {
		if name := t.Arrivals[i].Tenant; !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Window returns the arrivals before a time, stretched or compressed so that the load is `factor` times that of the trace; lengths stay.
func (t *Trace) Window(untilNs int64, factor float64) (*Trace, error) {
	if factor <= 0 {
		return nil, fmt.Errorf("%w: load factor %g, must be positive", ErrTrace, factor)
	}
	out := &Trace{Name: t.Name, Rejected: t.Rejected, BlockTokens: t.BlockTokens}
	for _, a := range t.Arrivals {
		if a.ArrivalNs >= untilNs {
			break
		}
		a.ArrivalNs = int64(float64(a.ArrivalNs) / factor)
		out.Arrivals = append(out.Arrivals, a)
	}
	return out, nil
}

// check says why a row can't be used, or nothing.
func (l TraceLimits) check(a *Arrival) string {
	switch {
	case a.PromptTokens <= 0:
		return fmt.Sprintf("%d prompt tokens", a.PromptTokens)
	case a.OutputTokens <= 0:
		return fmt.Sprintf("%d output tokens", a.OutputTokens)
	case l.MaxContextTokens > 0 && a.PromptTokens+a.OutputTokens > l.MaxContextTokens:
		return fmt.Sprintf("%d prompt and %d output tokens exceed the model's %d", a.PromptTokens, a.OutputTokens, l.MaxContextTokens)
	}
	return ""
}

// finish sorts arrivals and counts time from the first.
func (t *Trace) finish() error {
	if len(t.Arrivals) == 0 {
		return fmt.Errorf("%w: %s has no usable row (%d rejected)", ErrTrace, t.Name, len(t.Rejected))
	}
	slices.SortStableFunc(t.Arrivals, func(a, b Arrival) int {
		switch {
		case a.ArrivalNs < b.ArrivalNs:
			return -1
		case a.ArrivalNs > b.ArrivalNs:
			return 1
		}
		return 0
	})
	first := t.Arrivals[0].ArrivalNs
	for i := range t.Arrivals {
		t.Arrivals[i].ArrivalNs -= first
	}
	return nil
}
