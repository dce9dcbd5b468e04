package actors

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
	"slicescheduler/gpuworker/faulty"
	"slicescheduler/gpuworker/sim"
)

// chaosSeed returns the seed of a random test: $SLICER_SEED, else a new one. It is logged.
func chaosSeed(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("SLICER_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("SLICER_SEED: %v", err)
		}
	}
	t.Logf("SLICER_SEED=%d", seed)
	return seed
}

// chaosDevices fail one call in a hundred, in every way but by hanging.
func chaosDevices(t *testing.T, seed uint64) []gpuworker.Device {
	var list []gpuworker.Device
	for i := range 3 {
		plan := faulty.Seeded{Seed: seed + uint64(i), Actions: []faulty.Action{{Kind: faulty.Fail}, {Kind: faulty.Slow, DelayNs: 5e6}}}
		plan.Rate[faulty.Enqueue], plan.Rate[faulty.CopyPeer], plan.Rate[faulty.LoadWeight] = 0.01, 0.01, 0.002
		list = append(list, faulty.Wrap(simDevice(t, fmt.Sprintf("n/sim%d", i), simMemoryBytes/8), plan, sim.NewRealClock().Sleep))
	}
	return list
}

// chaos is a run of random requests, cancellations, slow clients and removals of tenants.
type chaos struct {
	n       *testNode
	random  *rand.Rand
	clients sync.WaitGroup
	mu      sync.Mutex
	ended   map[FinishReason]int
	answers map[string][]int32 // the longest seen for each prompt
	refused int
}

// request sends one request with a client of a random temper.
func (c *chaos) request() {
	r := greedy(gmg.TenantID("t"+strconv.Itoa(c.random.IntN(4))), strings.Repeat("word ", 5*c.random.IntN(12)), 1+c.random.IntN(60))
	if c.random.IntN(3) == 0 {
		r.Stop = []string{"e"}
	}
	temper, readNs := c.random.IntN(6), time.Duration(c.random.IntN(5e6))
	s, err := c.n.Generate(c.n.t.Context(), r)
	if err != nil {
		c.refused++
		return
	}
	c.clients.Go(func() {
		ctx, cancel := context.WithTimeout(c.n.t.Context(), patience)
		defer cancel()
		defer s.Close()
		var tokens []int32
		for read := 0; ; read++ {
			if temper == 0 && read == 3 {
				return // gone
			}
			if temper == 1 {
				<-time.After(readNs)
			}
			e, err := s.Next(ctx)
			if err != nil {
				c.n.t.Errorf("request %s was lost: %v", s.ID(), err)
				return
			}
			tokens = append(tokens, e.Tokens...)
			if e.Finish != "" {
				c.end(r.Prompt, tokens, e)
				return
			}
		}
	})
}

// end counts a request's end. All tenants serve one model, so answers to one prompt must agree as far as they go, whatever failed in between.
func (c *chaos) end(prompt string, tokens []int32, e Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.answers[prompt]
	if n := min(len(known), len(tokens)); !slices.Equal(known[:n], tokens[:n]) {
		c.n.t.Errorf("prompt of %d bytes got %v, and %v before", len(prompt), tokens, known)
	}
	if len(tokens) > len(known) {
		c.answers[prompt] = tokens
	}
	c.ended[e.Finish]++
	if (e.Finish == FinishError) != (e.Err != nil) {
		c.n.t.Errorf("finish %q with error %v", e.Finish, e.Err)
	}
}

// tenant removes a tenant or submits it.
func (c *chaos) tenant() {
	id := gmg.TenantID("t" + strconv.Itoa(c.random.IntN(4)))
	if c.n.RemoveTenant(c.n.t.Context(), id) == nil && c.random.IntN(2) == 0 {
		return
	}
	c.n.submit(gmg.TenantSpec{ID: id, SplitOver: 1 + c.random.IntN(3), MaxSequences: 4, MaxQueue: 20})
}

// Whatever happens in whatever order, every request ends exactly once, and in the end nothing is held.
func TestNoRequestIsEverLost(t *testing.T) {
	seed := chaosSeed(t)
	bubble(t, func(t *testing.T) {
		n := start(t, NodeConfig{Devices: chaosDevices(t, seed), Limits: Limits{BatchTokens: 32, StreamTokens: 8}})
		defer n.stop()
		c := &chaos{n: n, random: rand.New(rand.NewPCG(seed, 1)), ended: make(map[FinishReason]int), answers: make(map[string][]int32)}
		for i := range 4 {
			n.submit(gmg.TenantSpec{ID: gmg.TenantID("t" + strconv.Itoa(i)), SplitOver: 1 + i%3, MaxSequences: 4, MaxQueue: 20})
		}
		for range 1500 {
			switch k := c.random.IntN(100); {
			case k == 0:
				c.tenant()
			case k < 30:
				<-time.After(time.Duration(c.random.IntN(3e6)))
			default:
				c.request()
			}
		}
		c.clients.Wait()
		t.Logf("ended: %v, refused: %d", c.ended, c.refused)
		if c.ended[FinishLength] == 0 || c.ended[FinishStop] == 0 {
			t.Errorf("hardly anything was answered: %v", c.ended)
		}
		list, err := n.Tenants(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			if s.State == stateReady {
				n.awaitIdle(s.Spec.ID)
			}
		}
	})
}
