package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"slicescheduler/cluster/secret"
)

func TestSecretIsMadeShownAndRotated(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if got := call(t, nil, "secret", "new", file); got.status != exitOK || !strings.Contains(got.out, "--secret-file "+file) || strings.Contains(got.out, "slicer-secret-") {
		t.Fatalf("new: %+v", got)
	}
	if got := call(t, nil, "secret", "new", file); got.status != exitFailed || !strings.Contains(got.err, "rotate add") {
		t.Errorf("new over a file that is there: %+v", got)
	}
	shown := func() (list []secretInfo) {
		t.Helper()
		got := call(t, nil, "secret", "show", file, "--json")
		if err := json.Unmarshal([]byte(got.out), &list); err != nil {
			t.Fatalf("%v: %+v", err, got)
		}
		return list
	}
	first := shown()
	for _, step := range []struct {
		step, next string
		secrets    int
	}{{"add", "rotate use", 2}, {"use", "rotate remove", 2}, {"remove", "opens nothing", 1}} {
		got := call(t, nil, "secret", "rotate", step.step, file)
		if got.status != exitOK || !strings.Contains(got.out, step.next) || len(shown()) != step.secrets {
			t.Errorf("%s: %+v, then %+v", step.step, got, shown())
		}
	}
	if last := shown(); last[0].Fingerprint == first[0].Fingerprint || last[0].Use != "in use" {
		t.Errorf("after the rotation %+v, before it %+v", last, first)
	}
}

func TestSecretCommandsRefuse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if got := call(t, nil, "secret", "show", file); got.status != exitFailed || !strings.Contains(got.err, "slicer secret new") {
		t.Errorf("a file that isn't there: %+v", got)
	}
	if err := secret.WriteFile(file, secret.Keys{secret.New()}, true); err != nil {
		t.Fatal(err)
	}
	if got := call(t, nil, "secret", "rotate", "remove", file); got.status != exitFailed || !strings.Contains(got.err, "no second secret") {
		t.Errorf("remove without a second: %+v", got)
	}
	if got := call(t, nil, "secret", "rotate", "turn", file); got.status != exitUsage || !strings.Contains(got.err, "add, use or remove") {
		t.Errorf("an unknown step: %+v", got)
	}
	got := call(t, nil, "secret", "new")
	if _, err := secret.Parse(got.out); err != nil || got.status != exitOK {
		t.Errorf("on standard output: %v, status %d", err, got.status)
	}
}
