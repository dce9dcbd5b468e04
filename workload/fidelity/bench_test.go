package fidelity

import (
	"path/filepath"
	"testing"

	"slicescheduler/whatif"
)

func benchmarkRun(b *testing.B, mode whatif.Mode) {
	for _, r := range runs(b) {
		b.Run(r.Name, func(b *testing.B) {
			h, err := whatif.FindHardware(r.Engine.Hardware)
			if err != nil {
				b.Fatal(err)
			}
			tables, err := r.tables(filepath.Join(dataDir(b), "profiles"))
			if err != nil {
				b.Fatal(err)
			}
			spec, err := r.spec(tables, h)
			if err != nil {
				b.Fatal(err)
			}
			spec.KeepRecords = false
			b.ResetTimer()
			var operators, steps int64
			for b.Loop() {
				s, err := whatif.New(spec, mode)
				if err != nil {
					b.Fatal(err)
				}
				s.Drain()
				f := s.Forecast()
				operators, steps = operators+f.Operators, steps+f.Steps
			}
			b.ReportMetric(float64(operators)/b.Elapsed().Seconds()/1e6, "Moperators/s")
			b.ReportMetric(float64(steps)/b.Elapsed().Seconds()/1e6, "Msteps/s")
		})
	}
}

// The whole recorded runs, operator by operator and in leaps.
func BenchmarkRunExact(b *testing.B) { benchmarkRun(b, whatif.Exact) }
func BenchmarkRunFast(b *testing.B)  { benchmarkRun(b, whatif.Fast) }
