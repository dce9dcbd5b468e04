package actors

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
	"slicescheduler/gpuworker/cpu"
	"slicescheduler/model"
)

func cpuDevices(t testing.TB, n int, memoryBytes int64) []gpuworker.Device {
	t.Helper()
	var list []gpuworker.Device
	for i := range n {
		d, err := cpu.Open(cpu.Config{ID: gmg.DeviceID(fmt.Sprintf("n/cpu%d", i)), Node: "n", Cores: 1, MemoryBytes: memoryBytes})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, d)
	}
	return list
}

// On real devices and models: two tenants of different models, one of them split over both devices, asked all at once, answer each request as when it
// was alone and its tenant whole.
func TestRealDevicesAnswerAsAlone(t *testing.T) {
	const requests, tokens = 40, 12
	ask := func(i int) GenerateRequest {
		r := greedy([]gmg.TenantID{"guide", "story"}[i%2], fmt.Sprintf("Tell me about number %d", i), tokens)
		r.Sampling.Temperature, r.Sampling.Seed, r.Sampling.HasSeed = float32(i%3), uint64(i), true
		return r
	}
	run := func(over int, one func(n *testNode)) {
		n := start(t, NodeConfig{Devices: cpuDevices(t, 2, simMemoryBytes)})
		defer n.stop()
		n.submit(gmg.TenantSpec{ID: "guide", Model: "tiny-guide", SplitOver: over})
		n.submit(gmg.TenantSpec{ID: "story", Model: "tiny-story"})
		n.await("guide", stateReady)
		n.await("story", stateReady)
		one(n)
	}
	alone := make([]answer, requests)
	run(1, func(n *testNode) {
		for i := range alone {
			alone[i] = n.generate(ask(i))
		}
	})
	run(2, func(n *testNode) {
		var readers sync.WaitGroup
		for i := range requests {
			s, err := n.Generate(t.Context(), ask(i))
			if err != nil {
				t.Fatal(err)
			}
			readers.Go(func() {
				if a := read(t, s); a.text != alone[i].text || fmt.Sprint(a.tokens) != fmt.Sprint(alone[i].tokens) {
					t.Errorf("request %d got %q, alone %q", i, a.text, alone[i].text)
				}
			})
		}
		readers.Wait()
	})
}

// realModel returns the path of a fetched model, or skips.
func realModel(t testing.TB, file string) string {
	t.Helper()
	dir, err := model.DefaultDir()
	if err != nil {
		t.Skip(err)
	}
	path := filepath.Join(dir, file)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no model %s", path)
	}
	return path
}

// BenchmarkStepOverhead decodes SmolLM2 at batch 8 through the whole runtime and prints a step's time, its kernels' and its sampling's (the last operator of the
// graph, which runs on the host), and what part of the whole is neither: actors, batches, messages and text. Medians, since other work on the
// machine comes between.
func BenchmarkStepOverhead(b *testing.B) {
	const batch = 8
	path := realModel(b, "SmolLM2-135M-Instruct.Q4_1.gguf")
	n := start(b, NodeConfig{Devices: cpuDevices(b, 1, 2<<30), Limits: Limits{StreamTokens: 1 << 20}})
	defer n.stop()
	n.submit(gmg.TenantSpec{ID: "a", Model: path})
	n.await("a", stateReady)
	streams := make([]Stream, batch)
	for i := range streams {
		s, err := n.Generate(b.Context(), greedy("a", fmt.Sprintf("Story number %d:", i), 2000))
		if err != nil {
			b.Fatal(err)
		}
		streams[i] = s
	}
	for _, s := range streams { // all are decoding
		if _, err := s.Next(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	var walls, kernels, samples, outside []float64 // of each step, in milliseconds; outside in per cent
	before, begun := n.Metrics().Tenants[0], time.Now()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		for _, s := range streams {
			if _, err := s.Next(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		after, end := n.Metrics().Tenants[0], time.Now()
		wall, kernel, sample := end.Sub(begun).Seconds()*1e3, float64(after.StepBusyNs-before.StepBusyNs)/1e6, float64(after.StepSampleNs-before.StepSampleNs)/1e6
		if after.Steps == before.Steps+1 {
			walls, kernels, samples = append(walls, wall), append(kernels, kernel), append(samples, sample)
			outside = append(outside, 100*(wall-kernel-sample)/wall)
		}
		before, begun = after, end
	}
	b.StopTimer()
	b.ReportMetric(median(walls), "ms/step")
	b.ReportMetric(median(kernels), "kernel-ms/step")
	b.ReportMetric(median(samples), "sample-ms/step")
	b.ReportMetric(median(outside), "%outside")
	for _, s := range streams {
		s.Close()
	}
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}
