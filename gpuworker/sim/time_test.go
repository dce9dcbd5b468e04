package sim_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
	"slicescheduler/gpuworker/enginetest"
	"slicescheduler/gpuworker/sim"
	"slicescheduler/model"
)

// perOperator is a cost of a fixed time an operator, and as much again for each row.
type perOperator int64

func (c perOperator) OperatorNs(_ *gmg.Operator, s sim.Shape) int64 {
	return int64(c) + int64(c)*int64(s.Tokens)
}

func timed(t *testing.T, c sim.Config) *sim.Device {
	t.Helper()
	if c.Device.ID == "" {
		c.Device.ID = "t/sim0"
	}
	c.Device.MemoryBytes = 1 << 30
	d, err := sim.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func load(t *testing.T, d gpuworker.Device, m *model.Model) *gpuworker.SliceRunner {
	t.Helper()
	s, err := gpuworker.LoadSlice(t.Context(), d, m, gpuworker.SliceConfig{Graph: m.Graph, Stages: m.Graph.Whole(), KVBlocks: 8, MaxRows: 64, MaxLogits: 4}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func oneRow(token int32) *gpuworker.Batch {
	return &gpuworker.Batch{Tokens: []int32{token}, Sequences: []gpuworker.Span{{Rows: 1, Blocks: []int32{0}}}, LogitRows: []int32{0}}
}

func operators(g *gmg.Graph) (n int64) {
	for stage := range g.Stages {
		n += int64(len(g.Block(stage).Operators))
	}
	return n
}

func TestStepsTakeTheirCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := enginetest.Miniature(t, nil)
		s := load(t, timed(t, sim.Config{Cost: perOperator(1000)}), m)
		for _, q := range []gpuworker.Queue{gpuworker.QueueHome, gpuworker.QueueBorrowed} {
			start := time.Now()
			e := s.Run(q, 0, oneRow(5))
			if err := e.Err(); err != nil {
				t.Fatal(err)
			}
			if want := 2000 * operators(m.Graph); time.Since(start).Nanoseconds() != want || e.BusyNs() != want {
				t.Errorf("queue %d: took %v, busy %d, wants %d ns", q, time.Since(start), e.BusyNs(), want)
			}
		}
	})
}

// A home step that comes while a borrowed one runs waits for one operator at most, and its time isn't charged to the borrower.
func TestHomeWaitsForOneOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := enginetest.Miniature(t, nil)
		d := timed(t, sim.Config{Cost: perOperator(1000)})
		lent, home := load(t, d, m), load(t, d, m)
		step := 2000 * operators(m.Graph)
		borrowed := lent.Run(gpuworker.QueueBorrowed, 0, oneRow(5))
		time.Sleep(2500) // within its second operator
		start := time.Now()
		if err := home.Run(gpuworker.QueueHome, 0, oneRow(5)).Err(); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start).Nanoseconds() - step; waited != 1500 {
			t.Errorf("waited %d ns, the operator had 1500 left", waited)
		}
		if err := borrowed.Err(); err != nil || borrowed.BusyNs() != step {
			t.Errorf("borrowed: %v, busy %d, wants %d", err, borrowed.BusyNs(), step)
		}
	})
}

func TestLoadsAndCopiesTakeTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := enginetest.Miniature(t, nil)
		d := timed(t, sim.Config{HostBytesPerS: 1e6, PeerBytesPerS: 2e6, Cost: perOperator(0)})
		start := time.Now()
		s := load(t, d, m)
		if got, want := time.Since(start).Seconds(), float64(s.Memory()[gmg.MemWeights])/1e6; got < want*0.999 || got > want*1.001 {
			t.Errorf("loading took %v s, wants %v", got, want)
		}
		b, err := d.Reserve(gmg.MemKV, 4000)
		if err != nil {
			t.Fatal(err)
		}
		start = time.Now()
		if err := d.Upload(gpuworker.QueueCopy, b, 0, make([]byte, 4000)).Err(); err != nil || time.Since(start) != 4*time.Millisecond {
			t.Errorf("upload: %v after %v", err, time.Since(start))
		}
		start = time.Now()
		if err := d.CopyPeer(gpuworker.QueueCopy, d, b, 0, b, 2000, 2000).Err(); err != nil || time.Since(start) != time.Millisecond {
			t.Errorf("copy: %v after %v", err, time.Since(start))
		}
	})
}

func TestIllDeviceEndsItsSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := enginetest.Miniature(t, nil)
		d := timed(t, sim.Config{Cost: perOperator(1e9)})
		s := load(t, d, m)
		running, pending := s.Run(gpuworker.QueueHome, 0, oneRow(5)), s.Run(gpuworker.QueueHome, 0, oneRow(6))
		time.Sleep(time.Second)
		d.Fail(errors.New("fell off the bus"))
		for _, e := range []gpuworker.Event{running, pending, s.Run(gpuworker.QueueHome, 0, oneRow(7))} {
			if !errors.Is(e.Err(), gpuworker.ErrUnhealthy) {
				t.Errorf("%v", e.Err())
			}
		}
		if d.Describe().Healthy {
			t.Error("calls itself healthy")
		}
		if err := s.Close(); err != nil || d.Ledger().HeldBytes() != 0 {
			t.Errorf("%v, %d bytes held", err, d.Ledger().HeldBytes())
		}
	})
}

// Tokens are the sequence's alone, whatever runs beside it and however the graph is cut.
func TestTokensDependOnTheSequenceAlone(t *testing.T) {
	m := enginetest.Miniature(t, nil)
	prompt := []int32{5, 9, 200, 31, 7, 7, 8, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112}
	run := func(n int, cuts []int, companions, chunk int) *enginetest.Sequence {
		var devices []gpuworker.Device
		for i := range n {
			devices = append(devices, timed(t, sim.Config{Cost: perOperator(1), Device: gmg.Device{ID: gmg.DeviceID(rune('a' + i))}}))
		}
		e := enginetest.New(t, m, enginetest.Config{Devices: devices, Cuts: cuts, KVBlocks: 32, MaxRows: 64, MaxLogits: 8})
		s := e.Add(prompt)
		parts := []enginetest.Part{{Sequence: s, Rows: chunk}}
		for i := range companions {
			parts = append(parts, enginetest.Part{Sequence: e.Add(prompt[i:]), Rows: 1 + i})
		}
		for dropped := false; len(s.Answer()) < 6; {
			e.Step(parts...)
			if len(s.Answer()) == 3 && companions == 2 && !dropped {
				e.Drop(s)
				dropped = true
			}
		}
		return s
	}
	want := run(1, nil, 0, 64)
	for i, got := range []*enginetest.Sequence{run(1, nil, 3, 64), run(1, nil, 0, 3), run(2, []int{1}, 2, 7), run(3, []int{1, 3}, 0, 64), run(2, []int{2}, 1, 1)} {
		if !slices.Equal(got.Answer()[:6], want.Answer()[:6]) || !slices.Equal(got.Logits[:6], want.Logits[:6]) {
			t.Errorf("case %d: %v, wants %v", i, got.Answer(), want.Answer())
		}
	}
}

func TestRoofline(t *testing.T) {
	r := sim.Roofline{Device: gmg.Device{BandwidthBytesPerS: 1e9, PeakFLOPS: map[gmg.DType]float64{gmg.F16: 1e12}}, Weights: gmg.F16, LaunchNs: 100}
	linear := gmg.Operator{Kind: gmg.OpLinear, FLOPs: gmg.TimesT(1e6), WeightBytes: 1e6}
	attention := gmg.Operator{Kind: gmg.OpAttention, ReadBytes: gmg.Expr{{Coef: 1000, PowS: 1, PowC: 1}}, Attrs: gmg.Attrs{Window: 50}}
	head := gmg.Operator{Kind: gmg.OpHead, WriteBytes: gmg.TimesS(1e6)}
	for name, c := range map[string]struct {
		op    gmg.Operator
		shape sim.Shape
		want  int64
	}{
		"bound by bandwidth": {linear, sim.Shape{Tokens: 1, Sequences: 1}, 100 + 1e6},
		"bound by compute":   {linear, sim.Shape{Tokens: 5000, Sequences: 1}, 100 + 5e6},
		"window":             {attention, sim.Shape{Tokens: 1, Sequences: 2, ContextTokens: 4000}, 100 + 2*50*1000},
		"within the window":  {attention, sim.Shape{Tokens: 1, Sequences: 2, ContextTokens: 10}, 100 + 2*10*1000},
		"rows of logits":     {head, sim.Shape{Tokens: 100, Sequences: 7, Logits: 2}, 100 + 2e6},
	} {
		if got := r.OperatorNs(&c.op, c.shape); got != c.want {
			t.Errorf("%s: %d ns, wants %d", name, got, c.want)
		}
	}
}
