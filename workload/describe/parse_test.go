package describe

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestParseAction(t *testing.T) {
	for text, want := range map[string]Action{
		"replicate:chat@b":   {Kind: "replicate", Tenant: "chat", To: Lane{Devices: []string{"b"}}},
		"move:chat#2@a,b":    {Kind: "move", Tenant: "chat", Lane: 2, To: Lane{Devices: []string{"a", "b"}}},
		"move:chat@n1/cpu0":  {Kind: "move", Tenant: "chat", To: Lane{Devices: []string{"n1/cpu0"}}},
		"evict:chat#1":       {Kind: "evict", Tenant: "chat", Lane: 1},
		"evict:a:colon":      {Kind: "evict", Tenant: "a:colon"},
		"replicate:chat@b,c": {Kind: "replicate", Tenant: "chat", To: Lane{Devices: []string{"b", "c"}}},
	} {
		if got, err := ParseAction(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; wants %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "replicate", "replicate:", "replicate:chat", "replicate:chat#1@b", "replicate:chat@", "replicate:chat@a,,b", "move:chat#x@a",
		"move:chat#-1@a", "move:chat#1", "evict:chat@a", "evict:#1", "polish:chat@a"} {
		if _, err := ParseAction(text); !errors.Is(err, ErrWorld) || !strings.Contains(err.Error(), `"`+text+`"`) {
			t.Errorf("%q: %v, wants a refusal that names it", text, err)
		}
	}
}
