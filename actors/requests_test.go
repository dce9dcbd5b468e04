package actors

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
	"slicescheduler/model"
)

// prompts returns prompts that differ from each other, some of several pages.
func prompts(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("request %d: ", i) + strings.Repeat(fmt.Sprintf("word%d ", i%7), i%40)
	}
	return list
}

// A thousand requests to two tenants that share a device, all at once, get what each gets alone: nobody the other's answer, nobody half of one.
func TestInterleavedRequestsGetTheirOwnAnswers(t *testing.T) {
	const requests, tokens = 1000, 6
	all := prompts(requests)
	alone := make([]string, requests)
	bubble(t, func(t *testing.T) {
		n := start(t, NodeConfig{})
		defer n.stop()
		n.submit(gmg.TenantSpec{ID: "a"})
		for i, p := range all {
			alone[i] = n.generate(greedy("a", p, tokens)).text
		}
	})
	seen := make(map[string]bool)
	for _, text := range alone {
		seen[text] = true
	}
	if len(seen) < requests*9/10 {
		t.Fatalf("only %d different answers: they can't tell requests apart", len(seen))
	}
	bubble(t, func(t *testing.T) {
		n := start(t, NodeConfig{Limits: Limits{MaxQueue: requests}})
		defer n.stop()
		n.submit(gmg.TenantSpec{ID: "a"})
		n.submit(gmg.TenantSpec{ID: "b", MaxSequences: 8})
		var readers sync.WaitGroup
		for i, p := range all {
			s, err := n.Generate(t.Context(), greedy([]gmg.TenantID{"a", "b"}[i%2], p, tokens))
			if err != nil {
				t.Fatal(err)
			}
			readers.Go(func() {
				if a := read(t, s); a.text != alone[i] || a.last.Finish != FinishLength {
					t.Errorf("request %d got %q (%s), alone %q", i, a.text, a.last.Finish, alone[i])
				}
			})
		}
		readers.Wait()
		for _, id := range []gmg.TenantID{"a", "b"} {
			s := n.await(id, stateReady)
			if s.SLA.Finished != requests/2 || s.KVFree != s.KVTotal || s.Waiting+s.Running != 0 {
				t.Errorf("tenant %s afterwards: %+v", id, s)
			}
		}
	})
}

// Layers split over two devices, with steps of both in flight, change no answer.
func TestSplitLaneGivesTheSameAnswers(t *testing.T) {
	const tokens = 12
	all := prompts(40)
	want := make([]string, len(all))
	for _, over := range []int{1, 2, 3} {
		bubble(t, func(t *testing.T) {
			n := start(t, NodeConfig{Devices: simDevices(t, 3), Limits: Limits{BatchTokens: 64}})
			defer n.stop()
			n.submit(gmg.TenantSpec{ID: "a", SplitOver: over})
			s := n.await("a", stateReady)
			if len(s.Lanes[0].Slices) != over {
				t.Fatalf("lane %+v, want %d slices", s.Lanes[0], over)
			}
			var readers sync.WaitGroup
			for i, p := range all {
				s, err := n.Generate(t.Context(), greedy("a", p, tokens))
				if err != nil {
					t.Fatal(err)
				}
				readers.Go(func() {
					a := read(t, s)
					if over == 1 {
						want[i] = a.text
					} else if a.text != want[i] {
						t.Errorf("over %d devices request %d got %q, want %q", over, i, a.text, want[i])
					}
				})
			}
			readers.Wait()
		})
	}
}

// stepsOf returns how many steps a tenant has completed.
func (n *testNode) stepsOf(id gmg.TenantID) int64 {
	for _, m := range n.Metrics().Tenants {
		if m.Tenant == id {
			return m.Steps
		}
	}
	return 0
}

// Whether a request is in the middle of its prompt or of its answer, when its client goes its pages are free within a step.
func TestCancelFreesPagesWithinAStep(t *testing.T) {
	for _, state := range []string{"prefill", "decode"} {
		t.Run(state, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := start(t, NodeConfig{Limits: Limits{BatchTokens: 32}})
				defer n.stop()
				n.submit(gmg.TenantSpec{ID: "a"})
				n.await("a", stateReady)
				n.cancelIn(state)
				steps := n.stepsOf("a")
				for s := n.await("a", stateReady); s.KVFree != s.KVTotal; s = n.await("a", stateReady) {
					pause()
				}
				if after := n.stepsOf("a"); after > steps+1 {
					t.Errorf("%d steps until its pages were free, want at most 1", after-steps)
				}
			})
		})
	}
}

// cancelIn starts a long request and cancels it in a state.
func (n *testNode) cancelIn(state string) {
	n.t.Helper()
	s, err := n.Generate(n.t.Context(), greedy("a", strings.Repeat("a long prompt ", 60), 100))
	if err != nil {
		n.t.Fatal(err)
	}
	for n.requestState(s.ID()) != state {
		pause()
	}
	s.Close()
	for n.requestState(s.ID()) != "" {
		pause()
	}
	if _, err := s.Next(n.t.Context()); !errors.Is(err, ErrStreamClosed) {
		n.t.Errorf("next of a closed stream: %v", err)
	}
}

// A client that goes leaves no trace in another's answer.
func TestCancelLeavesOthersAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := start(t, NodeConfig{Limits: Limits{BatchTokens: 32, StreamTokens: 1000}})
		defer n.stop()
		n.submit(gmg.TenantSpec{ID: "a"})
		want := n.generate(greedy("a", "other", 600))
		other, err := n.Generate(t.Context(), greedy("a", "other", 600))
		if err != nil {
			t.Fatal(err)
		}
		n.cancelIn("prefill")
		n.cancelIn("decode")
		if n.requestState(other.ID()) == "" {
			t.Fatal("the other request had ended before anything was cancelled")
		}
		if a := read(t, other); a.text != want.text {
			t.Errorf("the other request got %q, alone %q", a.text, want.text)
		}
	})
}

// requestState returns a live request's state, empty when there is none.
func (n *testNode) requestState(id string) string {
	n.t.Helper()
	list, err := n.Requests(n.t.Context())
	if err != nil {
		n.t.Fatal(err)
	}
	for _, r := range list {
		if r.ID == id {
			return r.State
		}
	}
	return ""
}

// A client that doesn't read holds back its own request only, and finds all of its answer when it reads at last.
func TestSlowClientPausesItsOwnRequest(t *testing.T) {
	const window, tokens = 8, 300
	bubble(t, func(t *testing.T) {
		n := start(t, NodeConfig{Limits: Limits{StreamTokens: window}})
		defer n.stop()
		n.submit(gmg.TenantSpec{ID: "a"})
		slow, err := n.Generate(t.Context(), greedy("a", "slow", tokens))
		if err != nil {
			t.Fatal(err)
		}
		if a := n.generate(greedy("a", "quick", tokens)); len(a.tokens) != tokens {
			t.Errorf("the quick client got %d tokens", len(a.tokens))
		}
		synctest.Wait()
		list, err := n.Requests(t.Context())
		if err != nil || len(list) != 1 || list[0].OutputTokens > window+2 {
			t.Errorf("requests %+v, error %v; want one of at most %d tokens", list, err, window+2)
		}
		if unread := slow.(*stream).unread; unread > window+2 {
			t.Errorf("%d tokens wait for the client, the window is %d", unread, window)
		}
		a := read(t, slow)
		if b := n.generate(greedy("a", "slow", tokens)); a.text != b.text || len(a.tokens) != tokens {
			t.Errorf("the slow client got %d tokens %q, want %q", len(a.tokens), a.text, b.text)
		}
	})
}

// Clients that don't read can't keep all slots for themselves.
func TestSlowClientsGiveUpTheirSlots(t *testing.T) {
	const tokens = 100
	bubble(t, func(t *testing.T) {
		n := start(t, NodeConfig{Limits: Limits{StreamTokens: 8}})
		defer n.stop()
		n.submit(gmg.TenantSpec{ID: "a", MaxSequences: 2})
		var slow []Stream
		for i := range 3 {
			s, err := n.Generate(t.Context(), greedy("a", fmt.Sprint("slow ", i), tokens))
			if err != nil {
				t.Fatal(err)
			}
			slow = append(slow, s)
		}
		want := n.generate(greedy("a", "quick", tokens))
		for i, s := range slow {
			a := read(t, s)
			if b := n.generate(greedy("a", fmt.Sprint("slow ", i), tokens)); a.text != b.text || a.last.Finish != FinishLength {
				t.Errorf("slow client %d got %q (%s), want %q", i, a.text, a.last.Finish, b.text)
			}
		}
		if again := n.generate(greedy("a", "quick", tokens)); again.text != want.text {
			t.Errorf("the quick client got %q, then %q", want.text, again.text)
		}
		n.awaitIdle("a")
	})
}

// fill sends requests until one is refused and returns how many were taken, with their streams.
func (n *testNode) fill(id gmg.TenantID, most int) (taken []Stream, refused error) {
	n.t.Helper()
	for i := range most {
		s, err := n.Generate(n.t.Context(), greedy(id, fmt.Sprint("fill ", i), 50))
		if err != nil {
			return taken, err
		}
		taken = append(taken, s)
	}
	return taken, nil
}

// The queue's limit is the same for a tenant that loads as for one that runs.
func TestQueueLimit(t *testing.T) {
	const queue, sequences = 5, 2
	check := func(t *testing.T, n *testNode, most, want int) {
		taken, err := n.fill("a", most)
		var full *QueueError
		if !errors.As(err, &full) || !errors.Is(err, ErrQueueFull) || full.RetryAfter <= 0 || full.Tenant != "a" {
			t.Errorf("error %v, want a QueueError with a time", err)
		}
		if len(taken) != want {
			t.Errorf("%d requests taken, want %d", len(taken), want)
		}
		for _, s := range taken {
			if a := read(t, s); a.last.Finish != FinishLength {
				t.Errorf("finish %q: %v", a.last.Finish, a.last.Err)
			}
		}
	}
	t.Run("loading", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			n := start(t, NodeConfig{Devices: []gpuworker.Device{slowLoader(t)}})
			defer n.stop()
			n.submit(gmg.TenantSpec{ID: "a", MaxQueue: queue, MaxSequences: sequences})
			check(t, n, 100, queue)
		})
	})
	t.Run("loaded", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			n := start(t, NodeConfig{})
			defer n.stop()
			n.submit(gmg.TenantSpec{ID: "a", MaxQueue: queue, MaxSequences: sequences})
			n.await("a", stateReady)
			running, err := n.fill("a", sequences)
			for n.await("a", stateReady).Running < sequences {
				pause()
			}
			if err != nil {
				t.Fatal(err)
			}
			check(t, n, 100, queue)
			for _, s := range running {
				read(t, s)
			}
		})
	})
}

func TestRefusals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := start(t, NodeConfig{})
		defer n.stop()
		n.submit(gmg.TenantSpec{ID: "a", MaxContext: 64})
		long := strings.Repeat("word ", 200)
		nan := greedy("a", "x", 1)
		nan.Sampling.Temperature = float32(nanValue())
		bias := greedy("a", "x", 1)
		bias.Sampling.LogitBias = map[int32]float32{1 << 30: 1}
		stop := greedy("a", "x", 1)
		stop.Stop = []string{""}
		tests := []struct {
			name  string
			r     GenerateRequest
			is    error
			field string
		}{
			{"prompt above the context", greedy("a", long, 1), ErrTooLong, ""},
			{"answer above the context", greedy("a", "x", 64), ErrTooLong, ""},
			{"open end above the context", greedy("a", long, 0), ErrTooLong, ""},
			{"no tenant", greedy("b", "x", 1), ErrNoTenant, ""},
			{"token beyond the vocabulary", GenerateRequest{Tenant: "a", PromptTokens: []int32{1 << 30}}, ErrInvalid, "prompt"},
			{"two prompts", GenerateRequest{Tenant: "a", Prompt: "x", PromptTokens: []int32{1}}, ErrInvalid, "prompt"},
			{"no messages", GenerateRequest{Tenant: "a", Messages: []model.Message{}}, ErrInvalid, "messages"},
			{"temperature", nan, ErrInvalid, "temperature"},
			{"bias", bias, ErrInvalid, "logit_bias"},
			{"stop", stop, ErrInvalid, "stop"},
			{"max_tokens", greedy("a", "x", -1), ErrInvalid, "max_tokens"},
		}
		for _, test := range tests {
			_, err := n.Generate(t.Context(), test.r)
			var field *FieldError
			if !errors.Is(err, test.is) || errors.As(err, &field) != (test.field != "") || field != nil && field.Field != test.field {
				t.Errorf("%s: %v, want %v of %q", test.name, err, test.is, test.field)
			}
		}
		_, err := n.Generate(t.Context(), greedy("a", long, 7))
		var length *LengthError
		if !errors.As(err, &length) || length.LimitTokens != 64 || length.MaxTokens != 7 || length.PromptTokens < 64 || length.Pool {
			t.Errorf("%v, want a LengthError with both counts", err)
		}
	})
}

// A prompt above the KV pool, though below the context, is refused at once, and what is behind it doesn't wait.
func TestPromptAbovePool(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := start(t, NodeConfig{Devices: []gpuworker.Device{tightDevice(t)}})
		defer n.stop()
		n.submit(gmg.TenantSpec{ID: "a"})
		s := n.await("a", stateReady)
		m, err := n.TenantModel(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		pool := s.KVTotal * gpuworker.BlockTokens
		if pool+10 >= m.ContextTokens {
			t.Fatalf("the pool of %d tokens isn't below the context of %d", pool, m.ContextTokens)
		}
		long := make([]int32, pool+10)
		_, err = n.Generate(t.Context(), GenerateRequest{Tenant: "a", PromptTokens: long, MaxTokens: 1, Sampling: greedy("a", "", 1).Sampling})
		var length *LengthError
		if !errors.Is(err, ErrTooLarge) || !errors.As(err, &length) || !length.Pool || length.PromptTokens != pool+10 {
			t.Errorf("error %v, want a LengthError of the pool", err)
		}
		if a := n.generate(greedy("a", "short", 0)); a.last.Finish != FinishLength {
			t.Errorf("open end: %q %v", a.last.Finish, a.last.Err)
		}
	})
}

// A request that waits for a load and turns out to exceed the pool ends with the same error as one that comes later.
func TestPromptAbovePoolWhileLoading(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := start(t, NodeConfig{Devices: devicesOf(tightDevice(t))})
		defer n.stop()
		n.submit(gmg.TenantSpec{ID: "a"})
		m, err := n.TenantModel(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		r := greedy("a", "", 1)
		r.PromptTokens = make([]int32, m.ContextTokens-1)
		s, err := n.Generate(t.Context(), r)
		if err == nil {
			err = read(t, s).last.Err
		}
		var length *LengthError
		if !errors.As(err, &length) || !length.Pool || length.LimitTokens >= m.ContextTokens {
			t.Errorf("error %v, want a LengthError of the pool", err)
		}
		n.generate(greedy("a", "short", 5))
	})
}

func TestConfigIsChecked(t *testing.T) {
	good := NodeConfig{Name: "n", Devices: simDevices(t, 1), Library: model.NewLibrary()}
	defer good.Devices[0].Close()
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*NodeConfig){
		"name":     func(c *NodeConfig) { c.Name = "" },
		"devices":  func(c *NodeConfig) { c.Devices = nil },
		"twice":    func(c *NodeConfig) { c.Devices = append(c.Devices, c.Devices[0]) },
		"library":  func(c *NodeConfig) { c.Library = nil },
		"batch":    func(c *NodeConfig) { c.Limits.BatchTokens = -1 },
		"share":    func(c *NodeConfig) { c.Limits.KVSharePct = 101 },
		"interval": func(c *NodeConfig) { c.Limits.PublishInterval = 1 },
		"timeout":  func(c *NodeConfig) { c.Limits.StepTimeout = 1 },
	} {
		c := good
		change(&c)
		if _, err := StartNode(t.Context(), c); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v, want ErrConfig", name, err)
		}
	}
}

func TestCloseWaitsForStreams(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := start(t, NodeConfig{})
		n.submit(gmg.TenantSpec{ID: "a"})
		s, err := n.Generate(t.Context(), greedy("a", "x", 100))
		if err != nil {
			t.Fatal(err)
		}
		var closing sync.WaitGroup
		closing.Go(n.stop)
		if a := read(t, s); len(a.tokens) != 100 {
			t.Errorf("%d tokens, finish %q", len(a.tokens), a.last.Finish)
		}
		closing.Wait()
		if _, err := n.Generate(t.Context(), greedy("a", "x", 1)); !errors.Is(err, ErrShutdown) {
			t.Errorf("after close: %v", err)
		}
	})
}

func TestCloseEndsStreamsWhenTimeIsUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := start(t, NodeConfig{})
		n.submit(gmg.TenantSpec{ID: "a"})
		s, err := n.Generate(t.Context(), greedy("a", "x", 1000))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := n.Close(ctx); err != nil {
			t.Error(err)
		}
		if a := read(t, s); a.last.Finish != FinishError || !errors.Is(a.last.Err, ErrShutdown) {
			t.Errorf("finish %q: %v", a.last.Finish, a.last.Err)
		}
		n.stop()
	})
}
