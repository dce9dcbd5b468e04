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
