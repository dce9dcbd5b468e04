package actors

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"slicescheduler/actors/protocol"
	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
	"slicescheduler/gpuworker/faulty"
	"slicescheduler/gpuworker/sim"
)

func faultyDevice(t testing.TB, id string, script faulty.Script) *faulty.Device {
	t.Helper()
	return faulty.Wrap(simDevice(t, id, simMemoryBytes), script, sim.NewRealClock().Sleep)
}

// A load that fails half-way gives back all it took, on every device, and says why; the tenant can be removed and come again.
func TestLoadFailureFreesEverything(t *testing.T) {
	bubble(t, func(t *testing.T) {
		bad := faultyDevice(t, "n/bad", faulty.Script{
			{Call: faulty.LoadWeight, Nth: 1, Action: faulty.Action{Kind: faulty.Slow, DelayNs: 1e9}}, // so that a request can come meanwhile
			{Call: faulty.LoadWeight, Nth: 5, Action: faulty.Action{Kind: faulty.Fail}},
		})
		n := start(t, NodeConfig{Devices: []gpuworker.Device{simDevice(t, "n/good", simMemoryBytes), bad}})
		defer n.stop()
		n.submit(gmg.TenantSpec{ID: "a", SplitOver: 2})
		s, err := n.Generate(t.Context(), greedy("a", "waits for the load", 5))
		if err != nil {
			t.Fatal(err)
		}
		if a := read(t, s); a.last.Finish != FinishError || !errors.Is(a.last.Err, ErrFailed) {
			t.Errorf("finish %q: %v", a.last.Finish, a.last.Err)
		}
		status := n.await("a", stateFailed)
		if !strings.Contains(status.Reason, faulty.ErrInjected.Error()) {
			t.Errorf("reason %q doesn't say what happened", status.Reason)
		}
		for _, d := range n.devices {
			if held := d.Ledger().HeldBytes(); held != 0 {
				t.Errorf("%s holds %d bytes", d.Describe().ID, held)
			}
		}
		if _, err := n.Generate(t.Context(), greedy("a", "x", 5)); !errors.Is(err, ErrTenantNotReady) {
			t.Errorf("generate: %v, want ErrTenantNotReady", err)
		}
		if err := n.RemoveTenant(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		n.submit(gmg.TenantSpec{ID: "a", SplitOver: 2})
		n.await("a", stateReady)
		n.generate(greedy("a", "x", 5))
	})
}

// want returns what an answer should be, from a node where nothing fails.
func wantAnswer(t *testing.T, r GenerateRequest) (text string) {
	bubble(t, func(t *testing.T) {
		n := start(t, NodeConfig{})
		defer n.stop()
		n.submit(gmg.TenantSpec{ID: "a"})
		text = n.generate(r).text
	})
	return text
}

// A step that fails once is computed again; its requests notice nothing.
func TestFailedStepIsRetried(t *testing.T) {
	r := greedy("a", "something to continue", 40)
	want := wantAnswer(t, r)
	for _, over := range []int{1, 2} {
		bubble(t, func(t *testing.T) {
			script := faulty.Script{
				{Call: faulty.Enqueue, Nth: 3, Action: faulty.Action{Kind: faulty.Fail}},
				{Call: faulty.Enqueue, Nth: 50, Action: faulty.Action{Kind: faulty.Fail}},
			}
			n := start(t, NodeConfig{Limits: Limits{StepRetries: 2}, Devices: []gpuworker.Device{
				faultyDevice(t, "n/bad", script), simDevice(t, "n/good", simMemoryBytes),
			}})
			defer n.stop()
			n.submit(gmg.TenantSpec{ID: "a", SplitOver: over})
			if a := n.generate(r); a.text != want || len(a.tokens) != 40 {
				t.Errorf("over %d devices: %d tokens %q, want %q", over, len(a.tokens), a.text, want)
			}
		})
	}
}

// A device that keeps failing ends the requests on it with an error that names it; the tenant serves again when the device does.
func TestFailingDeviceEndsRequests(t *testing.T) {
	bubble(t, func(t *testing.T) {
		script := faulty.Script{
			{Call: faulty.Enqueue, Nth: 3, Action: faulty.Action{Kind: faulty.Fail}},
			{Call: faulty.Enqueue, Nth: 4, Action: faulty.Action{Kind: faulty.Fail}},
		}
		n := start(t, NodeConfig{Devices: []gpuworker.Device{faultyDevice(t, "n/bad", script)}})
		defer n.stop()
		n.submit(gmg.TenantSpec{ID: "a"})
		a := n.generate(greedy("a", "x", 20))
		if a.last.Finish != FinishError || !errors.Is(a.last.Err, ErrFailed) || !strings.Contains(a.last.Err.Error(), "n/bad") {
			t.Errorf("finish %q: %v", a.last.Finish, a.last.Err)
		}
		if a := n.generate(greedy("a", "x", 20)); a.last.Finish != FinishLength {
			t.Errorf("afterwards: %q %v", a.last.Finish, a.last.Err)
		}
		if s := n.await("a", stateReady); s.KVFree != s.KVTotal {
			t.Errorf("%d of %d pages free", s.KVFree, s.KVTotal)
		}
	})
}

// When a device is lost its tenants move to another, and their requests go on where they were.
func TestLostDeviceMovesTenants(t *testing.T) {
	r := greedy("a", "something to continue", 40)
	want := wantAnswer(t, r)
	bubble(t, func(t *testing.T) {
		script := faulty.Script{{Call: faulty.Enqueue, Nth: 10, Action: faulty.Action{Kind: faulty.Sick}}}
		n := start(t, NodeConfig{Devices: []gpuworker.Device{faultyDevice(t, "n/bad", script), simDevice(t, "n/good", simMemoryBytes)}})
		defer n.stop()
		n.submit(gmg.TenantSpec{ID: "a"})
		a := n.generate(r)
		if a.text != want || a.last.Finish != FinishLength {
			t.Errorf("finish %q (%v): %q, want %q", a.last.Finish, a.last.Err, a.text, want)
		}
		s := n.await("a", stateReady)
		if d := s.Lanes[0].Slices[0].Device; d != "n/good" {
			t.Errorf("the lane is on %s", d)
		}
		devices, err := n.Devices(t.Context())
		if err != nil || devices[0].Device.Healthy || devices[0].Device.Reason == "" {
			t.Errorf("devices %+v, error %v", devices, err)
		}
	})
}

func TestLostOnlyDeviceFailsTenant(t *testing.T) {
	bubble(t, func(t *testing.T) {
		script := faulty.Script{{Call: faulty.Enqueue, Nth: 10, Action: faulty.Action{Kind: faulty.Sick}}}
		n := start(t, NodeConfig{Devices: []gpuworker.Device{faultyDevice(t, "n/bad", script)}})
		defer n.stop()
		n.submit(gmg.TenantSpec{ID: "a"})
		a := n.generate(greedy("a", "x", 40))
		if a.last.Finish != FinishError || !strings.Contains(a.last.Err.Error(), "n/bad") {
			t.Errorf("finish %q: %v", a.last.Finish, a.last.Err)
		}
		n.await("a", stateFailed)
	})
}

// A device that hangs is given up after the step's time limit; its memory stays held until it is closed, since it may still be in use.
func TestHungDeviceIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		script := faulty.Script{{Call: faulty.Enqueue, Nth: 5, Action: faulty.Action{Kind: faulty.Hang}}}
		hung := faultyDevice(t, "n/hung", script)
		n := start(t, NodeConfig{Limits: Limits{StepTimeout: time.Second}, Devices: []gpuworker.Device{hung, simDevice(t, "n/good", simMemoryBytes)}})
		n.submit(gmg.TenantSpec{ID: "a"})
		if a := n.generate(greedy("a", "x", 40)); a.last.Finish != FinishLength {
			t.Errorf("finish %q: %v", a.last.Finish, a.last.Err)
		}
		if err := n.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if hung.Ledger().HeldBytes() == 0 {
			t.Error("memory that a hung step uses was given back")
		}
		for _, d := range n.devices {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// crash panics once in an actor whose name begins with a prefix, at its nth message of a type.
func crash(prefix string, match func(any) bool, nth int32) func(string, any) {
	var seen atomic.Int32
	return func(name string, message any) {
		if strings.HasPrefix(name, prefix) && match(message) && seen.Add(1) == nth {
			panic("injected")
		}
	}
}

func isMessage[T any](m any) bool {
	_, ok := m.(T)
	return ok
}

// Whatever actor panics, every request is answered or failed, the tenant serves again, and nothing stays held.
func TestActorsThatPanic(t *testing.T) {
	tests := []struct {
		name    string
		inject  func(string, any)
		answers bool // requests are answered all the same
	}{
		{"tenant at a submit", crash(tenantPrefix, isMessage[*protocol.Submit], 2), false},
		{"tenant after a step", crash(tenantPrefix, isMessage[*protocol.StepDone], 3), false},
		{"tenant at its lane", crash(tenantPrefix, isMessage[*protocol.LaneState], 2), false},
		{"slice in a step", crash(slicePrefix, isMessage[*protocol.RunStep], 3), true},
		{"gateway at a submit", crash(gatewayName, isMessage[admitRequest], 2), false},
		{"gateway at a reply", crash(gatewayName, isMessage[*protocol.SubmitReply], 2), false},
		{"gpu at sizes", crash(gpuPrefix, isMessage[*protocol.SizeQuery], 1), false},
		{"gpu at a reservation", crash(gpuPrefix, isMessage[*protocol.Reserve], 1), false},
		{"gpu after loading", crash(gpuPrefix, isMessage[loadDone], 1), true},
		{"gpu at a tick", crash(gpuPrefix, isMessage[tick], 1), true},
		{"planner at sizes", crash(plannerName, isMessage[*protocol.SizeReply], 1), true},
		{"planner at a reservation", crash(plannerName, isMessage[*protocol.ReserveReply], 1), true},
		{"gmg at facts", crash(gmgName, isMessage[putFacts], 3), true},
		{"gmg at its start", crash(gmgName, isMessage[*actor.Started], 1), true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := start(t, NodeConfig{inject: test.inject, Devices: simDevices(t, 2)})
				defer n.stop()
				n.submit(gmg.TenantSpec{ID: "a"})
				var readers sync.WaitGroup
				for range 5 {
					s, err := n.Generate(t.Context(), greedy("a", "x", 20))
					if err != nil {
						if test.answers {
							t.Error(err)
						}
						continue
					}
					readers.Go(func() {
						if a := read(t, s); test.answers && a.last.Finish != FinishLength {
							t.Errorf("finish %q: %v", a.last.Finish, a.last.Err)
						}
					})
				}
				readers.Wait()
				n.recover()
			})
		})
	}
}

// recover checks that tenant a serves, after it was removed and submitted again if it had failed.
func (n *testNode) recover() {
	n.t.Helper()
	s, err := n.Tenant(n.t.Context(), "a")
	if err != nil {
		n.t.Fatal(err)
	}
	if s.State == stateFailed {
		if err := n.RemoveTenant(n.t.Context(), "a"); err != nil {
			n.t.Fatal(err)
		}
		n.submit(gmg.TenantSpec{ID: "a"})
	}
	s = n.await("a", stateReady)
	if a := n.generate(greedy("a", "y", 20)); a.last.Finish != FinishLength {
		n.t.Errorf("afterwards: finish %q: %v", a.last.Finish, a.last.Err)
	}
	if s = n.await("a", stateReady); s.KVFree != s.KVTotal {
		n.t.Errorf("%d of %d pages free", s.KVFree, s.KVTotal)
	}
}

// A tenant that panics at every message is stopped: its requests end, its memory is free, and it is listed as failed until it is removed.
func TestTenantThatAlwaysPanics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var healed atomic.Bool
		n := start(t, NodeConfig{inject: func(name string, message any) {
			if strings.HasPrefix(name, tenantPrefix) && isMessage[*protocol.StepDone](message) && !healed.Load() {
				panic("injected")
			}
		}})
		defer n.stop()
		n.submit(gmg.TenantSpec{ID: "a"})
		n.await("a", stateReady)
		for range 2 * restartLimit {
			s, err := n.Generate(t.Context(), greedy("a", "x", 20))
			if err != nil {
				if !errors.Is(err, ErrTenantNotReady) {
					t.Error(err)
				}
				continue
			}
			if a := read(t, s); a.last.Finish != FinishError || !errors.Is(a.last.Err, ErrFailed) {
				t.Errorf("finish %q: %v", a.last.Finish, a.last.Err)
			}
		}
		if s := n.await("a", stateFailed); !strings.Contains(s.Reason, "too many failures") {
			t.Errorf("reason %q", s.Reason)
		}
		healed.Store(true)
		if err := n.RemoveTenant(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		n.submit(gmg.TenantSpec{ID: "a"})
		n.recover()
	})
}

func TestRemoveTenantUnderLoad(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := start(t, NodeConfig{Devices: simDevices(t, 2)})
		defer n.stop()
		n.submit(gmg.TenantSpec{ID: "a", SplitOver: 2})
		n.submit(gmg.TenantSpec{ID: "b"})
		n.await("a", stateReady)
		n.await("b", stateReady)
		before := n.devices[1].Ledger().HeldBytes()
		var readers sync.WaitGroup
		for i := range 60 {
			tenant := []gmg.TenantID{"a", "b"}[i%2]
			s, err := n.Generate(t.Context(), greedy(tenant, "x", 100))
			if err != nil {
				t.Fatal(err)
			}
			readers.Go(func() {
				a := read(t, s)
				if tenant == "b" && a.last.Finish != FinishLength {
					t.Errorf("request to b: %q %v", a.last.Finish, a.last.Err)
				}
				if tenant == "a" && a.last.Finish != FinishLength && a.last.Err == nil {
					t.Errorf("request to a: %q without an error", a.last.Finish)
				}
			})
		}
		pause()
		if err := n.RemoveTenant(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		readers.Wait()
		if held := n.devices[1].Ledger().HeldBytes(); before == 0 || held != 0 {
			t.Errorf("the second device held %d bytes before and %d after", before, held)
		}
		if _, err := n.Generate(t.Context(), greedy("a", "x", 1)); !errors.Is(err, ErrNoTenant) {
			t.Errorf("generate: %v", err)
		}
	})
}

// A tenant that finds no room waits, and is placed when another leaves.
func TestTenantWaitsForMemory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := start(t, NodeConfig{Devices: []gpuworker.Device{tightDevice(t)}})
		defer n.stop()
		n.submit(gmg.TenantSpec{ID: "a"})
		n.await("a", stateReady)
		n.submit(gmg.TenantSpec{ID: "b"})
		s, err := n.Generate(t.Context(), greedy("b", "x", 5))
		if err != nil {
			t.Fatal(err)
		}
		for !strings.Contains(n.await("b", stateLoading).Reason, "memory") {
			pause()
		}
		if err := n.RemoveTenant(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if a := read(t, s); a.last.Finish != FinishLength {
			t.Errorf("finish %q: %v", a.last.Finish, a.last.Err)
		}
	})
}

func TestModelThatNeverFits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := start(t, NodeConfig{Devices: []gpuworker.Device{simDevice(t, "n/small", 1<<20)}})
		defer n.stop()
		n.submit(gmg.TenantSpec{ID: "a"})
		if s := n.await("a", stateFailed); !strings.Contains(s.Reason, "exceeds") {
			t.Errorf("reason %q", s.Reason)
		}
	})
}
