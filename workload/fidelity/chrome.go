package fidelity

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"slicescheduler/whatif"
)

// Processes of a trace: one holds the devices' tracks, one the requests'.
const (
	traceDevices  = 1
	traceRequests = 2
)

// traceEvent is one event of Chrome's trace format; times are microseconds.
type traceEvent struct {
	Name  string         `json:"name"`
	Cat   string         `json:"cat,omitempty"`
	Phase string         `json:"ph"`
	At    float64        `json:"ts"`
	Took  float64        `json:"dur,omitempty"`
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	ID    string         `json:"id,omitempty"`
	Args  map[string]any `json:"args,omitempty"`
}

// WriteRequestTrace writes the simulated counterpart of a recording for Perfetto and Chrome: each request as an asynchronous slice that holds its phases
// (queued until its first step, prefill until its first token, decode until its last), and each step on its device's track. Events stand by time.
func WriteRequestTrace(dir, profilesDir string, out io.Writer) error {
	r, t, h, err := open(dir, profilesDir)
	if err != nil {
		return err
	}
	spec, err := r.spec(t, h)
	if err != nil {
		return err
	}
	spec.KeepTimeline, spec.KeepRecords = true, true
	s, err := whatif.New(spec, whatif.Fast)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	s.Drain()
	events := traceNames(r.Name, spec)
	steps := len(events)
	for _, g := range s.Timeline() {
		if g.Device >= 0 {
			events = append(events, stepEvent(&g))
		}
	}
	for i, record := range s.Records(0) {
		events = append(events, requestEvents(i, r.Workload[i], &record)...)
	}
	// Stable: of the events of one moment, a request's begin before those inside it and end after them.
	slices.SortStableFunc(events[steps:], func(a, b traceEvent) int { return cmp.Compare(a.At, b.At) })
	return writeTraceEvents(out, events)
}

// traceNames names processes and devices' tracks.
func traceNames(run string, spec *whatif.Spec) []traceEvent {
	name := func(what string, pid, tid int, name string) traceEvent {
		return traceEvent{Name: what, Phase: "M", PID: pid, TID: tid, Args: map[string]any{"name": name}}
	}
	out := []traceEvent{name("process_name", traceDevices, 0, run+": devices"), name("process_name", traceRequests, 0, run+": requests")}
	for i, d := range spec.Devices {
		out = append(out, name("thread_name", traceDevices, i, d.ID))
	}
	return out
}

func stepEvent(g *whatif.Segment) traceEvent {
	return traceEvent{
		Name: fmt.Sprintf("step %d", g.Step), Cat: "step", Phase: "X", At: micros(g.StartNs), Took: micros(g.EndNs - g.StartNs), PID: traceDevices, TID: g.Device,
		Args: map[string]any{"lane": g.Lane, "slice": g.Slice, "tokens": g.Tokens, "sequences": g.Sequences},
	}
}

// requestEvents are the begins and ends of a request and its phases, in the order in which they nest. A refused request is one instant.
func requestEvents(i int, asked Asked, record *whatif.Record) []traceEvent {
	event := func(name, phase string, atNs int64) traceEvent {
		return traceEvent{Name: name, Cat: "request", Phase: phase, At: micros(atNs), PID: traceRequests, ID: fmt.Sprint(i)}
	}
	name := fmt.Sprintf("request %d", i)
	args := map[string]any{"promptTokens": asked.PromptTokens, "outputTokens": asked.OutputTokens}
	if record.LastNs == 0 {
		e := event(name+" refused", "n", record.ArrivalNs)
		e.Args = args
		return []traceEvent{e}
	}
	args["cachedTokens"], args["preemptions"] = record.CachedTokens, record.Preemptions
	begin := event(name, "b", record.QueuedNs)
	begin.Args = args
	return []traceEvent{
		begin,
		event("queued", "b", record.QueuedNs), event("queued", "e", record.ScheduledNs),
		event("prefill", "b", record.ScheduledNs), event("prefill", "e", record.FirstNs),
		event("decode", "b", record.FirstNs), event("decode", "e", record.LastNs),
		event(name, "e", record.LastNs),
	}
}

func micros(ns int64) float64 { return float64(ns) / 1e3 }

// writeTraceEvents writes one event a line.
func writeTraceEvents(out io.Writer, events []traceEvent) error {
	b := bufio.NewWriter(out)
	enc := json.NewEncoder(b)
	separator := "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
	for i := range events {
		if _, err := b.WriteString(separator); err != nil {
			return err
		}
		if err := enc.Encode(&events[i]); err != nil {
			return err
		}
		separator = ","
	}
	if _, err := b.WriteString("]}\n"); err != nil {
		return err
	}
	return b.Flush()
}
