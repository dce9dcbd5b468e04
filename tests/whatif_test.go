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
	} {
		if got := invoke(t, env, world.stdout, c.args...); got.status != c.status || !strings.Contains(got.stderr, c.says) {
			t.Errorf("%v: status %d, %q; wants %d and %q", c.args, got.status, got.stderr, c.status, c.says)
		}
	}
}
