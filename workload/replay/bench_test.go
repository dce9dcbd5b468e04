package replay

import (
	"runtime"
	"testing"
	"time"
)

// BenchmarkStatic replays the headline's first scenario, or the synthetic one where its trace isn't here.
func BenchmarkStatic(b *testing.B) {
	name := "conv-8"
	data, err := FindData("")
	if err != nil || data == "" {
		name, data = "synthetic-8", ""
	}
	s, err := Find(name)
	if err != nil {
		b.Fatal(err)
	}
	p, err := Open(s, data)
	if err != nil {
		b.Fatal(err)
	}
	steps := int64(0)
	for b.Loop() {
		steps += mustRun(b, p, fixed("static", 1)).Steps
	}
	b.ReportMetric(float64(steps)/b.Elapsed().Seconds(), "steps/s")
}

// BenchmarkMillionRequests replays a million requests on one device after the other's clock; memory is what the run holds at its end.
func BenchmarkMillionRequests(b *testing.B) {
	s := small(b, 8, 8, 830, 1250, "")
	s.Devices.Kind = "RTXPRO6000"
	s.TuneFromS, s.TuneToS = 0, 10
	s.Trace.Generate.Prompt, s.Trace.Generate.Output = Lengths{40, 0.5, 400}, Lengths{12, 0.5, 60}
	p := openSetup(b, s)
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := time.Now()
		r := mustRun(b, p, fixed("static", 1))
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		if r.Requests < 1_000_000 {
			b.Fatalf("%d requests", r.Requests)
		}
		b.ReportMetric(float64(r.Requests)/took.Seconds(), "requests/s")
		b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(r.Requests), "B/request")
		b.ReportMetric(float64(after.Sys)/(1<<20), "MiB")
	}
}
