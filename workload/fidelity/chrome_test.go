package fidelity

import (
	"bytes"
	"encoding/json"
	"testing"

	"slicescheduler/whatif"
)

// A trace parses, its events stand by time, each request's phases nest in it and follow each other, and steps on a device don't overlap.
func TestRequestTrace(t *testing.T) {
	var out bytes.Buffer
	if err := WriteRequestTrace(madeUp, madeUpProfiles, &out); err != nil {
		t.Fatal(err)
	}
	var trace struct{ TraceEvents []traceEvent }
	if err := json.Unmarshal(out.Bytes(), &trace); err != nil {
		t.Fatal(err)
	}
	const slackUs = 0.002 // of times in floating point
	last, steps, busyUntil := 0.0, 0, map[int]float64{}
	at := map[string]float64{} // of a request's last event: where one phase ends, the next begins
	stacks, phases := map[string][]string{}, map[string]string{}
	for i, e := range trace.TraceEvents {
		if e.Phase == "M" {
			continue
		}
		if e.At < last {
			t.Fatalf("event %d, %s, is at %g us, after one at %g us", i, e.Name, e.At, last)
		}
		last = e.At
		switch e.Phase {
		case "X":
			steps++
			if e.Took <= 0 || e.At < busyUntil[e.TID]-slackUs {
				t.Errorf("%s takes %g us from %g us, the device is busy until %g us", e.Name, e.Took, e.At, busyUntil[e.TID])
			}
			busyUntil[e.TID] = e.At + e.Took
		case "b":
			if len(stacks[e.ID]) > 0 && e.At != at[e.ID] {
				t.Errorf("request %s: %s begins at %g us, what was before it ended at %g us", e.ID, e.Name, e.At, at[e.ID])
			}
			at[e.ID] = e.At
			stacks[e.ID] = append(stacks[e.ID], e.Name)
			phases[e.ID] += e.Name + " "
		case "e":
			s := stacks[e.ID]
			if len(s) == 0 || s[len(s)-1] != e.Name {
				t.Fatalf("event %d ends %q of request %s, open are %q", i, e.Name, e.ID, s)
			}
			stacks[e.ID], at[e.ID] = s[:len(s)-1], e.At
		default:
			t.Errorf("event %d has phase %q", i, e.Phase)
		}
	}
	for id, s := range stacks {
		if want := "request " + id + " queued prefill decode "; len(s) > 0 || phases[id] != want {
			t.Errorf("request %s: still open %q, had %q, want %q", id, s, phases[id], want)
		}
	}
	if res, err := Evaluate(madeUp, madeUpProfiles); err != nil || int64(steps) != res.Totals.Steps || len(stacks) != res.Requests {
		t.Errorf("%d steps and %d requests in the trace, %d and %d simulated, %v", steps, len(stacks), res.Totals.Steps, res.Requests, err)
	}
}

func TestRequestTraceOfARefusedRequest(t *testing.T) {
	data, err := json.Marshal(requestEvents(7, Asked{PromptTokens: 9}, &whatif.Record{ArrivalNs: 2000, Refused: true}))
	if err != nil || string(data) != `[{"name":"request 7 refused","cat":"request","ph":"n","ts":2,"pid":2,"tid":0,"id":"7","args":{"outputTokens":0,"promptTokens":9}}]` {
		t.Errorf("a refused request is %s, %v", data, err)
	}
}
