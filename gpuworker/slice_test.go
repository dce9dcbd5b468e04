package gpuworker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
	"slicescheduler/gpuworker/cpu"
	"slicescheduler/gpuworker/enginetest"
	"slicescheduler/gpuworker/faulty"
	"slicescheduler/gpuworker/sim"
	"slicescheduler/model"
	"slicescheduler/model/miniature"
	"slicescheduler/transfer"
)

const memoryBytes = 64 << 20

func device(t testing.TB, plan faulty.Plan) *faulty.Device {
	t.Helper()
	inner, err := sim.New(sim.Config{Device: gmg.Device{ID: "t/sim0", MemoryBytes: memoryBytes}})
	if err != nil {
		t.Fatal(err)
	}
	d := faulty.Wrap(inner, plan, nil)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func config(m *model.Model) gpuworker.SliceConfig {
	return gpuworker.SliceConfig{Graph: m.Graph, Stages: m.Graph.Whole(), KVBlocks: 8, MaxRows: 16, MaxLogits: 2, Slots: 2}
}

// failAt fails the nth call of any kind.
type failAt struct {
	nth  int
	seen *int
}

func (f failAt) Decide(faulty.Call, int) faulty.Action {
	if *f.seen++; *f.seen == f.nth {
		return faulty.Action{Kind: faulty.Fail}
	}
	return faulty.Action{}
}

// A load is made to fail at each of its steps in turn; whichever it is, nothing may stay held.
func TestFailedLoadFreesAll(t *testing.T) {
	m := enginetest.Miniature(t, nil)
	failed := 0
	for nth := 1; ; nth++ {
		seen := 0
		d := device(t, failAt{nth, &seen})
		s, err := gpuworker.LoadSlice(t.Context(), d, m, config(m), nil)
		if err == nil {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			break
		}
		failed++
		if !errors.Is(err, faulty.ErrInjected) {
			t.Fatalf("step %d: %v", nth, err)
		}
		if held := d.Ledger().Held; held != [gmg.NumMemoryClasses]int64{} {
			t.Fatalf("a load that failed at step %d holds %v", nth, held)
		}
	}
	weights := 0
	for stage := range m.Graph.Stages {
		weights += len(m.Graph.Block(stage).Weights)
	}
	if want := weights - 1 + 6; failed < want { // the tied head is loaded once; KV, workspace, two slots, two programs
		t.Errorf("only %d steps failed, a load has at least %d", failed, want)
	}
}

// brokenSource fails for one weight, or hands out something else.
type brokenSource struct {
	*model.Model
	stage int
	spoil func(gmg.Weight, []byte) (gmg.Weight, []byte, error)
}

func (b brokenSource) Weight(stage int, name string) (gmg.Weight, []byte, error) {
	w, host, err := b.Model.Weight(stage, name)
	if stage == b.stage && err == nil {
		return b.spoil(w, host)
	}
	return w, host, err
}

func TestBrokenSourceFreesAll(t *testing.T) {
	m := enginetest.Miniature(t, nil)
	gone := errors.New("the disk is gone")
	for name, spoil := range map[string]func(gmg.Weight, []byte) (gmg.Weight, []byte, error){
		"error":       func(w gmg.Weight, b []byte) (gmg.Weight, []byte, error) { return w, nil, gone },
		"cut short":   func(w gmg.Weight, b []byte) (gmg.Weight, []byte, error) { return w, b[1:], nil },
		"other shape": func(w gmg.Weight, b []byte) (gmg.Weight, []byte, error) { w.Rows++; return w, b, nil },
	} {
		d := device(t, faulty.Script(nil))
		_, err := gpuworker.LoadSlice(t.Context(), d, brokenSource{m, 2, spoil}, config(m), nil)
		if !errors.Is(err, gone) && !errors.Is(err, gpuworker.ErrSlice) {
			t.Errorf("%s: %v", name, err)
		}
		if held := d.Ledger().HeldBytes(); held != 0 {
			t.Errorf("%s: %d bytes held", name, held)
		}
	}
}

func TestCancelledLoadFreesAll(t *testing.T) {
	m := enginetest.Miniature(t, nil)
	d := device(t, faulty.Script(nil))
	ctx, cancel := context.WithCancel(t.Context())
	_, err := gpuworker.LoadSlice(ctx, d, m, config(m), func(done, _ int64) {
		if done > 10000 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if held := d.Ledger().HeldBytes(); held != 0 {
		t.Errorf("%d bytes held", held)
	}
}

func TestLoadThatHangsEndsWithItsContext(t *testing.T) {
	m := enginetest.Miniature(t, nil)
	d := device(t, faulty.Script{{Call: faulty.LoadWeight, Nth: 3, Action: faulty.Action{Kind: faulty.Hang}}})
	ctx, cancel := context.WithCancel(t.Context())
	loads := 0
	_, err := gpuworker.LoadSlice(ctx, d, m, config(m), func(int64, int64) {
		if loads++; loads == 2 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || d.Ledger().HeldBytes() != 0 {
		t.Errorf("%v, %d bytes held", err, d.Ledger().HeldBytes())
	}
}

func TestSizesAnnounceWhatLoadingHolds(t *testing.T) {
	for name, m := range map[string]*model.Model{"tied": enginetest.Miniature(t, nil), "untied": enginetest.Miniature(t, func(s *miniature.Spec) { s.Untied = true })} {
		d := device(t, faulty.Script(nil))
		last := len(m.Graph.Stages)
		sizes := gpuworker.GraphSizes(d, m.Graph, 16, 2, 2)
		for from := range last {
			for to := from + 1; to <= last; to++ {
				c := config(m)
				c.Stages = gmg.Range{From: from, To: to}
				var lastDone, lastTotal int64
				s, err := gpuworker.LoadSlice(t.Context(), d, m, c, func(done, total int64) { lastDone, lastTotal = done, total })
				if err != nil {
					t.Fatal(err)
				}
				want := gpuworker.SliceBytes(d, c)
				if s.Memory() != want || gpuworker.SliceMemory(d.Ledger().Held) != want {
					t.Errorf("%s [%d,%d): holds %v, ledger %v, announced %v", name, from, to, s.Memory(), d.Ledger().Held, want)
				}
				if lastDone != lastTotal || lastTotal != want[gmg.MemWeights] {
					t.Errorf("%s [%d,%d): progress ended at %d of %d, weights are %d", name, from, to, lastDone, lastTotal, want[gmg.MemWeights])
				}
				checkSums(t, sizes, c, want)
				if n := gpuworker.MaxKVBlocks(d, c, want.Total()); want[gmg.MemKV] > 0 && n != c.KVBlocks {
					t.Errorf("%s [%d,%d): %d pages fit where %d were held", name, from, to, n, c.KVBlocks)
				}
				if n := gpuworker.MaxKVBlocks(d, c, want.Total()-want[gmg.MemKV]-1); n != -1 {
					t.Errorf("%s [%d,%d): %d pages fit in too little", name, from, to, n)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if d.Ledger().HeldBytes() != 0 {
					t.Fatalf("closed, and %v held", d.Ledger().Held)
				}
			}
		}
	}
}

// checkSums checks that a planner that adds stages up reserves enough, and of weights and KV exactly what is held.
func checkSums(t *testing.T, sizes gpuworker.StageSizes, c gpuworker.SliceConfig, want gpuworker.SliceMemory) {
	t.Helper()
	var weights, block int64
	for stage := c.Stages.From; stage < c.Stages.To; stage++ {
		weights += sizes.StageBytes[stage]
		block += sizes.BlockBytes[stage]
	}
	if c.Stages == c.Graph.Whole() {
		weights -= sizes.TiedBytes
	}
	if weights != want[gmg.MemWeights] || block*int64(c.KVBlocks) != want[gmg.MemKV] {
		t.Errorf("%v: stages add up to %d of weights and %d a page, held are %v", c.Stages, weights, block, want)
	}
	if fixed := want[gmg.MemWorkspace] + want[gmg.MemStaging]; fixed > sizes.FixedBytes {
		t.Errorf("%v: workspace and staging are %d, at most %d were announced", c.Stages, fixed, sizes.FixedBytes)
	}
}

func TestSliceConfigsAreChecked(t *testing.T) {
	m := enginetest.Miniature(t, nil)
	d := device(t, faulty.Script(nil))
	for name, spoil := range map[string]func(*gpuworker.SliceConfig){
		"no graph":        func(c *gpuworker.SliceConfig) { c.Graph = nil },
		"no stages":       func(c *gpuworker.SliceConfig) { c.Stages.To = c.Stages.From },
		"stages beyond":   func(c *gpuworker.SliceConfig) { c.Stages.To++ },
		"negative stages": func(c *gpuworker.SliceConfig) { c.Stages.From = -1 },
		"no pages":        func(c *gpuworker.SliceConfig) { c.KVBlocks = 0 },
		"no rows":         func(c *gpuworker.SliceConfig) { c.MaxRows = 0 },
		"no logits":       func(c *gpuworker.SliceConfig) { c.MaxLogits = 0 },
		"many slots":      func(c *gpuworker.SliceConfig) { c.Slots = gpuworker.MaxSlots + 1 },
	} {
		c := config(m)
		spoil(&c)
		if _, err := gpuworker.LoadSlice(t.Context(), d, m, c, nil); !errors.Is(err, gpuworker.ErrSlice) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := d.Calls(faulty.Reserve); n != 0 {
		t.Errorf("%d reservations for slices that can't be", n)
	}
}

// A slice that is loaded from others takes only what they don't have, and what is shared is given back by whoever closes last.
func TestLoadingFromOtherSlicesShares(t *testing.T) {
	for name, m := range map[string]*model.Model{"tied": enginetest.Miniature(t, nil), "untied": enginetest.Miniature(t, func(s *miniature.Spec) { s.Untied = true })} {
		last := len(m.Graph.Stages)
		for _, to := range []gmg.Range{{From: 0, To: last}, {From: 0, To: 2}, {From: 2, To: last}} {
			for _, firstToClose := range []bool{false, true} {
				d := device(t, faulty.Script(nil))
				old, err := gpuworker.LoadSlice(t.Context(), d, m, config(m), nil)
				if err != nil {
					t.Fatal(err)
				}
				c := config(m)
				c.Stages = to
				before := d.Ledger().HeldBytes()
				want := gpuworker.SliceBytesFrom(d, c, []*gpuworker.SliceRunner{old})
				var taken atomic.Int64
				s, err := gpuworker.LoadSliceWith(t.Context(), d, m, c, gpuworker.LoadOptions{From: []*gpuworker.SliceRunner{old}, Taken: &taken})
				if err != nil {
					t.Fatal(err)
				}
				if got := d.Ledger().HeldBytes() - before; got != want.Total() || taken.Load() != got || want[gmg.MemWeights] != 0 {
					t.Errorf("%s %v: took %d, counted %d, announced %v", name, to, got, taken.Load(), want)
				}
				first, second := s, old
				if firstToClose {
					first, second = old, s
				}
				if err := first.Close(); err != nil {
					t.Fatal(err)
				}
				if left := gpuworker.SliceMemory(d.Ledger().Held); left != second.Memory() {
					t.Errorf("%s %v: one is closed, %v held, the other has %v", name, to, left, second.Memory())
				}
				if err := second.Close(); err != nil {
					t.Fatal(err)
				}
				if held := d.Ledger().HeldBytes(); held != 0 {
					t.Errorf("%s %v: both are closed, %d bytes held", name, to, held)
				}
			}
		}
	}
}

func TestKVMovesRefuseOtherLayouts(t *testing.T) {
	m := enginetest.Miniature(t, nil)
	d := device(t, faulty.Script(nil))
	other, err := cpu.Open(cpu.Config{ID: "t/cpu0", Cores: 1, MemoryBytes: memoryBytes})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	a, err := gpuworker.LoadSlice(t.Context(), d, m, config(m), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := gpuworker.LoadSlice(t.Context(), other, m, config(m), nil)
	if err != nil {
		t.Fatal(err)
	}
	pages := []gpuworker.PagePair{{From: 0, To: 1}}
	if _, err := gpuworker.KVMoves(a, b, pages, transfer.PriorityMigration, time.Minute); !errors.Is(err, gpuworker.ErrNotSupported) {
		t.Errorf("%v, want ErrNotSupported", err)
	}
}

// Pages that follow each other on both sides move in one piece; with other cuts each page's layers move alone.
func TestKVMovesArePieced(t *testing.T) {
	m := enginetest.Miniature(t, nil)
	d := device(t, faulty.Script(nil))
	load := func(r gmg.Range) *gpuworker.SliceRunner {
		c := config(m)
		c.Stages = r
		s, err := gpuworker.LoadSlice(t.Context(), d, m, c, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	last := len(m.Graph.Stages)
	whole, part, again, head := load(gmg.Range{From: 0, To: last}), load(gmg.Range{From: 2, To: last}), load(gmg.Range{From: 0, To: last}), load(gmg.Range{From: last - 1, To: last})
	pages := []gpuworker.PagePair{{From: 0, To: 3}, {From: 1, To: 4}, {From: 5, To: 6}}
	for _, test := range []struct {
		name     string
		from, to *gpuworker.SliceRunner
		want     int
	}{{"whole", whole, again, 2}, {"cut", whole, part, 3}, {"itself", whole, whole, 0}, {"nothing in common", whole, head, 0}} {
		moves, err := gpuworker.KVMoves(test.from, test.to, pages, transfer.PriorityMigration, time.Minute)
		if err != nil || len(moves) != test.want {
			t.Errorf("%s: %d moves, error %v; want %d", test.name, len(moves), err, test.want)
		}
	}
	moves, err := gpuworker.KVMoves(whole, part, pages[2:], transfer.PriorityMigration, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	layer := d.KVBlockBytes(m.Graph, gmg.Range{From: 1, To: 2})
	if got := moves[0]; got.FromOffset != 5*2*layer+layer || got.ToOffset != 6*layer || got.Bytes != layer {
		t.Errorf("moved %d bytes from %d to %d, a layer's page is %d", got.Bytes, got.FromOffset, got.ToOffset, layer)
	}
}

// A copy that the device never ends is given up after its limit.
func TestHungCopyIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := enginetest.Miniature(t, nil)
		d := device(t, faulty.Script{{Call: faulty.CopyPeer, Nth: 1, Action: faulty.Action{Kind: faulty.Hang}}})
		a, err := gpuworker.LoadSlice(t.Context(), d, m, config(m), nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := gpuworker.LoadSlice(t.Context(), d, m, config(m), nil)
		if err != nil {
			t.Fatal(err)
		}
		moves, err := gpuworker.KVMoves(a, b, []gpuworker.PagePair{{From: 1, To: 1}}, transfer.PriorityMigration, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		topology, err := transfer.NewTopology(nil)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		err = transfer.NewMover(topology).Move(t.Context(), moves[0])
		if !errors.Is(err, gpuworker.ErrHung) || !errors.Is(err, gpuworker.ErrUnhealthy) || time.Since(begun) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}
