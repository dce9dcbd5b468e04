package cpu

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
	"slicescheduler/gpuworker/enginetest"
	"slicescheduler/model"
)

// timed measures a call from outside: what it takes is kernels' time and, with several cores, the wait for the last of them.
type timed struct {
	call
	spent *time.Duration
}

func (c timed) run(s *stepState, core, cores int) {
	start := time.Now()
	c.call.run(s, core, cores)
	*c.spent += time.Since(start)
}

// whole loads a model on a device and returns its slice; the step's program is that of slot 0.
func whole(tb testing.TB, m *model.Model, config Config) (*Device, *gpuworker.SliceRunner) {
	tb.Helper()
	config.ID, config.MemoryBytes = "t/cpu0", 2<<30
	d, err := Open(config)
	if err != nil {
		tb.Fatal(err)
	}
	s, err := gpuworker.LoadSlice(tb.Context(), d, m, gpuworker.SliceConfig{Graph: m.Graph, Stages: m.Graph.Whole(), KVBlocks: 64, MaxRows: 64, MaxLogits: 8}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
		_ = d.Close()
	})
	return d, s
}

// decodeBatch is one token of each of n sequences at a position.
func decodeBatch(n, position int) *gpuworker.Batch {
	b := new(gpuworker.Batch)
	for i := range n {
		pages := make([]int32, position/gpuworker.BlockTokens+1)
		for p := range pages {
			pages[p] = int32(i*len(pages) + p)
		}
		b.Tokens = append(b.Tokens, int32(3+i))
		b.Sequences = append(b.Sequences, gpuworker.Span{First: i, Rows: 1, Start: position, Blocks: pages})
		b.LogitRows = append(b.LogitRows, int32(i))
	}
	return b
}

// capture is a device that hands out the programs which it compiles.
type capture struct {
	*Device
	programs []*program
}

func (c *capture) Compile(spec gpuworker.ProgramSpec) (gpuworker.Program, error) {
	p, err := c.Device.compile(spec)
	if err != nil {
		return nil, err
	}
	c.programs = append(c.programs, p)
	return p, nil
}

// BenchmarkOverhead prints what part of a step at batch 8 is spent outside kernels: from Run to the event's arrival at the waiting goroutine, less the
// time inside calls.
func BenchmarkOverhead(b *testing.B) {
	dir, err := model.DefaultDir()
	if err != nil {
		b.Skip(err)
	}
	path := filepath.Join(dir, "SmolLM2-135M-Instruct.Q4_1.gguf")
	if _, err := os.Stat(path); err != nil {
		b.Skipf("%s is absent: fetch it, or set SLICER_MODELS", path)
	}
	m, err := model.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	d, err := Open(Config{ID: "t/cpu0", MemoryBytes: 2 << 30, Cores: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	c := &capture{Device: d}
	s, err := gpuworker.LoadSlice(b.Context(), c, m, gpuworker.SliceConfig{Graph: m.Graph, Stages: m.Graph.Whole(), KVBlocks: 64, MaxRows: 64, MaxLogits: 8}, nil)
	if err != nil {
		b.Fatal(err)
	}
	var inside time.Duration
	for i, call := range c.programs[0].calls {
		c.programs[0].calls[i] = timed{call, &inside}
	}
	batch := decodeBatch(8, 40)
	var kernelNs, outsideNs []float64
	for b.Loop() {
		inside = 0
		start := time.Now()
		<-s.Run(gpuworker.QueueHome, 0, batch).Done()
		kernelNs = append(kernelNs, float64(inside))
		outsideNs = append(outsideNs, float64(time.Since(start)-inside))
	}
	// Medians, because a machine that does something else takes its time from either.
	in, out := median(kernelNs), median(outsideNs)
	b.ReportMetric(in/1e3, "kernels-us/step")
	b.ReportMetric(out/1e3, "outside-us/step")
	b.ReportMetric(100*out/(in+out), "outside-%")
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

// A step allocates its task and its event, nothing in between.
func TestStepsAllocateNothing(t *testing.T) {
	m := enginetest.Miniature(t, nil)
	for _, cores := range []int{1, 2} {
		_, s := whole(t, m, Config{Cores: cores})
		batch := decodeBatch(8, 40)
		step := func() { <-s.Run(gpuworker.QueueHome, 0, batch).Done() }
		step()
		const enqueued, steps = 4, 500 // the task, the event, its channel, and the queue's growth
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range steps {
			step()
		}
		runtime.ReadMemStats(&after)
		if n := float64(after.Mallocs-before.Mallocs) / steps; n > enqueued {
			t.Errorf("%d cores: %v allocations a step, at most %d belong to its start", cores, n, enqueued)
		}
	}
}

func TestKVPagesAreTheGraphs(t *testing.T) {
	m := enginetest.Miniature(t, nil)
	d, _ := whole(t, m, Config{Cores: 1})
	r := gmg.Range{From: 1, To: 3}
	if got, want := d.KVBlockBytes(m.Graph, r), gpuworker.BlockTokens*m.Graph.KVBytesPerToken(r); got != want {
		t.Errorf("a KV page has %d bytes, the graph says %d", got, want)
	}
}
