package describe

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

const burst = `
horizonMs: 20000
devices:
  - {id: a, hardware: RTX4090}
  - {id: b, hardware: RTX4090}
links:
  - {from: a, to: b, gbPerS: 20, latencyUs: 10}
tenants:
  - id: chat
    model: Llama-3.1-8B
    ttftMs: 1500
    lanes: [{devices: [a]}]
    running: [{promptTokens: 500, tokensSoFar: 20, outputTokens: 200, count: 8}]
    requests: [{atMs: 1000, everyMs: 20, count: 120, promptTokens: 700, outputTokens: 60}]
`

func run(t *testing.T, text string) *Outcome {
	w, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	o, err := WhatIf(w, "")
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestReplicaTakesABurst(t *testing.T) {
	o := run(t, burst+"actions: [{kind: replicate, tenant: chat, to: {devices: [b]}}]\n")
	a, b := o.Without.Tenants[0].Totals, o.With.Tenants[0].Totals
	if len(o.Refused) > 0 || a.Finished != 128 || b.Finished != 128 {
		t.Fatalf("finished %d without and %d with, refused %v", a.Finished, b.Finished, o.Refused)
	}
	if b.MeanTTFTMs() > 0.7*a.MeanTTFTMs() || b.ViolatedRequests >= a.ViolatedRequests || o.With.Devices[1].BusyNs == 0 {
		t.Errorf("a second copy changed TTFT from %.0f to %.0f ms, violations from %d to %d", a.MeanTTFTMs(), b.MeanTTFTMs(), a.ViolatedRequests, b.ViolatedRequests)
	}
	var text bytes.Buffer
	if err := o.WriteText(&text); err != nil || !strings.Contains(text.String(), "chat mean TTFT") {
		t.Errorf("text is %q, %v", text.String(), err)
	}
	data, err := json.Marshal(o)
	if err != nil || !bytes.Contains(data, []byte(`"outputTokens"`)) {
		t.Errorf("JSON is %s, %v", data, err)
	}
}

func TestSpreadAndEvict(t *testing.T) {
	o := run(t, burst+"actions: [{kind: move, tenant: chat, lane: 0, to: {devices: [a, b], kvBlocks: 100}, atMs: 500}]\n")
	if len(o.Refused) != 1 || o.With.Shortage == nil || o.With.Shortage.Device != "a" {
		t.Errorf("a second copy of half the layers can't fit beside a full lane: refused %v, shortage %+v", o.Refused, o.With.Shortage)
	}
	o = run(t, burst+"actions: [{kind: replicate, tenant: chat, to: {devices: [b]}}, {kind: evict, tenant: chat, lane: 0, atMs: 3000}]\n")
	if f := o.With.Tenants[0].Totals.Finished; f != 128 {
		t.Errorf("%d of 128 requests finished over an eviction", f)
	}
	if d := o.With.Devices[0]; d.WeightBytes != 0 || d.KVBytes != 0 {
		t.Errorf("the evicted lane still holds %d + %d bytes", d.WeightBytes, d.KVBytes)
	}
}

func TestReadRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no devices":     "tenants: [{id: x, model: Llama-3.1-8B}]",
		"unknown field":  burst + "colour: red\n",
		"unknown tenant": burst + "actions: [{kind: evict, tenant: y}]\n",
		"unknown action": burst + "actions: [{kind: polish, tenant: chat, to: {devices: [a]}}]\n",
		"unknown device": burst + "actions: [{kind: move, tenant: chat, to: {devices: [z]}}]\n",
		"unknown kind":   strings.Replace(burst, "hardware: RTX4090", "hardware: abacus", 1),
		"unknown model":  strings.Replace(burst, "Llama-3.1-8B", "Lama", 1),
		"bad link":       strings.Replace(burst, "to: b, gb", "to: c, gb", 1),
	} {
		w, err := Read(strings.NewReader(text))
		if err == nil {
			_, err = WhatIf(w, "")
		}
		if err == nil {
			t.Errorf("%s: accepted", name)
		} else if strings.HasPrefix(name, "no") && !errors.Is(err, ErrWorld) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
