package whatif

import (
	"runtime"
	"testing"
)

// heapBytes is what f's result keeps alive.
func heapBytes(f func() any) float64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	kept := f()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(kept)
	return float64(after.HeapAlloc) - float64(before.HeapAlloc)
}

// A device with its tenant and lane takes at most 64 KiB, a live request at most 256 bytes.
func TestMemoryPerDeviceAndRequest(t *testing.T) {
	build := func(devices, live int) float64 {
		spec := serverSpec(devices, live, 0, 0)
		for i := range spec.Tenants {
			spec.Tenants[i].Lanes[0].Batching.MaxSequences = 1 << 14
			spec.Tenants[i].Lanes[0].Batching.KVBlocks = 1 << 22
			spec.Tenants[i].Lanes[0].Batching.MaxBatchTokens = 64
			spec.Tenants[i].Lanes[0].Batching.MaxContext = 1 << 20
			for k := range spec.Tenants[i].Live {
				spec.Tenants[i].Live[k].PromptTokens = 200
			}
		}
		return heapBytes(func() any { return mustNew(t, spec, Fast) })
	}
	if each := build(512, 8) / 512; each > 64<<10 {
		t.Errorf("%.0f bytes a device", each)
	}
	if each := (build(1, 8000) - build(1, 10)) / 7990; each > 256 {
		t.Errorf("%.0f bytes a live request", each)
	} else {
		t.Logf("%.0f bytes a live request", each)
	}
}
