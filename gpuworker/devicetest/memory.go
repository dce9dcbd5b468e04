package devicetest

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
	"slicescheduler/gpuworker/enginetest"
)

func (s suite) ledger(t *testing.T) {
	d := s.device(t, "t/dev0")
	if l := d.Ledger(); l.CapacityBytes != MemoryBytes || l.HeldBytes() != 0 {
		t.Fatalf("a fresh device has %+v", l)
	}
	if desc := d.Describe(); desc.ID != "t/dev0" || !desc.Healthy || desc.MemoryBytes != MemoryBytes {
		t.Fatalf("described as %+v", desc)
	}
	var held [gmg.NumMemoryClasses]int64
	var buffers []gpuworker.Buffer
	for c := gmg.MemWeights; c < gmg.NumMemoryClasses; c++ {
		bytes := 1000 + int64(c)
		b := reserve(t, d, c, bytes)
		if b.Class() != c || b.Bytes() != bytes || b.Device() != "t/dev0" {
			t.Errorf("buffer is %v, %d bytes, of %s", b.Class(), b.Bytes(), b.Device())
		}
		held[c] += bytes
		buffers = append(buffers, b)
		if d.Ledger().Held != held {
			t.Fatalf("ledger holds %v, wants %v", d.Ledger().Held, held)
		}
	}
	for _, b := range buffers {
		held[b.Class()] -= b.Bytes()
		release(t, d, b)
		if d.Ledger().Held != held {
			t.Fatalf("ledger holds %v, wants %v", d.Ledger().Held, held)
		}
	}
	if _, err := d.Reserve(gmg.MemKV, -1); !errors.Is(err, gmg.ErrLedger) {
		t.Errorf("a negative size: %v", err)
	}
}

func (s suite) outOfMemory(t *testing.T) {
	d := s.device(t, "t/dev0")
	first := reserve(t, d, gmg.MemKV, MemoryBytes/2)
	before := d.Ledger()
	if _, err := d.Reserve(gmg.MemKV, MemoryBytes/2+1); !errors.Is(err, gmg.ErrOutOfMemory) {
		t.Errorf("one byte too many: %v", err)
	}
	if d.Ledger() != before {
		t.Errorf("a failed reservation left %+v, before %+v", d.Ledger(), before)
	}
	rest := reserve(t, d, gmg.MemKV, MemoryBytes/2)
	if free := d.Ledger().Free(); free != 0 {
		t.Errorf("%d bytes free", free)
	}
	m := enginetest.Miniature(t, nil)
	w, host, err := m.Weight(1, "attn_q.weight")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.LoadWeight(t.Context(), w, host); !errors.Is(err, gmg.ErrOutOfMemory) {
		t.Errorf("a weight on a full device: %v", err)
	}
	release(t, d, rest)
	release(t, d, first)
}

func (s suite) doubleRelease(t *testing.T) {
	d := s.device(t, "t/dev0")
	b, other := reserve(t, d, gmg.MemKV, 100), reserve(t, d, gmg.MemKV, 100)
	release(t, d, b)
	if err := d.Release(b); !errors.Is(err, gpuworker.ErrBadBuffer) {
		t.Errorf("released twice: %v", err)
	}
	if held := d.Ledger().HeldBytes(); held != other.Bytes() {
		t.Errorf("%d bytes held, the other buffer has %d", held, other.Bytes())
	}
	release(t, d, other)
	if err := d.Release(nil); !errors.Is(err, gpuworker.ErrBadBuffer) {
		t.Errorf("released nothing: %v", err)
	}
}

func (s suite) foreignBuffers(t *testing.T) {
	a, b := s.device(t, "t/dev0"), s.device(t, "t/dev1")
	x := reserve(t, a, gmg.MemStaging, 64)
	if err := b.Release(x); !errors.Is(err, gpuworker.ErrBadBuffer) {
		t.Errorf("released on another device: %v", err)
	}
	for name, e := range map[string]gpuworker.Event{
		"upload":         b.Upload(gpuworker.QueueCopy, x, 0, make([]byte, 8)),
		"download":       b.Download(gpuworker.QueueCopy, make([]byte, 8), x, 0),
		"copy from":      b.CopyPeer(gpuworker.QueueCopy, a, x, 0, x, 8, 8),
		"copy to":        a.CopyPeer(gpuworker.QueueCopy, b, x, 0, x, 8, 8),
		"copy to no one": a.CopyPeer(gpuworker.QueueCopy, b, nil, 0, x, 8, 8),
	} {
		if err := e.Err(); !errors.Is(err, gpuworker.ErrBadBuffer) {
			t.Errorf("%s: %v", name, err)
		}
	}
	release(t, a, x)
	if err := a.Upload(gpuworker.QueueCopy, x, 0, make([]byte, 8)).Err(); !errors.Is(err, gpuworker.ErrBadBuffer) {
		t.Errorf("upload to a released buffer: %v", err)
	}
}

func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7+i>>8) + seed
	}
	return b
}

// transferred are the classes whose content moves.
var transferred = [...]gmg.MemoryClass{gmg.MemKV, gmg.MemStaging}

func (s suite) transfers(t *testing.T) {
	d := s.device(t, "t/dev0")
	for _, class := range transferred {
		b := reserve(t, d, class, 20000)
		must(t, d.Upload(gpuworker.QueueCopy, b, 0, make([]byte, 20000)))
		must(t, d.Upload(gpuworker.QueueCopy, b, 4090, pattern(9000, 1)))
		got := make([]byte, 9020)
		must(t, d.Download(gpuworker.QueueCopy, got, b, 4080))
		want := append(append(make([]byte, 10), pattern(9000, 1)...), make([]byte, 10)...)
		if !bytes.Equal(got, want) {
			t.Errorf("%v: what came back differs", class)
		}
		release(t, d, b)
	}
}

func (s suite) transferBounds(t *testing.T) {
	d := s.device(t, "t/dev0")
	b := reserve(t, d, gmg.MemStaging, 100)
	for name, e := range map[string]gpuworker.Event{
		"upload past the end":    d.Upload(gpuworker.QueueCopy, b, 93, make([]byte, 8)),
		"upload before":          d.Upload(gpuworker.QueueCopy, b, -1, make([]byte, 8)),
		"upload far away":        d.Upload(gpuworker.QueueCopy, b, 1<<62, make([]byte, 8)),
		"download past the end":  d.Download(gpuworker.QueueCopy, make([]byte, 101), b, 0),
		"copy past the end":      d.CopyPeer(gpuworker.QueueCopy, d, b, 0, b, 96, 8),
		"copy of negative bytes": d.CopyPeer(gpuworker.QueueCopy, d, b, 0, b, 8, -8),
		"copy to past the end":   d.CopyPeer(gpuworker.QueueCopy, d, b, 96, b, 0, 8),
	} {
		if err := e.Err(); !errors.Is(err, gpuworker.ErrBadBuffer) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, d.Upload(gpuworker.QueueCopy, b, 92, make([]byte, 8)))
	release(t, d, b)
}

func (s suite) peerCopies(t *testing.T) {
	a, b := s.device(t, "t/dev0"), s.device(t, "t/dev1")
	for _, class := range transferred {
		x, y := reserve(t, a, class, 9000), reserve(t, b, class, 9000)
		must(t, b.Upload(gpuworker.QueueCopy, y, 0, pattern(9000, 3)))
		must(t, a.Upload(gpuworker.QueueCopy, x, 0, pattern(9000, 5)))
		must(t, a.CopyPeer(gpuworker.QueueCopy, b, y, 100, x, 200, 5000))
		got := make([]byte, 9000)
		must(t, b.Download(gpuworker.QueueCopy, got, y, 0))
		want := pattern(9000, 3)
		copy(want[100:], pattern(9000, 5)[200:5200])
		if !bytes.Equal(got, want) {
			t.Errorf("%v: the copy differs", class)
		}
		must(t, a.CopyPeer(gpuworker.QueueCopy, a, x, 6000, x, 0, 3000))
		must(t, a.Download(gpuworker.QueueCopy, got[:3000], x, 6000))
		if !bytes.Equal(got[:3000], pattern(9000, 5)[:3000]) {
			t.Errorf("%v: the copy within a device differs", class)
		}
		release(t, a, x)
		release(t, b, y)
	}
}

// queueOrder writes one place many times in each queue and reads it after each write; only the order of the queue keeps the reads apart.
func (s suite) queueOrder(t *testing.T) {
	d := s.device(t, "t/dev0")
	for q := range gpuworker.NumQueues {
		b := reserve(t, d, gmg.MemStaging, 256)
		const n = 50
		var got [n][]byte
		var last gpuworker.Event
		for i := range n {
			d.Upload(q, b, 0, pattern(256, byte(i)))
			got[i] = make([]byte, 256)
			last = d.Download(q, got[i], b, 0)
		}
		must(t, last)
		for i := range n {
			if !bytes.Equal(got[i], pattern(256, byte(i))) {
				t.Fatalf("queue %d: read %d saw another write", q, i)
			}
		}
		release(t, d, b)
	}
	if err := d.Upload(gpuworker.NumQueues, nil, 0, nil).Err(); err == nil {
		t.Error("a queue that isn't there took work")
	}
}

func (s suite) weights(t *testing.T) {
	d, m := s.device(t, "t/dev0"), enginetest.Miniature(t, nil)
	for _, w := range m.Graph.Block(1).Weights {
		_, host, err := m.Weight(1, w.Name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.LoadWeight(t.Context(), w, host[:len(host)-1]); !errors.Is(err, gpuworker.ErrBadBuffer) {
			t.Errorf("%s cut short: %v", w.Name, err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := d.LoadWeight(ended, w, host); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with an ended context: %v", w.Name, err)
		}
		if held := d.Ledger().HeldBytes(); held != 0 {
			t.Errorf("%s: failed loads hold %d bytes", w.Name, held)
		}
		b, err := d.LoadWeight(t.Context(), w, host)
		if err != nil {
			t.Fatal(err)
		}
		if want := d.WeightBytes(w); b.Bytes() != want || d.Ledger().Held[gmg.MemWeights] != want || b.Class() != gmg.MemWeights {
			t.Errorf("%s holds %d bytes of %v, ledger %v, announced %d", w.Name, b.Bytes(), b.Class(), d.Ledger().Held, want)
		}
		release(t, d, b)
	}
}
