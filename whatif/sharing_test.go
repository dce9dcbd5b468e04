package whatif

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"slicescheduler/batching"
	"slicescheduler/gmg"
)

// drawSharedLane makes a lane over some devices whose pages come from what these have free.
func drawSharedLane(t *rapid.T, devices int) LaneSpec {
	l := drawLane(t, devices)
	for len(l.Ranks) > 1 {
		l = drawLane(t, devices)
	}
	b := &l.Batching
	b.PrefixReuse, b.CountOnly, b.KVBlocks = false, true, 40
	b.Watermark = rapid.IntRange(0, 2).Draw(t, "watermark")
	if b.InFlight > 1 && b.Overlap != batching.OverlapAll {
		b.Separate = rapid.IntRange(0, b.InFlight-1).Draw(t, "separate")
		b.MicroBatches = rapid.IntRange(1, 2).Draw(t, "micro")
	}
	l.SharedKV = true
	return l
}

func drawSharedWorld(t *rapid.T) *Spec {
	s := drawWorld(t)
	s.Order = QueueOrder(rapid.IntRange(0, 2).Draw(t, "order"))
	if rapid.Bool().Draw(t, "noise") {
		s.Noise = Noise{Seed: rapid.Uint64().Draw(t, "seed"), StepPct: 20, HiccupEvery: 5, HiccupNs: 77}
	}
	for d := range s.Devices {
		s.Devices[d].MemoryBytes = int64(rapid.IntRange(5500, 9000).Draw(t, "memory"))
	}
	for i := range s.Tenants {
		ts := &s.Tenants[i]
		ts.TTFTLimitNs, ts.TPOTLimitNs = 500, 40
		ts.Lanes = nil
		for range rapid.IntRange(1, 2).Draw(t, "lanes") {
			ts.Lanes = append(ts.Lanes, drawSharedLane(t, len(s.Devices)))
		}
	}
	return s
}

func drawSharedAction(t *rapid.T, spec *Spec) Action {
	tenant := rapid.IntRange(0, len(spec.Tenants)-1).Draw(t, "tenant")
	load := int64(rapid.IntRange(0, 200).Draw(t, "load"))
	lane := rapid.IntRange(0, 2).Draw(t, "lane")
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		return MigrateSequence{
			Tenant: tenant, Request: rapid.IntRange(0, 7).Draw(t, "request"), From: lane, To: 1 - lane%2, StopNs: 30, Free: rapid.Bool().Draw(t, "free"),
		}
	case 1:
		return Reshape{Moves: []MoveLane{{tenant, lane, drawSharedLane(t, len(spec.Devices)), load}}}
	case 2:
		return AddLane{tenant, drawSharedLane(t, len(spec.Devices)), load}
	}
	return RemoveLane{tenant, lane}
}

// Lanes that share memory, with noise and steps of one kind: sequences migrate and lanes change their shape at any time, and both modes agree, no device
// ever holds more than its memory, all requests are answered, and all pages come back.
func TestSharedMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSharedWorld(t)
		sims := []*Sim{mustNew(t, spec, Exact), mustNew(t, spec, Fast)}
		at := int64(0)
		for range rapid.IntRange(0, 5).Draw(t, "actions") {
			at += int64(rapid.IntRange(0, 900).Draw(t, "at"))
			a := drawSharedAction(t, spec)
			var errs [2]error
			for i, s := range sims {
				s.Run(at)
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
				if kv := w.devices[i].ledger.Held[gmg.MemKV]; kv != 0 {
					t.Fatalf("device %d still holds %d bytes of KV", w.devices[i].id, kv)
				}
			}
			for i := range w.lanes {
				if l := &w.lanes[i]; l.state == laneReady && l.pending != 0 {
					t.Fatalf("lane %d has %d tokens pending after all is done", i, l.pending)
				}
			}
		}
		for ti, tf := range sims[1].Forecast().Tenants {
			x := tf.Totals
			if x.Arrived != int64(len(spec.Tenants[ti].Requests)) || x.Finished+x.Refused+int64(tf.Waiting) != x.Arrived || tf.Running != 0 {
				t.Fatalf("tenant %d: %+v", ti, tf)
			}
			if serving(sims[1], ti) && tf.Waiting > 0 {
				t.Fatalf("tenant %d waits for ever: %+v", ti, tf)
			}
		}
	})
}

func serving(s *Sim, tenant int) bool {
	w := s.islands[s.ofTenant[tenant]]
	for _, li := range w.tenants[w.tenantAt(tenant)].lanes {
		if w.lanes[li].serves() {
			return true
		}
	}
	return false
}

func checkMemory(t *rapid.T, s *Sim) {
	for _, w := range s.islands {
		for i := range w.devices {
			if d := &w.devices[i]; d.accounted && (d.ledger.Free() < 0 || d.ledger.Held[gmg.MemKV] < 0) {
				t.Fatalf("device %d: %+v", d.id, d.ledger)
			}
		}
	}
}

// A simulation that goes on from an observed state, told the true lengths, ends as the world does, but for the steps that were in flight.
func TestResume(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSharedWorld(t)
		world := mustNew(t, spec, Fast)
		world.Run(int64(rapid.IntRange(0, 3000).Draw(t, "at")))
		var st State
		world.Observe(&st)
		g := Guess{OutputTokens: func(tenant int, q *SequenceState) int { return spec.Tenants[tenant].Requests[q.Request].OutputTokens }}
		for ti := range spec.Tenants {
			g.Future = append(g.Future, spec.Tenants[ti].Requests[st.Tenants[ti].Arrived:])
		}
		model, err := Resume(spec, &st, g, Fast)
		if err != nil {
			t.Fatal(err)
		}
		model.Drain()
		world.Drain()
		a, b := model.Forecast(), world.Forecast()
		for ti := range spec.Tenants {
			finished := a.Tenants[ti].Totals.Finished + st.Tenants[ti].Finished
			if want := b.Tenants[ti].Totals.Finished; finished != want && serving(world, ti) {
				t.Fatalf("tenant %d: %d finish in the forecast and %d in the world", ti, finished, want)
			}
		}
	})
}
