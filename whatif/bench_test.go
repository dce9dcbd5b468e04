package whatif

import (
	"fmt"
	"testing"

	"slicescheduler/batching"
)

// serverSpec is n devices that serve one tenant each, with live decodes and, where asked, arrivals for ever.
func serverSpec(n, live, arrivals int, gapNs int64) *Spec {
	a, err := FindArchitecture("Llama-3.1-8B")
	if err != nil {
		panic(err)
	}
	h, err := FindHardware("RTX4090")
	if err != nil {
		panic(err)
	}
	g := a.Graph(1)
	kind := VLLM(h, 256)
	program := mustCompile(g, g.Whole(), Source(nil, ExpertGroup{}, Roofline{FLOPS: h.FLOPS, BandwidthBytesPerS: h.BandwidthBytesPerS, LaunchNs: 2000}), Parallelism{})
	s := &Spec{}
	for i := range n {
		s.Devices = append(s.Devices, DeviceSpec{ID: fmt.Sprint("gpu", i), MemoryBytes: h.MemoryBytes})
		t := TenantSpec{ID: fmt.Sprint("tenant", i)}
		c := batching.Config{KVBlocks: 5000, MaxSequences: 128, InFlight: 2, Overlap: batching.OverlapAll, Order: batching.OrderStrict, AdmitWhole: true, CountOnly: true}
		t.Lanes = []LaneSpec{{Engine: kind, Batching: c, Ranks: []RankSpec{{Slices: []SliceSpec{{Device: i, Program: program, KVBytes: 5 << 30}}}}}}
		for k := range live {
			t.Live = append(t.Live, Live{PromptTokens: 200 + 7*k, TokensSoFar: 1 + k%50, OutputTokens: 60_000, FirstToken: 1})
		}
		for k := range arrivals {
			t.Requests = append(t.Requests, Request{ArrivalNs: int64(k)*gapNs + int64(i)*1000, PromptTokens: 300 + 13*(k%40), OutputTokens: 50 + 11*(k%30)})
		}
		s.Tenants = append(s.Tenants, t)
	}
	return s
}

// One device, batch 64, decoding: leaps over steps, or operator by operator.
func BenchmarkDecode(b *testing.B) {
	for mode, name := range map[Mode]string{Fast: "fast", Exact: "exact"} {
		b.Run(name, func(b *testing.B) {
			spec := serverSpec(1, 64, 0, 0)
			spec.Tenants[0].Lanes[0].Batching.KVBlocks = 1 << 20
			spec.Tenants[0].Lanes[0].Batching.MaxContext = 1 << 20
			s, err := New(spec, mode)
			if err != nil {
				b.Fatal(err)
			}
			s.Run(1e9)
			var steps, operators int64
			b.ReportAllocs()
			for b.Loop() {
				f := s.Fork()
				f.Run(1_000e9)
				after := f.Forecast()
				steps, operators = steps+after.Steps, operators+after.Operators
			}
			b.ReportMetric(float64(steps)/b.Elapsed().Seconds()/1e6, "Msteps/s")
			b.ReportMetric(float64(operators)/b.Elapsed().Seconds()/1e6, "Moperators/s")
		})
	}
}

// The same with half of the work at a helper, which rules leaps out.
func BenchmarkHelped(b *testing.B) {
	spec, actions := helpedSpec()
	s, err := New(spec, Fast)
	if err != nil {
		b.Fatal(err)
	}
	for _, a := range actions {
		if err := s.Apply(a); err != nil {
			b.Fatal(err)
		}
	}
	s.Run(1e9)
	before, steps := s.Forecast().Steps, int64(0)
	b.ReportAllocs()
	for b.Loop() { // the original's answers must not run out
		f := s.Fork()
		f.Run(101e9)
		steps += f.Forecast().Steps - before
	}
	b.ReportMetric(float64(steps)/b.Elapsed().Seconds()/1e6, "Msteps/s")
}

// A fork of 64 devices, of which an action touches two, over two seconds.
func BenchmarkFork(b *testing.B) {
	spec := serverSpec(64, 24, 0, 0)
	for i := range spec.Devices {
		spec.Devices[i].MemoryBytes = 0
	}
	base, err := New(spec, Fast)
	if err != nil {
		b.Fatal(err)
	}
	base.Run(1e9)
	lane := spec.Tenants[3].Lanes[0]
	lane.Borrowed = true
	lane.Ranks = []RankSpec{{Slices: []SliceSpec{{Device: 9, Program: lane.Ranks[0].Slices[0].Program}}}}
	b.ReportAllocs()
	var f Forecast
	for b.Loop() {
		fork := base.Fork()
		if err := fork.Apply(AddLane{Tenant: 3, Lane: lane, LoadNs: 1e8}); err != nil {
			b.Fatal(err)
		}
		fork.RunTouched(3e9)
		f = fork.Forecast()
	}
	b.ReportMetric(float64(f.Devices[9].BusyNs)/1e9, "busy-s")
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)*1e6, "us/fork")
}

// Events a second must not fall with the size of the cluster.
func BenchmarkDevices(b *testing.B) {
	for _, n := range []int{8, 64, 512, 1024} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			spec := serverSpec(n, 16, 40, 300e6)
			var operators int64
			for b.Loop() {
				b.StopTimer()
				s, err := New(spec, Exact)
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				s.Run(1e9)
				operators += s.Forecast().Operators
			}
			b.ReportMetric(float64(operators)/b.Elapsed().Seconds()/1e6, "Moperators/s")
		})
	}
}
