// Package devicetest is what every device must pass: its ledger, the order and priority of its queues, transfers, programs, and how it ends.
package devicetest

import (
	"testing"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
	"slicescheduler/model"
)

// MemoryBytes is what each device under test is opened with.
const MemoryBytes = 64 << 20

// Open opens a device with an identifier and MemoryBytes of memory. The suite closes it.
type Open func(t testing.TB, id gmg.DeviceID) gpuworker.Device

// Run checks a kind of device. Each part opens devices of its own.
func Run(t *testing.T, open Open) {
	s := suite{open: open}
	for _, part := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"ledger", s.ledger},
		{"out of memory", s.outOfMemory},
		{"double release", s.doubleRelease},
		{"foreign buffers", s.foreignBuffers},
		{"transfers", s.transfers},
		{"transfer bounds", s.transferBounds},
		{"peer copies", s.peerCopies},
		{"queue order", s.queueOrder},
		{"weights", s.weights},
		{"programs", s.programs},
		{"split programs", s.splitPrograms},
		{"bad programs", s.badPrograms},
		{"bad batches", s.badBatches},
		{"priority", s.priority},
		{"events", s.events},
		{"close with pending work", s.closePending},
		{"after close", s.afterClose},
	} {
		t.Run(part.name, part.run)
	}
}

type suite struct {
	open Open
}

// device opens a device that is closed when the test ends, and must hold nothing then.
func (s suite) device(t *testing.T, id gmg.DeviceID) gpuworker.Device {
	t.Helper()
	d := s.open(t, id)
	t.Cleanup(func() {
		if held := d.Ledger().HeldBytes(); held != 0 && !t.Failed() {
			t.Errorf("%s still holds %d bytes: %v", id, held, d.Ledger().Held)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// Sizes of the slices that the suite loads.
const (
	kvBlocks = 16
	maxRows  = 64
)

func load(t *testing.T, d gpuworker.Device, m *model.Model, r gmg.Range) *gpuworker.SliceRunner {
	t.Helper()
	slice, err := gpuworker.LoadSlice(t.Context(), d, m, gpuworker.SliceConfig{Graph: m.Graph, Stages: r, KVBlocks: kvBlocks, MaxRows: maxRows, MaxLogits: 4}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := slice.Close(); err != nil {
			t.Error(err)
		}
	})
	return slice
}

// prompt is a batch of one sequence of n tokens from position start on, in pages 0, 1, ...; its last row asks for logits.
func prompt(start, n int) *gpuworker.Batch {
	b := &gpuworker.Batch{LogitRows: []int32{int32(n - 1)}}
	for i := range n {
		b.Tokens = append(b.Tokens, int32(3+(start+i)*37%250))
	}
	var pages []int32
	for i := 0; i*gpuworker.BlockTokens < start+n; i++ {
		pages = append(pages, int32(i))
	}
	b.Sequences = []gpuworker.Span{{Rows: n, Start: start, Blocks: pages}}
	return b
}

// must waits for an event that must succeed.
func must(t *testing.T, e gpuworker.Event) {
	t.Helper()
	<-e.Done()
	if err := e.Err(); err != nil {
		t.Fatal(err)
	}
}

func reserve(t *testing.T, d gpuworker.Device, class gmg.MemoryClass, bytes int64) gpuworker.Buffer {
	t.Helper()
	b, err := d.Reserve(class, bytes)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func release(t *testing.T, d gpuworker.Device, b gpuworker.Buffer) {
	t.Helper()
	if err := d.Release(b); err != nil {
		t.Fatal(err)
	}
}
