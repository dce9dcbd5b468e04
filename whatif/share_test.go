package whatif

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"slicescheduler/gmg"
)

// drawHelp draws a helper for a lane of one rank, or nil when the device that was drawn is the lane's own.
func drawHelp(t *rapid.T, spec *Spec, tenant, lane int) Action {
	l := &spec.Tenants[tenant].Lanes[lane]
	device := rapid.IntRange(0, len(spec.Devices)-1).Draw(t, "helper")
	if len(l.Ranks) > 1 || slices.Contains(devicesOf(l), device) {
		return nil
	}
	percent := rapid.IntRange(1, 50).Draw(t, "percent")
	if rapid.Bool().Draw(t, "attention") {
		return BorrowAttention{tenant, lane, device, percent, int64(rapid.IntRange(1, 2000).Draw(t, "kv"))}
	}
	return BorrowRows{tenant, lane, device, percent, 0}
}

// Worlds in which lanes have helpers from the start.
func TestHelpersAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawWorld(t)
		o := newOracle(spec)
		var actions []Action
		for range rapid.IntRange(1, 4).Draw(t, "helpers") {
			tenant := rapid.IntRange(0, len(spec.Tenants)-1).Draw(t, "tenant")
			lane := rapid.IntRange(0, len(spec.Tenants[tenant].Lanes)-1).Draw(t, "lane")
			if a := drawHelp(t, spec, tenant, lane); a != nil && o.help(a) {
				actions = append(actions, a)
			}
		}
		o.run()
		for _, mode := range []Mode{Exact, Fast} {
			s := mustNew(t, spec, mode)
			for _, a := range actions {
				if err := s.Apply(a); err != nil {
					t.Fatal(err)
				}
			}
			s.Drain()
			if d := differ(records(s), o.out); d != "" {
				t.Fatalf("mode %d and the oracle differ at %s", mode, d)
			}
		}
	})
}

// drawLending draws a change of who helps or of how many may run; most are taken, some are refused.
func drawLending(t *rapid.T, spec *Spec) Action {
	tenant := rapid.IntRange(0, len(spec.Tenants)-1).Draw(t, "tenant")
	lane, device := rapid.IntRange(0, 2).Draw(t, "lane"), rapid.IntRange(0, len(spec.Devices)-1).Draw(t, "helper")
	percent := rapid.SampledFrom([]int{0, 20, 50, 80, 100}).Draw(t, "percent")
	switch rapid.IntRange(0, 2).Draw(t, "lending") {
	case 0:
		return BorrowAttention{tenant, lane, device, percent, int64(rapid.IntRange(1, 3000).Draw(t, "kv"))}
	case 1:
		return BorrowRows{tenant, lane, device, percent, int64(rapid.IntRange(0, 300).Draw(t, "load"))}
	}
	return Throttle{tenant, rapid.IntRange(0, 4).Draw(t, "sequences")}
}

// Helpers come, change and go at any time, among lanes that do too, with noise and every queue order: both modes agree at every moment, a fork goes on as
// its original, all requests are answered, links carry no more than they can, and no helper keeps memory when it is gone.
func TestLending(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawWorld(t)
		shared := rapid.Bool().Draw(t, "shared")
		if shared {
			spec = drawSharedWorld(t)
		} else {
			for i := range spec.Devices {
				spec.Devices[i].MemoryBytes = 1 << 14
			}
		}
		sims := []*Sim{mustNew(t, spec, Exact), mustNew(t, spec, Fast)}
		at := int64(0)
		for range rapid.IntRange(1, 8).Draw(t, "actions") {
			at += int64(rapid.IntRange(0, 400).Draw(t, "at"))
			a := drawLending(t, spec)
			if shared && rapid.IntRange(0, 3).Draw(t, "other") == 0 {
				a = drawSharedAction(t, spec)
			}
			errs := make([]error, len(sims))
			for i, s := range sims {
				s.Run(at)
				errs[i] = s.Apply(a)
				checkMemory(t, s)
				if fmt.Sprint(errs[0]) != fmt.Sprint(errs[i]) {
					t.Fatalf("simulations 0 and %d disagree on %+v: %v, %v", i, a, errs[0], errs[i])
				}
				if d := differForecast(sims[0].Forecast(), s.Forecast()); d != "" {
					t.Fatalf("simulations 0 and %d at %d: %s", i, at, d)
				}
			}
			if rapid.Bool().Draw(t, "fork") {
				sims = append(sims, sims[rapid.IntRange(0, len(sims)-1).Draw(t, "of")].Fork())
			}
		}
		for i, s := range sims {
			s.Drain()
			if d := differForecast(sims[0].Forecast(), s.Forecast()); d != "" {
				t.Fatalf("simulations 0 and %d after all: %s", i, d)
			}
		}
		if d := differ(records(sims[0]), records(sims[1])); d != "" {
			t.Fatalf("exact and fast differ at %s", d)
		}
		checkLent(t, spec, sims[1])
	})
}

// checkLent takes all helpers away from a world in which nothing is left to do, and looks whether all is as without them.
func checkLent(t *rapid.T, spec *Spec, s *Sim) {
	for ti := range spec.Tenants {
		x := s.Forecast().Tenants[ti]
		if x.Totals.Finished+x.Totals.Refused+int64(x.Waiting) != x.Totals.Arrived || x.Running != 0 {
			t.Fatalf("tenant %d: %+v", ti, x)
		}
		for lane := range s.islands[s.ofTenant[ti]].tenants[s.islands[s.ofTenant[ti]].tenantAt(ti)].lanes {
			for d := range spec.Devices {
				for _, a := range []Action{BorrowAttention{Tenant: ti, Lane: lane, Helper: d}, BorrowRows{Tenant: ti, Lane: lane, Helper: d}} {
					if err := s.Apply(a); err != nil && !errors.Is(err, ErrSpec) {
						t.Fatal(err)
					}
				}
			}
		}
	}
	for _, w := range s.islands {
		held := make([][2]int64, len(w.devices))
		for k := range w.lanes {
			l := &w.lanes[k]
			if l.lends() {
				t.Fatalf("lane %d of tenant %d has helpers yet: %+v", l.number, l.tenant, l.helpers)
			}
			if !l.held {
				continue
			}
			for _, r := range l.spec.Ranks {
				for i := range r.Slices {
					h := &held[w.deviceAt(r.Slices[i].Device)]
					h[0], h[1] = h[0]+l.weightBytes(&r.Slices[i]), h[1]+r.Slices[i].KVBytes
				}
			}
		}
		for i := range w.devices {
			if l := w.devices[i].ledger; l.Held[gmg.MemWeights] != held[i][0] || l.Held[gmg.MemKV] != held[i][1] {
				t.Fatalf("device %d holds %v, its lanes have %v", w.devices[i].id, l.Held, held[i])
			}
		}
		for _, l := range w.links {
			if most := spec.Links[l.id].BandwidthBytesPerS * float64(l.freeAt) / 1e9; float64(l.bytes) > most+1 {
				t.Fatalf("link %d carried %d bytes by %d ns, can carry %.0f", l.id, l.bytes, l.freeAt, most)
			}
		}
	}
}

// A fork keeps its helpers, and taking them away from it leaves the original as it is.
func TestForkKeepsHelpers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawWorld(t)
		base := mustNew(t, spec, Fast)
		helped := drawHelp(t, spec, 0, 0)
		if helped == nil {
			return
		}
		if err := base.Apply(helped); err != nil {
			t.Fatal(err)
		}
		base.Run(int64(rapid.IntRange(0, 2000).Draw(t, "at")))
		fork, other := base.Fork(), base.Fork()
		if err := other.Apply(ended(helped)); err != nil {
			t.Fatal(err)
		}
		other.Drain()
		fork.Drain()
		a := fmt.Sprintf("%+v", fork.Forecast())
		base.Drain()
		if b := fmt.Sprintf("%+v", base.Forecast()); a != b {
			t.Fatalf("the fork came to\n%s\nits original to\n%s", a, b)
		}
	})
}

// Who helps and what is throttled can be seen, and a simulation that goes on from there has it too.
func TestResumeKeepsLending(t *testing.T) {
	spec, actions := helpedSpec()
	world := mustNew(t, spec, Fast)
	for _, a := range append(actions, Throttle{1, 5}) {
		if err := world.Apply(a); err != nil {
			t.Fatal(err)
		}
	}
	world.Run(1e9)
	var st, again State
	world.Observe(&st)
	if h := st.Tenants[0].Lanes[0].Helpers; len(h) != 2 || h[0].Rows || h[0].Percent != 30 || h[0].Bytes != 40<<30 || !h[1].Rows || h[1].Device != 1 {
		t.Fatalf("helpers are %+v", h)
	}
	model, err := Resume(spec, &st, Guess{OutputTokens: func(int, *SequenceState) int { return 60_000 }}, Fast)
	if err != nil {
		t.Fatal(err)
	}
	model.Observe(&again)
	for k, h := range st.Tenants[0].Lanes[0].Helpers {
		got := again.Tenants[0].Lanes[0].Helpers[k]
		if got.ReadyNs = h.ReadyNs; got != h {
			t.Errorf("helper %d was %+v and is %+v", k, h, got)
		}
	}
	if n := again.Tenants[1].MaxSequences; n != 5 {
		t.Errorf("a throttle of 5 sequences became %d", n)
	}
	model.Run(3e9)
	world.Run(3e9)
	a, b := model.Forecast().Devices[1].BusyNs, world.Forecast().Devices[1].BusyNs-st.Devices[1].BusyNs
	if math.Abs(float64(a-b)) > 0.03*float64(b) { // the steps in flight began anew
		t.Errorf("the lender is busy for %d ns in the forecast and for %d in the world", a, b)
	}
	for i := range st.Devices {
		if a, b := st.Devices[i], again.Devices[i]; a.KVBytes != b.KVBytes || a.WeightBytes != b.WeightBytes {
			t.Errorf("device %d held %+v and holds %+v", i, a, b)
		}
	}
}

// helpedSpec is two servers of which the second one's device helps the first.
func helpedSpec() (*Spec, []Action) {
	spec := serverSpec(2, 48, 0, 0)
	spec.Links = []LinkSpec{{0, 1, 20e9, 5000}, {1, 0, 20e9, 5000}}
	for i := range spec.Tenants {
		spec.Devices[i].MemoryBytes = 0
		spec.Tenants[i].Lanes[0].Batching.KVBlocks, spec.Tenants[i].Lanes[0].Batching.MaxContext = 1<<20, 1<<20
	}
	return spec, []Action{BorrowAttention{0, 0, 1, 30, 40 << 30}, BorrowRows{0, 0, 1, 20, 0}}
}

// With helpers a step allocates no more than without; builds with invariants allocate in checks.
func TestHelpersAllocateNothing(t *testing.T) {
	perStep := func(help bool) float64 {
		spec, actions := helpedSpec()
		s := mustNew(t, spec, Exact)
		for _, a := range actions {
			if err := s.Apply(a); err != nil {
				t.Fatal(err)
			}
			if !help {
				if err := s.Apply(ended(a)); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.Run(1e9)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		steps := s.Forecast().Steps
		s.Run(8e9)
		runtime.ReadMemStats(&after)
		return float64(after.Mallocs-before.Mallocs) / float64(s.Forecast().Steps-steps)
	}
	if without, with := perStep(false), perStep(true); with > without+0.2 {
		t.Errorf("%.2f allocations a step with helpers, %.2f without", with, without)
	}
}

// ended is the action that takes a helper away.
func ended(a Action) Action {
	switch a := a.(type) {
	case BorrowAttention:
		a.Percent = 0
		return a
	case BorrowRows:
		a.Percent = 0
		return a
	}
	return a
}

func TestBorrowRefuses(t *testing.T) {
	g := golden{}
	g.world(t, "device a memory=400\ndevice b memory=200\ndevice c\nlink a b bw=1\nlink b a bw=1\ntenant x\nlane a:0-3 kv=100\nrequest at=0 prompt=2 output=9\n")
	for name, c := range map[string]struct {
		a    Action
		want error
	}{
		"percent":         {BorrowAttention{Helper: 1, Percent: 101, KVBytes: 4}, ErrSpec},
		"no device":       {BorrowAttention{Helper: 7, Percent: 10, KVBytes: 4}, ErrSpec},
		"no lane":         {BorrowRows{Lane: 3, Helper: 1, Percent: 10}, ErrSpec},
		"no tenant":       {BorrowRows{Tenant: 3, Helper: 1, Percent: 10}, ErrSpec},
		"itself":          {BorrowRows{Helper: 0, Percent: 10}, ErrSpec},
		"no link":         {BorrowRows{Helper: 2, Percent: 10}, ErrSpec},
		"no KV":           {BorrowAttention{Helper: 1, Percent: 10}, ErrSpec},
		"KV doesn't fit":  {BorrowAttention{Helper: 1, Percent: 10, KVBytes: 201}, ErrMemory},
		"time":            {BorrowRows{Helper: 1, Percent: 10, LoadNs: -1}, ErrSpec},
		"nothing to end":  {BorrowRows{Helper: 1}, nil},
		"throttle":        {Throttle{MaxSequences: -1}, ErrSpec},
		"throttle nobody": {Throttle{Tenant: 4}, ErrSpec},
	} {
		if err := g.sim.Apply(c.a); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, wants %v", name, err, c.want)
		}
	}
	if sh := g.sim.Forecast().Shortage; sh == nil || sh.Device != "b" || sh.Bytes != 201 {
		t.Errorf("the forecast names %+v", sh)
	}
	if err := g.sim.Apply(BorrowRows{Helper: 1, Percent: 60}); err != nil {
		t.Fatal(err)
	}
	if err := g.sim.Apply(BorrowRows{Helper: 1, Percent: 100}); err != nil {
		t.Errorf("a helper takes more: %v", err)
	}
}
