package cpu_test

import (
	"testing"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
	"slicescheduler/gpuworker/cpu"
	"slicescheduler/gpuworker/devicetest"
)

func TestConformance(t *testing.T) {
	for name, c := range map[string]cpu.Config{
		"one core":           {Cores: 1},
		"two cores":          {Cores: 2},
		"three cores pinned": {Cores: 3, Pin: true},
		"portable":           {Cores: 1, Kernels: "portable"},
	} {
		t.Run(name, func(t *testing.T) {
			devicetest.Run(t, func(t testing.TB, id gmg.DeviceID) gpuworker.Device {
				c := c
				c.ID, c.MemoryBytes = id, devicetest.MemoryBytes
				d, err := cpu.Open(c)
				if err != nil {
					t.Fatal(err)
				}
				return d
			})
		})
	}
}
