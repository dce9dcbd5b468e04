package sim_test

import (
	"testing"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
	"slicescheduler/gpuworker/devicetest"
	"slicescheduler/gpuworker/faulty"
	"slicescheduler/gpuworker/sim"
)

func open(t testing.TB, id gmg.DeviceID) gpuworker.Device {
	t.Helper()
	d, err := sim.New(sim.Config{Device: gmg.Device{ID: id, MemoryBytes: devicetest.MemoryBytes, BandwidthBytesPerS: 1e12,
		PeakFLOPS: map[gmg.DType]float64{gmg.F16: 1e14}}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestConformance(t *testing.T) { devicetest.Run(t, open) }

// A wrapper without faults must be as good as what it wraps.
func TestWrappedConformance(t *testing.T) {
	devicetest.Run(t, func(t testing.TB, id gmg.DeviceID) gpuworker.Device {
		return faulty.Wrap(open(t, id), faulty.Script(nil), nil)
	})
}
