package actors

import (
	"math"
	"os"
	"testing"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
	"slicescheduler/gpuworker/sim"
	"slicescheduler/model"
	"slicescheduler/model/embedded"
)

func nanValue() float64 { return math.NaN() }

func newTestLibrary() *model.Library { return model.NewLibrary() }

// slowLoader is a device that takes minutes to load the embedded models.
func slowLoader(t testing.TB) gpuworker.Device {
	t.Helper()
	d, err := sim.New(sim.Config{
		HostBytesPerS: 1e4,
		Device: gmg.Device{
			ID: "n/slow", Node: "n", MemoryBytes: simMemoryBytes, BandwidthBytesPerS: simBandwidthBytes,
			PeakFLOPS: map[gmg.DType]float64{gmg.F16: simFLOPS},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// tightDevice has room for the default model with a few pages of KV.
func tightDevice(t testing.TB) gpuworker.Device {
	t.Helper()
	probe := simDevice(t, "n/probe", simMemoryBytes)
	defer probe.Close()
	sizes := modelSizes(t, probe, "tiny-guide")
	var weights, page int64
	for i := range sizes.StageBytes {
		weights += sizes.StageBytes[i]
		page += sizes.BlockBytes[i]
	}
	const pages = 20
	return simDevice(t, "n/tight", weights-sizes.TiedBytes+sizes.FixedBytes+2*pages*page)
}

// modelSizes are a model's sizes on a device with the default limits.
func modelSizes(t testing.TB, d gpuworker.Device, name string) gpuworker.StageSizes {
	t.Helper()
	m, release, err := newTestLibrary().Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	return gpuworker.GraphSizes(d, m.Graph, DefaultBatchTokens, DefaultMaxSequences, 1)
}

// copyEmbedded writes an embedded model to a file.
func copyEmbedded(t testing.TB, path string) {
	t.Helper()
	data, err := embedded.File("tiny-guide")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func devicesOf(d ...gpuworker.Device) []gpuworker.Device { return d }
