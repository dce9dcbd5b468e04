package whatif

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// mixedSpec is a cluster of four servers with noise, urgent work and a link between any two devices.
func mixedSpec() *Spec {
	spec := serverSpec(4, 12, 60, 80e6)
	spec.Order, spec.Noise = OrderUrgent, Noise{Seed: 7, StepPct: 10, HiccupEvery: 50, HiccupNs: 3e6}
	spec.KeepRecords = true
	for a := range spec.Devices {
		spec.Devices[a].MemoryBytes = 96 << 30
		for b := range spec.Devices {
			if a != b {
				spec.Links = append(spec.Links, LinkSpec{a, b, 20e9, 8000})
			}
		}
	}
	for i := range spec.Tenants {
		spec.Tenants[i].TTFTLimitNs, spec.Tenants[i].TPOTLimitNs = 1e9, 50e6
		for k := range spec.Tenants[i].Live {
			spec.Tenants[i].Live[k].OutputTokens = 300 + 17*k
		}
	}
	return spec
}

type timedAction struct {
	at int64
	a  Action
}

// mixedActions are one of each kind.
func mixedActions(spec *Spec) []timedAction {
	on := func(device int) LaneSpec {
		l := spec.Tenants[0].Lanes[0]
		l.Ranks = []RankSpec{{Slices: []SliceSpec{{Device: device, Program: l.Ranks[0].Slices[0].Program, KVBytes: 5 << 30}}}}
		return l
	}
	borrowed, prefill := on(2), on(3)
	borrowed.Borrowed, prefill.Prefill = true, true
	return []timedAction{
		{200e6, BorrowAttention{0, 0, 1, 40, 8 << 30}},
		{300e6, AddLane{1, borrowed, 150e6}},
		{400e6, BorrowRows{2, 0, 3, 25, 100e6}},
		{500e6, Throttle{0, 9}},
		{600e6, MoveLane{3, 0, on(0), 90e6}},
		{700e6, MigrateSequence{Tenant: 1, Request: 3, From: 0, To: 1, StopNs: 2e6}},
		{900e6, AddLane{2, prefill, 50e6}},
		{1000e6, Reshape{[]MoveLane{{1, 0, on(1), 80e6}}}},
		{1200e6, BorrowAttention{0, 0, 1, 0, 0}},
		{1300e6, Throttle{0, 0}},
		{1400e6, RemoveLane{2, 1}},
	}
}

// answers is what a simulation says of every request and device, as text of its own so that new fields elsewhere change nothing.
func answers(s *Sim) []byte {
	var out []byte
	for ti := range s.spec.Tenants {
		for i, r := range s.Records(ti) {
			out = fmt.Appendln(out, "request", ti, i, r.ArrivalNs, r.QueuedNs, r.ScheduledNs, r.FirstNs, r.LastNs, r.Lane, r.Preemptions)
		}
	}
	for _, d := range s.Forecast().Devices {
		out = fmt.Appendln(out, "device", d.ID, d.BusyNs, d.WeightBytes, d.KVBytes, d.FreeBytes)
	}
	return out
}

// mixedHash is the SHA-256 of what the mixed scenario comes to. It changes when the simulator's answers do, and only then: a change of speed keeps it.
const mixedHash = "09dc45272b6773d39b0fcd2b9fa419c2cba7459713a8a9007acb6e6356678cf2"

// The same scenario gives the same bytes in every build and on every machine of the architecture. Others may fuse a multiplication and an addition.
func TestMixedScenarioHash(t *testing.T) {
	spec := mixedSpec()
	sims := []*Sim{mustNew(t, spec, Exact), mustNew(t, spec, Fast)}
	for _, step := range mixedActions(spec) {
		for _, s := range sims {
			s.Run(step.at)
			if err := s.Apply(step.a); err != nil {
				t.Fatalf("%T at %d: %v", step.a, step.at, err)
			}
		}
	}
	for _, s := range sims {
		s.Drain()
	}
	if d := differForecast(sims[0].Forecast(), sims[1].Forecast()) + differ(records(sims[0]), records(sims[1])); d != "" {
		t.Fatalf("exact and fast differ: %s", d)
	}
	got := answers(sims[1])
	if runtime.GOARCH != "amd64" {
		t.Skipf("the hash is of amd64, this is %s", runtime.GOARCH)
	}
	if sum := sha256.Sum256(got); hex.EncodeToString(sum[:]) != mixedHash {
		t.Errorf("the hash is %x; it comes to\n%.400s", sum, got)
	}
}

// askedOf is what a fork comes to that takes some of the actions.
func askedOf(fork *Sim, actions []timedAction, number int) []byte {
	var out []byte
	for k, step := range actions {
		fork.Run(fork.Now() + 20e6)
		if number>>(k%5)&1 == 1 {
			out = fmt.Appendln(out, fork.Apply(step.a))
		}
	}
	fork.RunTouched(fork.Now() + 600e6)
	return fmt.Appendf(out, "%+v", fork.Forecast())
}

// Forks that run at the same time come to the same bytes as one after the other, whatever the number of workers.
func TestForksInParallel(t *testing.T) {
	spec := mixedSpec()
	base := mustNew(t, spec, Fast)
	base.Run(150e6)
	if err := base.Apply(BorrowAttention{1, 0, 2, 30, 8 << 30}); err != nil {
		t.Fatal(err)
	}
	base.Run(200e6)
	actions := mixedActions(spec)
	const forks = 32
	ask := func(workers int) [forks][]byte {
		var out [forks][]byte
		todo := make(chan int)
		sims := make([]*Sim, forks)
		for i := range sims {
			sims[i] = base.Fork()
		}
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for i := range todo {
					out[i] = askedOf(sims[i], actions, i)
				}
			})
		}
		for i := range forks {
			todo <- i
		}
		close(todo)
		wg.Wait()
		return out
	}
	want := ask(1)
	if bytes.Equal(want[0], want[31]) {
		t.Fatal("the actions change nothing, so nothing is compared")
	}
	for _, workers := range []int{1, 8} {
		got := ask(workers)
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("%d workers: fork %d comes to\n%s\nwants\n%s", workers, i, got[i], want[i])
			}
		}
	}
}
