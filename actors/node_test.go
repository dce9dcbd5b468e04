package actors

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
	"slicescheduler/gpuworker/sampling"
	"slicescheduler/gpuworker/sim"
	"slicescheduler/model"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// Sizes of simulated devices. The embedded models take about 2 MB each, so a device has room for several.
const (
	simMemoryBytes    = 64 << 20
	simBandwidthBytes = 1e9
	simFLOPS          = 1e11
)

func simDevice(t testing.TB, id string, memoryBytes int64) *sim.Device {
	t.Helper()
	d, err := sim.New(sim.Config{Device: gmg.Device{
		ID: gmg.DeviceID(id), Node: "n", MemoryBytes: memoryBytes, BandwidthBytesPerS: simBandwidthBytes,
		PeakFLOPS: map[gmg.DType]float64{gmg.F16: simFLOPS, gmg.F32: simFLOPS, gmg.Q8_0: simFLOPS},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func simDevices(t testing.TB, n int) []gpuworker.Device {
	var list []gpuworker.Device
	for i := range n {
		list = append(list, simDevice(t, fmt.Sprintf("n/sim%d", i), simMemoryBytes))
	}
	return list
}

// testNode is a node that a test started, with what it needs to look at it.
type testNode struct {
	*Node
	t       testing.TB
	devices []gpuworker.Device
}

// start starts a node over devices, with simulated ones if none are given, and arranges nothing: call stop at the end, within a bubble if there is one.
func start(t testing.TB, c NodeConfig) *testNode {
	t.Helper()
	c.Name = "n"
	if c.Devices == nil {
		c.Devices = simDevices(t, 1)
	}
	if c.Library == nil {
		c.Library = model.NewLibrary()
	}
	n, err := StartNode(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return &testNode{n, t, c.Devices}
}

// stop closes the node and its devices, and checks that the node held nothing of them any more.
func (n *testNode) stop() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := n.Close(ctx); err != nil {
		n.t.Errorf("close: %v", err)
	}
	for _, d := range n.devices {
		if held := d.Ledger().HeldBytes(); held != 0 {
			n.t.Errorf("%s still holds %d bytes", d.Describe().ID, held)
		}
		if err := d.Close(); err != nil {
			n.t.Errorf("close device: %v", err)
		}
	}
}

// submit makes a tenant of the model named "tiny-guide" unless the spec says otherwise.
func (n *testNode) submit(s gmg.TenantSpec) {
	n.t.Helper()
	if s.Model == "" {
		s.Model = "tiny-guide"
	}
	if err := n.SubmitTenant(n.t.Context(), s); err != nil {
		n.t.Fatal(err)
	}
}

// await waits until a tenant is in a state.
func (n *testNode) await(id gmg.TenantID, state string) TenantStatus {
	n.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		s, err := n.Tenant(n.t.Context(), id)
		if err != nil {
			n.t.Fatal(err)
		}
		if s.State == state {
			return s
		}
		if time.Now().After(deadline) {
			n.t.Fatalf("tenant %s is %s (%s), not %s", id, s.State, s.Reason, state)
		}
		pause()
	}
}

// awaitIdle waits until all pages of a tenant are free.
func (n *testNode) awaitIdle(id gmg.TenantID) {
	n.t.Helper()
	deadline := time.Now().Add(patience)
	for s := n.await(id, stateReady); s.KVFree != s.KVTotal || s.Running > 0; s = n.await(id, stateReady) {
		if time.Now().After(deadline) {
			n.t.Fatalf("%d of %d pages free, %d requests run", s.KVFree, s.KVTotal, s.Running)
		}
		pause()
	}
}

// pause lets time pass: no longer than it takes others in a bubble, and little without one.
func pause() { <-time.After(time.Millisecond) }

// greedy is a request for so many tokens without sampling.
func greedy(tenant gmg.TenantID, prompt string, tokens int) GenerateRequest {
	p := sampling.Default()
	p.Temperature = 0
	return GenerateRequest{Tenant: tenant, Prompt: prompt, MaxTokens: tokens, IgnoreEOS: true, Sampling: p, Logprobs: -1}
}

// answer is a whole answer.
type answer struct {
	text     string
	tokens   []int32
	logprobs []TokenLogprob
	last     Event
}

// patience is how long anything may take before a test gives it up; in a bubble it passes in no time.
const patience = 10 * time.Minute

// read reads a stream to its end and checks that it ends once.
func read(t testing.TB, s Stream) answer {
	t.Helper()
	var a answer
	var text strings.Builder
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		e, err := s.Next(ctx)
		if err != nil {
			t.Fatalf("request %s: %v", s.ID(), err)
		}
		text.WriteString(e.Text)
		a.tokens = append(a.tokens, e.Tokens...)
		a.logprobs = append(a.logprobs, e.Logprobs...)
		if e.Finish != "" {
			a.text, a.last = text.String(), e
			break
		}
	}
	if _, err := s.Next(t.Context()); !errors.Is(err, ErrStreamEnded) {
		t.Errorf("after the end: %v, want ErrStreamEnded", err)
	}
	s.Close()
	return a
}

func (n *testNode) generate(r GenerateRequest) answer {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), patience)
	defer cancel()
	s, err := n.Generate(ctx, r)
	if err != nil {
		n.t.Fatal(err)
	}
	return read(n.t, s)
}

// bubble runs a test in which time passes as soon as everybody waits for it.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func TestOneRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := start(t, NodeConfig{})
		defer n.stop()
		n.submit(gmg.TenantSpec{ID: "a"})
		s := n.await("a", stateReady)
		if len(s.Lanes) != 1 || len(s.Lanes[0].Slices) != 1 || s.KVFree != s.KVTotal || s.KVTotal == 0 {
			t.Errorf("lanes %+v, %d of %d pages free", s.Lanes, s.KVFree, s.KVTotal)
		}
		a := n.generate(greedy("a", "Hello", 20))
		if len(a.tokens) != 20 || a.last.Finish != FinishLength || a.last.Usage.CompletionTokens != 20 || a.last.Usage.PromptTokens < 1 {
			t.Errorf("%d tokens, last %+v", len(a.tokens), a.last)
		}
		if b := n.generate(greedy("a", "Hello", 20)); b.text != a.text {
			t.Errorf("second answer %q, first %q", b.text, a.text)
		}
		timing := a.last.Timing
		if timing.ScheduledNs < timing.ArrivalNs || timing.FirstTokenNs <= timing.ScheduledNs || timing.LastTokenNs <= timing.FirstTokenNs {
			t.Errorf("timing out of order: %+v", timing)
		}
	})
}
