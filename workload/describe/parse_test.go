package describe

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestParseAction(t *testing.T) {
	for text, want := range map[string]Action{
		"replicate:chat@b":             {Kind: "replicate", Tenant: "chat", To: Lane{Devices: []string{"b"}}},
		"move:chat#2@a,b":              {Kind: "move", Tenant: "chat", Lane: 2, To: Lane{Devices: []string{"a", "b"}}},
		"move:chat@n1/cpu0":            {Kind: "move", Tenant: "chat", To: Lane{Devices: []string{"n1/cpu0"}}},
		"evict:chat#1":                 {Kind: "evict", Tenant: "chat", Lane: 1},
		"evict:a:colon":                {Kind: "evict", Tenant: "a:colon"},
		"stream-prefill:chat@b":        {Kind: "stream-prefill", Tenant: "chat", To: Lane{Devices: []string{"b"}}},
		"borrow-attention:chat#1@b=40": {Kind: "borrow-attention", Tenant: "chat", Lane: 1, Helper: "b", Percent: 40},
		"borrow-rows:chat@n1/cpu0=25%": {Kind: "borrow-rows", Tenant: "chat", Helper: "n1/cpu0", Percent: 25},
		"borrow-rows:odd=name@b=0":     {Kind: "borrow-rows", Tenant: "odd=name", Helper: "b"},
		"throttle:chat=8":              {Kind: "throttle", Tenant: "chat", MaxSequences: 8},
		"migrate:chat#0@#1=7":          {Kind: "migrate", Tenant: "chat", ToLane: 1, Sequence: 7},
		"migrate:chat#2@#0=r3":         {Kind: "migrate", Tenant: "chat", Lane: 2, Sequence: 3, OfRunning: true},
		"replicate:chat@b,c":           {Kind: "replicate", Tenant: "chat", To: Lane{Devices: []string{"b", "c"}}},
	} {
		if got, err := ParseAction(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; wants %+v", text, got, err, want)
		}
	}
	for _, f := range ActionForms() { // the form itself is no action, and its refusal says it
		if _, err := ParseAction(f.Kind + ":"); err == nil || !strings.Contains(err.Error(), f.Form) {
			t.Errorf("%s: %v, wants the form %q", f.Kind, err, f.Form)
		}
	}
	for _, text := range []string{"", "replicate", "replicate:", "replicate:chat", "replicate:chat#1@b", "replicate:chat@", "replicate:chat@a,,b", "move:chat#x@a",
		"move:chat#-1@a", "move:chat#1", "evict:chat@a", "evict:#1", "polish:chat@a",
		"borrow-rows:chat@b", "borrow-rows:chat=4", "borrow-rows:chat@b=many", "borrow-rows:chat@b,c=4", "borrow-attention:chat@=4", "throttle:chat", "throttle:chat#1=3",
		"throttle:chat@b=3", "throttle:chat=-1", "migrate:chat=3", "migrate:chat@1=3", "migrate:chat@#x=3", "migrate:chat#0@#1=r", "stream-prefill:chat#1@b"} {
		if _, err := ParseAction(text); !errors.Is(err, ErrWorld) || !strings.Contains(err.Error(), `"`+text+`"`) {
			t.Errorf("%q: %v, wants a refusal that names it", text, err)
		}
	}
}
