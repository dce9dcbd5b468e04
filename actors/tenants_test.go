package actors

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slicescheduler/actors/specstore"
	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
	"slicescheduler/model"
)

func TestSubmitTenantRefusals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := start(t, NodeConfig{})
		defer n.stop()
		n.submit(gmg.TenantSpec{ID: "a"})
		n.submit(gmg.TenantSpec{ID: "a"}) // the same again
		for _, test := range []struct {
			name string
			spec gmg.TenantSpec
			is   error
		}{
			{"another spec", gmg.TenantSpec{ID: "a", Model: "tiny-story"}, ErrTenantExists},
			{"bad name", gmg.TenantSpec{ID: "a/b", Model: "tiny-story"}, ErrInvalid},
			{"no model", gmg.TenantSpec{ID: "c"}, ErrInvalid},
			{"unknown model", gmg.TenantSpec{ID: "c", Model: "nothing"}, model.ErrNotFound},
			{"split too far", gmg.TenantSpec{ID: "c", Model: "tiny-story", SplitOver: 2}, ErrInvalid},
			{"bad template", gmg.TenantSpec{ID: "c", Model: "tiny-story", ChatTemplate: "{% for %}"}, ErrInvalid},
		} {
			if err := n.SubmitTenant(t.Context(), test.spec); !errors.Is(err, test.is) {
				t.Errorf("%s: %v, want %v", test.name, err, test.is)
			}
		}
		if list, err := n.Tenants(t.Context()); err != nil || len(list) != 1 {
			t.Errorf("tenants %v, error %v", list, err)
		}
		if err := n.RemoveTenant(t.Context(), "b"); !errors.Is(err, ErrNoTenant) {
			t.Errorf("remove: %v", err)
		}
	})
}

func TestKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := start(t, NodeConfig{})
		defer n.stop()
		n.submit(gmg.TenantSpec{ID: "a"})
		key, err := n.AddKey(t.Context(), "a", "first")
		if err != nil || !strings.HasPrefix(key, keyPrefix) {
			t.Fatalf("key %q, error %v", key, err)
		}
		if _, err := n.AddKey(t.Context(), "a", "first"); !errors.Is(err, ErrKeyExists) {
			t.Errorf("same name: %v", err)
		}
		for _, bad := range []string{"", " x", "a\nb", "\x1b[31mred", "\xff", strings.Repeat("x", maxKeyName+1)} {
			if _, err := n.AddKey(t.Context(), "a", bad); !errors.Is(err, ErrInvalid) {
				t.Errorf("name %q: %v", bad, err)
			}
		}
		if id, ok := n.CheckKey(t.Context(), key); !ok || id != "a" {
			t.Errorf("key belongs to %q, %v", id, ok)
		}
		for _, wrong := range []string{"", keyPrefix, key[:len(key)-1], key + "x"} {
			if _, ok := n.CheckKey(t.Context(), wrong); ok {
				t.Errorf("%q is taken for a key", wrong)
			}
		}
		list, err := n.Keys(t.Context(), "a")
		if err != nil || len(list) != 1 || list[0].Name != "first" || !strings.HasPrefix(key, list[0].Prefix) || len(list[0].Prefix) > 20 {
			t.Errorf("keys %+v, error %v", list, err)
		}
		if err := n.RemoveKey(t.Context(), "a", "second"); !errors.Is(err, ErrNoKey) {
			t.Errorf("remove: %v", err)
		}
		if err := n.RemoveKey(t.Context(), "a", "first"); err != nil {
			t.Error(err)
		}
		if _, ok := n.CheckKey(t.Context(), key); ok {
			t.Error("a removed key is still good")
		}
		again, err := n.AddKey(t.Context(), "a", "first")
		if err != nil || again == key {
			t.Errorf("key %q again, error %v", again, err)
		}
		if err := n.RemoveTenant(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if _, ok := n.CheckKey(t.Context(), again); ok {
			t.Error("the key of a removed tenant is still good")
		}
	})
}

// childDir names the data directory of the child process of TestTenantsSurviveKill.
const childDir = "SLICER_TEST_KILLED_NODE"

// A node that is killed the moment after a submitter heard yes has its tenants and keys when it comes back.
func TestTenantsSurviveKill(t *testing.T) {
	if dir := os.Getenv(childDir); dir != "" {
		killedNode(t, dir)
		return
	}
	dir := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestTenantsSurviveKill$")
	child.Env = append(os.Environ(), childDir+"="+dir)
	out, err := child.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != -1 {
		t.Fatalf("the child should have been killed: %v\n%s", err, out)
	}
	key, err := os.ReadFile(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	n := start(t, NodeConfig{DataDir: dir, Devices: []gpuworker.Device{simDevice(t, "n/sim0", simMemoryBytes)}})
	defer n.stop()
	list, err := n.Tenants(t.Context())
	if err != nil || len(list) != 1 || list[0].Spec.ID != "kept" || list[0].Spec.MaxQueue != 7 {
		t.Fatalf("tenants %+v, error %v", list, err)
	}
	if id, ok := n.CheckKey(t.Context(), string(key)); !ok || id != "kept" {
		t.Errorf("key belongs to %q, %v", id, ok)
	}
	n.await("kept", stateReady)
	if a := n.generate(greedy("kept", "x", 5)); a.last.Finish != FinishLength {
		t.Errorf("finish %q: %v", a.last.Finish, a.last.Err)
	}
}

// killedNode makes tenants and a key, removes one tenant, and kills its own process without any warning.
func killedNode(t *testing.T, dir string) {
	n, err := StartNode(t.Context(), NodeConfig{Name: "n", DataDir: dir, Library: newTestLibrary(), Devices: simDevices(t, 1)})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []gmg.TenantID{"kept", "removed"} {
		if err := n.SubmitTenant(t.Context(), gmg.TenantSpec{ID: id, Model: "tiny-guide", MaxQueue: 7}); err != nil {
			t.Fatal(err)
		}
	}
	key, err := n.AddKey(t.Context(), "kept", "k")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := n.RemoveTenant(t.Context(), "removed"); err != nil {
		t.Fatal(err)
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := self.Kill(); err != nil {
		t.Fatal(err)
	}
	select {}
}

// A tenant whose model is gone when the node comes back is listed with the reason, and can be removed.
func TestRestartWithoutModel(t *testing.T) {
	dir, models := t.TempDir(), t.TempDir()
	file := filepath.Join(models, "mine.gguf")
	copyEmbedded(t, file)
	library := model.NewLibrary(models)
	n := start(t, NodeConfig{DataDir: dir, Library: library})
	n.submit(gmg.TenantSpec{ID: "a", Model: "mine"})
	n.stop()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	n = start(t, NodeConfig{DataDir: dir, Library: library})
	defer n.stop()
	if s := n.await("a", stateFailed); !strings.Contains(s.Reason, "mine") {
		t.Errorf("reason %q", s.Reason)
	}
	if _, err := n.Generate(t.Context(), greedy("a", "x", 1)); !errors.Is(err, ErrTenantNotReady) {
		t.Errorf("generate: %v", err)
	}
	if err := n.RemoveTenant(context.Background(), "a"); err != nil {
		t.Error(err)
	}
}

// brokenStore is a store whose disk is full.
type brokenStore struct{ specstore.Store }

var errDiskFull = errors.New("disk is full")

func (brokenStore) Put(...gmg.Fact) error { return errDiskFull }

// What can't be kept on disk doesn't happen: no tenant, no key, no removal.
func TestChangesThatCannotBeKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := start(t, NodeConfig{})
		defer n.stop()
		n.submit(gmg.TenantSpec{ID: "a"})
		n.await("a", stateReady)
		good := n.store
		n.store = brokenStore{good}
		if err := n.SubmitTenant(t.Context(), gmg.TenantSpec{ID: "b", Model: "tiny-story"}); !errors.Is(err, errDiskFull) {
			t.Errorf("submit: %v", err)
		}
		if _, err := n.AddKey(t.Context(), "a", "k"); !errors.Is(err, errDiskFull) {
			t.Errorf("key: %v", err)
		}
		if err := n.RemoveTenant(t.Context(), "a"); !errors.Is(err, errDiskFull) {
			t.Errorf("remove: %v", err)
		}
		n.store = good
		if list, err := n.Tenants(t.Context()); err != nil || len(list) != 1 || list[0].Spec.ID != "a" || list[0].State != stateReady {
			t.Errorf("tenants %+v, error %v", list, err)
		}
		if specs := n.rt.snapshot.Load().Tenants(); len(specs) != 1 || specs[0].ID != "a" {
			t.Errorf("the graph has %+v", specs)
		}
		if _, err := n.AddKey(t.Context(), "a", "k"); err != nil {
			t.Errorf("key: %v", err)
		}
	})
}

func TestNodeListings(t *testing.T) {
	bubble(t, func(t *testing.T) {
		links := []gmg.Link{{From: "n/sim0", To: "n/sim1", Kind: gmg.LinkMemory, BandwidthBytesPerS: 1e9}}
		n := start(t, NodeConfig{Devices: simDevices(t, 2), Version: "v", HTTPAddr: "h", Links: links})
		defer n.stop()
		n.submit(gmg.TenantSpec{ID: "a", SplitOver: 2})
		n.await("a", stateReady)
		n.generate(greedy("a", "x", 200))
		list, err := n.Slices(t.Context())
		if err != nil || len(list) != 2 || list[0].Index != 0 || list[1].Steps != 200 || list[1].BusyNs == 0 || list[0].State != "resident" {
			t.Errorf("slices %+v, error %v", list, err)
		}
		nodes, err := n.Nodes(t.Context())
		if err != nil || len(nodes) != 1 || nodes[0].ID != "n" || nodes[0].Version != "v" || nodes[0].HTTP != "h" {
			t.Errorf("nodes %+v, error %v", nodes, err)
		}
		devices, err := n.Devices(t.Context())
		if err != nil || len(devices) != 2 || devices[0].Held["kv"] == 0 || devices[0].FreeBytes <= 0 {
			t.Errorf("devices %+v, error %v", devices, err)
		}
		if ok, why := n.Ready(t.Context()); !ok {
			t.Errorf("not ready: %s", why)
		}
		m := n.Metrics()
		if len(m.Tenants) != 1 || m.Tenants[0].CompletionTokens != 200 || m.Tenants[0].TTFT.Count != 1 || m.Tenants[0].Requests[FinishLength] != 1 {
			t.Errorf("metrics %+v", m)
		}
	})
}
