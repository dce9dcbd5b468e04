package describe

import (
	"errors"
	"strings"
	"testing"
)

// A tenant with a lane on each of two unequal devices.
const twoHomes = `
horizonMs: 20000
devices:
  - {id: a, hardware: RTX4090}
  - {id: b, hardware: A100}
links:
  - {from: a, to: b, gbPerS: 20, latencyUs: 10}
tenants:
  - id: chat
    model: Llama-3.1-8B
    ttftMs: 1500
    lanes: [{devices: [a]}, {devices: [b], kvBlocks: 4000}]
    running: [{promptTokens: 500, tokensSoFar: 20, outputTokens: 400, count: 8}]
    requests: [{atMs: 1000, everyMs: 20, count: 60, promptTokens: 700, outputTokens: 120}]
`

func TestEachActionDoesWhatItSays(t *testing.T) {
	for text, holds := range map[string]func(o *Outcome) bool{
		"borrow-attention:chat#0@b=40": func(o *Outcome) bool {
			return o.With.Devices[1].KVBytes > o.Without.Devices[1].KVBytes && o.With.Devices[1].BusyNs > o.Without.Devices[1].BusyNs
		},
		"borrow-rows:chat#0@b=40": func(o *Outcome) bool {
			return o.With.Devices[1].WeightBytes == 2*o.Without.Devices[1].WeightBytes && o.With.Tenants[0].Totals.MeanTPOTMs() < o.Without.Tenants[0].Totals.MeanTPOTMs()
		},
		"throttle:chat=2": func(o *Outcome) bool {
			return o.With.Tenants[0].Waiting > 0 && o.With.Tenants[0].Totals.MeanTPOTMs() < o.Without.Tenants[0].Totals.MeanTPOTMs()
		},
		"migrate:chat#0@#1=r3": func(o *Outcome) bool {
			return o.With.Devices[1].BusyNs > o.Without.Devices[1].BusyNs
		},
		"stream-prefill:chat@b": func(o *Outcome) bool { // waits for its weights, then takes prompts
			return o.With.Devices[1].WeightBytes == o.Without.Devices[0].WeightBytes && o.With.Tenants[0].Totals.MeanTTFTMs() < o.Without.Tenants[0].Totals.MeanTTFTMs()
		},
	} {
		w, err := Read(strings.NewReader(twoHomes))
		if err != nil {
			t.Fatal(err)
		}
		switch text[:strings.IndexByte(text, ':')] {
		case "migrate":
			w.Tenants[0].Requests = nil
		case "stream-prefill":
			w.Tenants[0].Lanes = w.Tenants[0].Lanes[:1]
		}
		a, err := ParseAction(text)
		if err != nil {
			t.Fatal(err)
		}
		w.Actions = []Action{a}
		o, err := WhatIf(w, "")
		if err != nil || len(o.Refused) > 0 {
			t.Errorf("%s: %v, refused %v", text, err, o.Refused)
			continue
		}
		if !holds(o) {
			t.Errorf("%s changed\n%+v\nto\n%+v", text, o.Without, o.With)
		}
	}
}

// The same in YAML, with its figures said; ending what was borrowed gives the memory back.
func TestBorrowAndGiveBack(t *testing.T) {
	o := run(t, twoHomes+`actions:
  - {kind: borrow-attention, tenant: chat, helper: b, percent: 30, kvGiB: 2}
  - {kind: borrow-rows, tenant: chat, helper: b, percent: 20, loadMs: 100}
  - {kind: borrow-attention, tenant: chat, helper: b, percent: 0, atMs: 3000}
  - {kind: borrow-rows, tenant: chat, helper: b, percent: 0, atMs: 4000}
`)
	a, b := o.Without.Devices[1], o.With.Devices[1]
	if len(o.Refused) > 0 || a.WeightBytes != b.WeightBytes || a.KVBytes != b.KVBytes || a.BusyNs == b.BusyNs {
		t.Errorf("lending changed %+v to %+v, refused %v", a, b, o.Refused)
	}
	o = run(t, twoHomes+"actions: [{kind: borrow-attention, tenant: chat, helper: b, percent: 30, kvGiB: 200}]\n")
	if len(o.Refused) != 1 || o.With.Shortage == nil || o.With.Shortage.Device != "b" {
		t.Errorf("200 GiB are lent: refused %v, shortage %+v", o.Refused, o.With.Shortage)
	}
}

func TestActionsThatMakeNoSense(t *testing.T) {
	for _, c := range []struct{ action, says string }{
		{"{kind: polish, tenant: chat}", "borrow-rows"},
		{"{kind: borrow-rows, tenant: chat, helper: z, percent: 10}", `"z"`},
		{"{kind: borrow-attention, tenant: chat, lane: 7, helper: b, percent: 10}", "kvGiB"},
		{"{kind: migrate, tenant: chat, sequence: 60, toLane: 1}", "60"},
		{"{kind: migrate, tenant: chat, sequence: 8, ofRunning: true, toLane: 1}", "running"},
	} {
		w, err := Read(strings.NewReader(twoHomes + "actions: [" + c.action + "]\n"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := WhatIf(w, ""); !errors.Is(err, ErrWorld) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, wants %q", c.action, err, c.says)
		}
	}
}
