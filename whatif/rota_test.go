package whatif

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"slicescheduler/gmg"
)

// drawManaged makes some of a world's devices run prompts beside decodes, and others swap weights; lanes are changed to what these allow.
func drawManaged(t *rapid.T, s *Spec) {
	if s.Order == OrderUrgent {
		s.Order = OrderSlack
	}
	for d := range len(s.Devices) {
		switch rapid.IntRange(0, 2).Draw(t, "managed") {
		case 1:
			s.Devices[d].Sharing = MuxServe(rapid.IntRange(3, 7).Draw(t, "tenths"), rapid.Bool().Draw(t, "robin"))
			for range rapid.IntRange(0, 2).Draw(t, "streams") {
				s.Devices = append(s.Devices, DeviceSpec{ID: fmt.Sprint("s", len(s.Devices)), PartOf: d + 1})
			}
		case 2:
			s.Devices[d].Swap = &Swap{
				BytesPerS: float64(rapid.IntRange(1, 9).Draw(t, "host")) * 1e9, HiddenPct: rapid.IntRange(0, 100).Draw(t, "hidden"), RoundRobin: rapid.Bool().Draw(t, "robin"),
			}
			s.Devices[d].MemoryBytes = int64(rapid.IntRange(3100, 4000).Draw(t, "memory"))
		}
	}
	for i := range s.Tenants {
		for k := range s.Tenants[i].Lanes {
			fitManaged(t, s, &s.Tenants[i].Lanes[k])
		}
	}
}

// fitManaged changes a lane to what the devices that it lies on allow: nothing borrowed, and where weights are swapped one slice of one device.
func fitManaged(t *rapid.T, s *Spec, l *LaneSpec) {
	for _, r := range l.Ranks {
		for _, sl := range r.Slices {
			d := &s.Devices[sl.Device]
			if d.Sharing != nil || d.Swap != nil {
				l.Borrowed = false
			}
		}
	}
	for _, r := range l.Ranks {
		for _, sl := range r.Slices {
			if s.Devices[sl.Device].Swap == nil {
				continue
			}
			g := smallGraph(3)
			p := mustCompile(g, g.Whole(), costsBy(map[string]Cost{
				"embedding": linear{a: 3}, "qkv_proj": linear{a: 5, b: 1}, "attention": linear{a: 1, c: 1}, "down_proj": linear{a: 7}, "lm_head": linear{a: 2},
			}), Parallelism{})
			l.SharedKV, l.Ranks = false, []RankSpec{{Slices: []SliceSpec{{Device: sl.Device, Program: p}}}}
			l.TurnNs = int64(rapid.IntRange(0, 400).Draw(t, "turn"))
			return
		}
	}
}

// Devices that run prompts beside decodes, or that swap weights, do what a slow and obvious simulation of them does.
func TestManagedAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawWorld(t)
		drawManaged(t, spec)
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

func drawManagedAction(t *rapid.T, spec *Spec) Action {
	tenant, lane := rapid.IntRange(0, len(spec.Tenants)-1).Draw(t, "tenant"), rapid.IntRange(0, 1).Draw(t, "lane")
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		return SetTurn{tenant, lane, int64(rapid.IntRange(0, 500).Draw(t, "turn"))}
	case 1:
		return SetQuota{tenant, lane, rapid.IntRange(18, 50).Draw(t, "quota")}
	case 2:
		l := drawSharedLane(t, 1)
		fitManaged(t, spec, &l)
		return AddLane{tenant, l, int64(rapid.IntRange(0, 300).Draw(t, "load"))}
	}
	return RemoveLane{tenant, lane}
}

// Both modes agree at every moment while lanes come and go, quotas and turns change and forks are made; no device ever holds more than its memory.
func TestManagedDevices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSharedWorld(t)
		drawManaged(t, spec)
		sims := []*Sim{mustNew(t, spec, Exact), mustNew(t, spec, Fast)}
		at := int64(0)
		for range rapid.IntRange(0, 6).Draw(t, "actions") {
			at += int64(rapid.IntRange(0, 700).Draw(t, "at"))
			a := drawManagedAction(t, spec)
			var errs [2]error
			for i, s := range sims {
				s.Run(at)
				fork := s.Fork()
				fork.Run(at + 200)
				errs[i] = s.Apply(a)
				checkMemory(t, s)
			}
			if fmt.Sprint(errs[0]) != fmt.Sprint(errs[1]) {
				t.Fatalf("the modes disagree on %+v: %v, %v", a, errs[0], errs[1])
			}
			if d := differForecast(sims[0].Forecast(), sims[1].Forecast()); d != "" {
				t.Fatalf("at %d: %s", at, d)
			}
		}
		sims[0].Drain()
		sims[1].Drain()
		if d := differ(records(sims[0]), records(sims[1])); d != "" {
			t.Fatalf("exact and fast differ at %s", d)
		}
		for _, w := range sims[1].islands {
			for i := range w.devices {
				d := &w.devices[i]
				if kv := d.ledger.Held[gmg.MemKV]; kv != 0 && w.spec.Devices[d.id].Swap == nil {
					t.Fatalf("device %d still holds %d bytes of KV", d.id, kv)
				}
				if d.busy || len(d.queue) > 0 {
					t.Fatalf("device %d has work after all is done", d.id)
				}
			}
		}
	})
}
