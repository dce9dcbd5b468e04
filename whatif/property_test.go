package whatif

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func mustNew(t interface{ Fatal(...any) }, spec *Spec, m Mode) *Sim {
	s, err := New(spec, m)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func records(s *Sim) [][]Record {
	var out [][]Record
	for ti := range s.spec.Tenants {
		out = append(out, s.Records(ti))
	}
	return out
}

// differ names the first request that two results disagree on, empty for none.
func differ(a, b [][]Record) string {
	for ti := range a {
		for i := range a[ti] {
			if a[ti][i] != b[ti][i] {
				return fmt.Sprintf("tenant %d, request %d:\n%+v\n%+v", ti, i, a[ti][i], b[ti][i])
			}
		}
	}
	return ""
}

func TestAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawWorld(t)
		o := newOracle(spec)
		o.run()
		for _, mode := range []Mode{Exact, Fast} {
			s := mustNew(t, spec, mode)
			s.Drain()
			if d := differ(records(s), o.out); d != "" {
				t.Fatalf("mode %d and the oracle differ at %s", mode, d)
			}
		}
	})
}

// differForecast names the first tenant or device that two forecasts disagree on.
func differForecast(a, b Forecast) string {
	for i := range a.Tenants {
		if a.Tenants[i] != b.Tenants[i] {
			return fmt.Sprintf("\n%+v\n%+v", a.Tenants[i], b.Tenants[i])
		}
	}
	for i := range a.Devices {
		if a.Devices[i] != b.Devices[i] {
			return fmt.Sprintf("\n%+v\n%+v", a.Devices[i], b.Devices[i])
		}
	}
	return ""
}

// Where a run is cut into pieces doesn't matter, and both modes agree on everything at every cut.
func TestCutAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawWorld(t)
		whole, exact, fast := mustNew(t, spec, Fast), mustNew(t, spec, Exact), mustNew(t, spec, Fast)
		whole.Drain()
		for at := int64(0); at < 6000; at += int64(rapid.IntRange(1, 900).Draw(t, "cut")) {
			exact.Run(at)
			fast.Run(at)
			a, b := exact.Forecast(), fast.Forecast()
			if d := differForecast(a, b); d != "" {
				t.Fatalf("at %d: %s", at, d)
			}
		}
		exact.Drain()
		fast.Drain()
		if d := differ(records(exact), records(whole)) + differ(records(fast), records(whole)); d != "" {
			t.Fatal(d)
		}
	})
}

// A fork goes on as its original does, and what it does leaves no trace in the original.
func TestFork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawWorld(t)
		base := mustNew(t, spec, Fast)
		base.Run(int64(rapid.IntRange(0, 3000).Draw(t, "at")))
		until := base.Now() + int64(rapid.IntRange(1, 4000).Draw(t, "for"))
		fork, other := base.Fork(), base.Fork()
		if err := other.Apply(RemoveLane{Tenant: 0, Lane: 0}); err != nil {
			t.Fatal(err)
		}
		other.Run(until)
		fork.Run(until)
		a := fmt.Sprintf("%+v", fork.Forecast())
		base.Run(until)
		if b := fmt.Sprintf("%+v", base.Forecast()); a != b {
			t.Fatalf("the fork came to\n%s\nits original to\n%s", a, b)
		}
	})
}

// Bytes on a link never exceed what its bandwidth carries in the time, and devices are never busier than time passes.
func TestPhysics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawWorld(t)
		s := mustNew(t, spec, Exact)
		for at := int64(200); at < 5000; at += 311 {
			s.Run(at)
			for _, w := range s.islands {
				for _, l := range w.links {
					if most := spec.Links[l.id].BandwidthBytesPerS * float64(max(at, l.freeAt)) / 1e9; float64(l.bytes) > most+1 {
						t.Fatalf("link %d carried %d bytes by %d ns, can carry %.0f", l.id, l.bytes, at, most)
					}
				}
			}
			for _, d := range s.Forecast().Devices {
				if d.BusyNs > at || d.BusyNs < 0 {
					t.Fatalf("device %s was busy for %d of %d ns", d.ID, d.BusyNs, at)
				}
			}
		}
	})
}

// Lanes may come, move and go at any time: both modes agree, every request is answered or refused, and memory comes back.
func TestActions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawWorld(t)
		for i := range spec.Devices {
			spec.Devices[i].MemoryBytes = 1 << 20
		}
		sims := []*Sim{mustNew(t, spec, Exact), mustNew(t, spec, Fast)}
		untouched := sims[1].Fork()
		at := int64(0)
		for range rapid.IntRange(1, 4).Draw(t, "actions") {
			at += int64(rapid.IntRange(0, 700).Draw(t, "at"))
			var a Action
			tenant := rapid.IntRange(0, len(spec.Tenants)-1).Draw(t, "tenant")
			load := int64(rapid.IntRange(0, 200).Draw(t, "load"))
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				a = AddLane{tenant, drawLane(t, len(spec.Devices)), load}
			case 1:
				a = MoveLane{tenant, 0, drawLane(t, len(spec.Devices)), load}
			case 2:
				a = RemoveLane{tenant, len(spec.Tenants[tenant].Lanes) - 1}
			}
			var errs [2]error
			for i, s := range sims {
				s.Run(at)
				errs[i] = s.Apply(a)
			}
			if fmt.Sprint(errs[0]) != fmt.Sprint(errs[1]) {
				t.Fatalf("the modes disagree on %+v: %v, %v", a, errs[0], errs[1])
			}
		}
		sims[0].Drain()
		sims[1].Drain()
		if d := differ(records(sims[0]), records(sims[1])); d != "" {
			t.Fatalf("exact and fast differ at %s", d)
		}
		checkBooks(t, spec, sims[1])
		untouched.Drain()
		plain := mustNew(t, spec, Fast)
		plain.Drain()
		a, b := untouched.Forecast(), plain.Forecast()
		if d := differForecast(a, b); d != "" {
			t.Fatalf("actions on one simulation changed another: %s", d)
		}
	})
}

// checkBooks verifies after a drain that requests and memory add up.
func checkBooks(t *rapid.T, spec *Spec, s *Sim) {
	f := s.Forecast()
	for ti, tf := range f.Tenants {
		x := tf.Totals
		if x.Arrived != int64(len(spec.Tenants[ti].Requests)) || x.Finished+x.Refused+int64(tf.Waiting) != x.Arrived || tf.Running != 0 {
			t.Fatalf("tenant %d: %+v", ti, tf)
		}
	}
	for _, w := range s.islands {
		for i := range w.devices {
			var weights int64
			for k := range w.lanes {
				l := &w.lanes[k]
				if !l.held {
					continue
				}
				for _, r := range l.spec.Ranks {
					for _, sl := range r.Slices {
						if sl.Device == w.devices[i].id {
							weights += sl.Program.weightBytes
						}
					}
				}
			}
			if got := w.devices[i].ledger.Held[0]; got != weights {
				t.Fatalf("device %d holds %d bytes of weights, its lanes have %d", w.devices[i].id, got, weights)
			}
		}
	}
}
