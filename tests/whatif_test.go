package tests

import (
	"encoding/json"
	"strings"
	"testing"
)

// A newcomer asks about the example: a second copy must help it, and asking wrongly must say how to ask.
func TestWhatIfOfTheExample(t *testing.T) {
	env := environment(t)
	world := invoke(t, env, "", "whatif", "--example")
	if world.status != 0 {
		t.Fatalf("--example: status %d, %s", world.status, world.stderr)
	}
	asked := invoke(t, env, world.stdout, "whatif", "--world", "-", "--json", "replicate:chat@gpu1")
	type forecast struct {
		Tenants []struct {
			Totals struct{ ViolatedRequests, Finished int } `json:"totals"`
		} `json:"tenants"`
	}
	var o struct{ Without, With forecast }
	if err := json.Unmarshal([]byte(asked.stdout), &o); err != nil || asked.status != 0 {
		t.Fatalf("status %d, %v: %s%s", asked.status, err, asked.stdout, asked.stderr)
	}
	before, after := o.Without.Tenants[0].Totals, o.With.Tenants[0].Totals
	if before.Finished != after.Finished || before.Finished == 0 || after.ViolatedRequests >= before.ViolatedRequests {
		t.Errorf("a second copy changed %+v to %+v", before, after)
	}
	if text := invoke(t, env, world.stdout, "whatif", "--world", "-", "replicate:chat@gpu1"); !strings.Contains(text.stdout, "chat mean TTFT") {
		t.Errorf("the table is %q, %s", text.stdout, text.stderr)
	}
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"whatif", "evict:chat"}, 2, "--world FILE"},
		{[]string{"whatif", "--world", "-"}, 2, "no action"},
		{[]string{"whatif", "--world", "-", "polish:chat"}, 2, "polish"},
		{[]string{"whatif", "--world", "-", "evict:nobody"}, 1, "nobody"},
		{[]string{"whatif", "--world", "nowhere.yaml", "evict:chat"}, 1, "nowhere.yaml"},
		{[]string{"whatif", "--world", "-", "borrow-rows:chat@gpu1"}, 2, "borrow-rows:TENANT#LANE@DEVICE=PERCENT"},
		{[]string{"whatif", "--world", "-", "throttle:chat=few"}, 2, "throttle:TENANT=SEQUENCES"},
		{[]string{"whatif", "--world", "-", "borrow-attention:chat@gpu9=10"}, 1, "gpu9"},
		{[]string{"whatif", "--world", "-", "migrate:chat#0@#1=500"}, 1, "500"},
	} {
		if got := invoke(t, env, world.stdout, c.args...); got.status != c.status || !strings.Contains(got.stderr, c.says) {
			t.Errorf("%v: status %d, %q; wants %d and %q", c.args, got.status, got.stderr, c.status, c.says)
		}
	}
}

// Every kind of action that the help names can be asked about in one go, and what is lent shows at the lender.
func TestWhatIfLends(t *testing.T) {
	env := environment(t)
	help := invoke(t, env, "", "whatif", "--help")
	world := invoke(t, env, "", "whatif", "--example")
	asked := []string{
		"borrow-attention:chat@gpu1=25", "borrow-rows:chat@gpu1=30", "throttle:chat=40", "move:chat#0@gpu0", "evict:chat#0", "replicate:chat@gpu1",
		"stream-prefill:chat@gpu1", "migrate:chat#0@#1=r2",
	}
	for _, text := range asked {
		kind, _, _ := strings.Cut(text, ":")
		if !strings.Contains(help.stdout, kind+":TENANT") {
			t.Errorf("the help doesn't say how to ask for %s", kind)
		}
	}
	got := invoke(t, env, world.stdout, append([]string{"whatif", "--world", "-", "--json"}, asked[:3]...)...)
	type device struct{ BusyNs, KVBytes, WeightBytes int64 }
	var o struct {
		Without, With struct{ Devices []device }
		Refused       []string
	}
	if err := json.Unmarshal([]byte(got.stdout), &o); err != nil || got.status != 0 || len(o.Refused) > 0 {
		t.Fatalf("status %d, %v, refused %v: %s", got.status, err, o.Refused, got.stderr)
	}
	if lender := o.With.Devices[1]; lender.BusyNs == 0 || lender.KVBytes == 0 || lender.WeightBytes != o.Without.Devices[0].WeightBytes {
		t.Errorf("the lender comes to %+v", lender)
	}
	if all := invoke(t, env, world.stdout, append([]string{"whatif", "--world", "-"}, asked...)...); all.status != 0 {
		t.Errorf("all at once: status %d, %s", all.status, all.stderr)
	}
}
