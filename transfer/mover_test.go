package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"slicescheduler/gmg"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeRegion is memory with a log of its calls. before, if set, runs before each call and may fail it or wait.
type fakeRegion struct {
	device gmg.DeviceID
	memory []byte
	before func(ctx context.Context, op string, offset int64) error

	mu  sync.Mutex
	log []string
}

func (r *fakeRegion) Device() gmg.DeviceID { return r.device }
func (r *fakeRegion) Bytes() int64         { return int64(len(r.memory)) }

func (r *fakeRegion) call(ctx context.Context, op string, offset, n int64) error {
	if r.before != nil {
		if err := r.before(ctx, op, offset); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, fmt.Sprintf("%s %d+%d", op, offset, n))
	return nil
}

func (r *fakeRegion) Read(ctx context.Context, dst []byte, offset int64) error {
	if err := r.call(ctx, "read", offset, int64(len(dst))); err != nil {
		return err
	}
	copy(dst, r.memory[offset:])
	return nil
}

func (r *fakeRegion) Write(ctx context.Context, src []byte, offset int64) error {
	if err := r.call(ctx, "write", offset, int64(len(src))); err != nil {
		return err
	}
	copy(r.memory[offset:], src)
	return nil
}

// fakePeer copies straight into other fakes.
type fakePeer struct{ fakeRegion }

func (r *fakePeer) CopyTo(ctx context.Context, dst Region, dstOffset, offset, n int64) error {
	if err := r.call(ctx, "copy", offset, n); err != nil {
		return err
	}
	copy(dst.(*fakeRegion).memory[dstOffset:], r.memory[offset:offset+n])
	return nil
}

func noise(n int) []byte {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(uint64(n), 1))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// slowLinks joins d0 and d1 through host memory in chunks of MinChunkBytes.
func slowLinks() []gmg.Link {
	link := func(from, to gmg.DeviceID) gmg.Link {
		return gmg.Link{From: from, To: to, Kind: gmg.LinkHost, BandwidthBytesPerS: 1e8, LatencyNs: 1}
	}
	return []gmg.Link{link("n/d0", "n/host"), link("n/host", "n/d1")}
}

func peerLink() gmg.Link {
	return gmg.Link{From: "n/d0", To: "n/d1", Kind: gmg.LinkPeer, BandwidthBytesPerS: 1e8}
}

func TestMoveThroughHostMemory(t *testing.T) {
	const n = 5*MinChunkBytes + 7
	from, to := &fakeRegion{device: "n/d0", memory: noise(n + 100)}, &fakeRegion{device: "n/d1", memory: make([]byte, n+50)}
	m := NewMover(mustTopology(t, slowLinks()...))
	if err := m.Move(t.Context(), Move{From: from, To: to, FromOffset: 100, ToOffset: 50, Bytes: n, Priority: PriorityMigration}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(to.memory[50:], from.memory[100:]) || !bytes.Equal(to.memory[:50], make([]byte, 50)) {
		t.Fatal("other bytes arrived")
	}
	if len(to.log) != 6 || to.log[5] != fmt.Sprintf("write %d+7", 50+5*MinChunkBytes) {
		t.Fatalf("writes %v", to.log)
	}
	if got, want := m.Counters()[RouteStaged], (Counter{Bytes: n, Moves: 1}); got != want {
		t.Fatalf("counted %+v, wants %+v", got, want)
	}
}

func TestMoveByPeerCopy(t *testing.T) {
	const n = 3 * MinChunkBytes
	from, to := &fakePeer{fakeRegion{device: "n/d0", memory: noise(n)}}, &fakeRegion{device: "n/d1", memory: make([]byte, n)}
	m := NewMover(mustTopology(t, peerLink()))
	if err := m.Move(t.Context(), Move{From: from, To: to, Bytes: n}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(from.memory, to.memory) || len(from.log) != 3 || len(to.log) != 0 {
		t.Fatalf("calls %v %v", from.log, to.log)
	}
	if got := m.Counters()[RoutePeer]; got != (Counter{Bytes: n, Moves: 1}) {
		t.Fatalf("counted %+v", got)
	}
}

func TestMoveFallsBackToHostMemory(t *testing.T) {
	const n = 3 * MinChunkBytes
	from, to := &fakePeer{fakeRegion{device: "n/d0", memory: noise(n)}}, &fakeRegion{device: "n/d1", memory: make([]byte, n)}
	from.before = func(_ context.Context, op string, _ int64) error {
		if op == "copy" {
			return fmt.Errorf("other kind of device: %w", ErrNoPeer)
		}
		return nil
	}
	if err := NewMover(mustTopology(t, peerLink())).Move(t.Context(), Move{From: from, To: to, Bytes: n}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(from.memory, to.memory) || len(to.log) != 3 {
		t.Fatalf("calls %v %v", from.log, to.log)
	}
}

func TestMoveWithinADeviceAndOfNothing(t *testing.T) {
	from, to := &fakeRegion{device: "n/d0", memory: noise(100)}, &fakeRegion{device: "n/d0", memory: make([]byte, 100)}
	m := NewMover(mustTopology(t))
	if err := m.Move(t.Context(), Move{From: from, To: to, Bytes: 100}); err != nil || !bytes.Equal(from.memory, to.memory) {
		t.Fatal(err)
	}
	if err := m.Move(t.Context(), Move{From: from, To: to, FromOffset: 100}); err != nil || len(from.log) != 1 {
		t.Fatal(err, from.log)
	}
}

func TestMoveRefuses(t *testing.T) {
	from, to := &fakeRegion{device: "n/d0", memory: make([]byte, 10)}, &fakeRegion{device: "n/d1", memory: make([]byte, 10)}
	far := &fakeRegion{device: "m/d0", memory: make([]byte, 10)}
	m := NewMover(mustTopology(t, append(slowLinks(), gmg.Link{From: "n/d0", To: "m/d0", Kind: gmg.LinkNetwork, BandwidthBytesPerS: 1})...))
	for name, c := range map[string]struct {
		move Move
		want error
	}{
		"no end":        {Move{From: from}, ErrMove},
		"negative":      {Move{From: from, To: to, Bytes: -1}, ErrMove},
		"beyond source": {Move{From: from, To: to, Bytes: 1, FromOffset: 10}, ErrMove},
		"beyond target": {Move{From: from, To: to, Bytes: 2, ToOffset: 9}, ErrMove},
		"overflow":      {Move{From: from, To: to, Bytes: 1 << 62, FromOffset: 1 << 62}, ErrMove},
		"priority":      {Move{From: from, To: to, Bytes: 1, Priority: 9}, ErrMove},
		"no way back":   {Move{From: to, To: from, Bytes: 1}, ErrNoRoute},
		"other host":    {Move{From: from, To: far, Bytes: 1}, ErrNotLocal},
	} {
		if err := m.Move(t.Context(), c.move); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, wants %v", name, err, c.want)
		}
	}
	if len(from.log)+len(to.log)+len(far.log) > 0 {
		t.Error("a refused move touched memory")
	}
}

func TestFailureStopsTheMove(t *testing.T) {
	broken := errors.New("bus fell over")
	for _, op := range []string{"read", "write"} {
		for _, n := range []int64{100, 9 * MinChunkBytes} {
			from, to := &fakeRegion{device: "n/d0", memory: noise(int(n))}, &fakeRegion{device: "n/d1", memory: make([]byte, n)}
			fail := func(_ context.Context, what string, offset int64) error {
				if what == op && offset >= min(n-100, 4*MinChunkBytes) {
					return broken
				}
				return nil
			}
			from.before, to.before = fail, fail
			m := NewMover(mustTopology(t, slowLinks()...))
			if err := m.Move(t.Context(), Move{From: from, To: to, Bytes: n}); !errors.Is(err, broken) {
				t.Errorf("%s fails: %v", op, err)
			}
			if got := m.Counters()[RouteStaged]; got.Failed != 1 || got.Moves != 0 || got.Bytes > 4*MinChunkBytes {
				t.Errorf("%s fails: counted %+v", op, got)
			}
			from.before, to.before = nil, nil // the links must be free again
			if err := m.Move(t.Context(), Move{From: from, To: to, Bytes: n}); err != nil {
				t.Errorf("after %s failed: %v", op, err)
			}
		}
	}
}

func TestCancelStopsAtAChunk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100 * MinChunkBytes
		from, to := &fakeRegion{device: "n/d0", memory: noise(n)}, &fakeRegion{device: "n/d1", memory: make([]byte, n)}
		to.before = func(context.Context, string, int64) error { time.Sleep(time.Second); return nil } // of the bubble's clock
		m := NewMover(mustTopology(t, slowLinks()...))
		ctx, cancel := context.WithTimeout(t.Context(), 4500*time.Millisecond)
		defer cancel()
		err := m.Move(ctx, Move{From: from, To: to, Bytes: n, Priority: PriorityMigration})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("cancelled: %v", err)
		}
		if got, want := m.Counters()[RouteStaged], (Counter{Bytes: 5 * MinChunkBytes, Failed: 1}); got != want {
			t.Fatalf("counted %+v, wants %+v: the chunk under way and no more", got, want)
		}
	})
}

// sharedLog is a log of several regions in the order of time.
type sharedLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *sharedLog) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func TestRowsGoBeforeMigrations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log sharedLog
		m := NewMover(mustTopology(t, peerLink()))
		move := func(name string, chunks int64, p Priority) error {
			from := &fakePeer{fakeRegion{device: "n/d0", memory: noise(int(chunks * MinChunkBytes))}}
			from.before = func(context.Context, string, int64) error {
				time.Sleep(time.Second)
				log.add(name)
				return nil
			}
			to := &fakeRegion{device: "n/d1", memory: make([]byte, chunks*MinChunkBytes)}
			return m.Move(t.Context(), Move{From: from, To: to, Bytes: chunks * MinChunkBytes, Priority: p})
		}
		var wg sync.WaitGroup
		start := func(name string, chunks int64, p Priority) {
			wg.Go(func() {
				if err := move(name, chunks, p); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
			synctest.Wait() // it holds the link or waits for it
		}
		start("kv", 4, PriorityMigration)
		start("weights", 2, PriorityMigration)
		start("rows1", 1, PriorityRows)
		start("rows2", 1, PriorityRows)
		wg.Wait()
		// The rows wait for one chunk of the migration that has the link; then the two migrations take turns.
		want := "kv rows1 rows2 weights kv weights kv kv"
		if got := strings.Join(log.lines, " "); got != want {
			t.Fatalf("order %q, wants %q", got, want)
		}
	})
}

func TestCancelledWaiterLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gates{links: make(map[ends]*gate)}
		link := peerLink()
		if err := g.enter(t.Context(), link, PriorityRows); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		gone, next := make(chan error, 1), make(chan error, 1)
		go func() { gone <- g.enter(ctx, link, PriorityRows) }()
		synctest.Wait()
		go func() { next <- g.enter(t.Context(), link, PriorityMigration) }()
		synctest.Wait()
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		g.leave(link)
		if err := <-next; err != nil {
			t.Fatal(err)
		}
		g.leave(link)
		if len(g.links) != 0 {
			t.Fatalf("%d gates are left", len(g.links))
		}
	})
}

// TestTurnAndCancellationAtOnce gives a waiter its turn in the same moment in which it is cancelled: whichever it sees, the link must not stay held.
func TestTurnAndCancellationAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gates{links: make(map[ends]*gate)}
		link := peerLink()
		for range 100 {
			if err := g.enter(t.Context(), link, PriorityRows); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			first, second := make(chan error, 1), make(chan error, 1)
			go func() { first <- g.enter(ctx, link, PriorityRows) }()
			synctest.Wait()
			go func() { second <- g.enter(t.Context(), link, PriorityMigration) }()
			synctest.Wait()
			g.mu.Lock() // the waiter can't look before both have happened
			cancel()
			go g.leave(link)
			g.mu.Unlock()
			if err := <-first; err == nil {
				g.leave(link)
			}
			if err := <-second; err != nil {
				t.Fatal(err)
			}
			g.leave(link)
		}
		if len(g.links) != 0 {
			t.Fatal("the link is still held")
		}
	})
}

// TestManyMovesAtOnce lets moves in both directions share links and be cancelled at random; what completes must be right, and links must end up free.
func TestManyMovesAtOnce(t *testing.T) {
	links := slowLinks()
	for _, l := range slowLinks() {
		links = append(links, gmg.Link{From: l.To, To: l.From, Kind: l.Kind, BandwidthBytesPerS: l.BandwidthBytesPerS})
	}
	m := NewMover(mustTopology(t, links...))
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			n := 1 + i*MinChunkBytes/3
			from, to := &fakeRegion{device: "n/d0", memory: noise(n)}, &fakeRegion{device: "n/d1", memory: make([]byte, n)}
			if i%2 == 1 {
				from.device, to.device = to.device, from.device
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%5 == 0 {
				from.before = func(_ context.Context, _ string, offset int64) error {
					if offset >= 2*MinChunkBytes {
						cancel()
					}
					return nil
				}
			}
			err := m.Move(ctx, Move{From: from, To: to, Bytes: int64(n), Priority: Priority(i % 2)})
			switch {
			case err == nil && !bytes.Equal(from.memory, to.memory):
				t.Errorf("move %d brought other bytes", i)
			case err != nil && !errors.Is(err, context.Canceled):
				t.Errorf("move %d: %v", i, err)
			case err != nil && i%5 != 0:
				t.Errorf("move %d was cancelled by another's cancellation", i)
			}
		})
	}
	wg.Wait()
	if len(m.gates.links) != 0 {
		t.Errorf("%d links are still held", len(m.gates.links))
	}
}

func BenchmarkRoute(b *testing.B) {
	var links []gmg.Link
	for i := range 16 {
		host := gmg.HostOf(gmg.NodeID(fmt.Sprintf("n%d", i)))
		for j := range 8 {
			d := gmg.DeviceID(fmt.Sprintf("n%d/cuda%d", i, j))
			links = append(links, gmg.Link{From: d, To: host, Kind: gmg.LinkHost, BandwidthBytesPerS: 25e9}, gmg.Link{From: host, To: d, Kind: gmg.LinkHost, BandwidthBytesPerS: 25e9})
		}
		for k := range 16 {
			if k != i {
				links = append(links, gmg.Link{From: host, To: gmg.HostOf(gmg.NodeID(fmt.Sprintf("n%d", k))), Kind: gmg.LinkNetwork, BandwidthBytesPerS: 12.5e9})
			}
		}
	}
	top := mustTopology(b, links...)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := top.Route("n0/cuda0", "n9/cuda3", 1<<20); err != nil {
			b.Fatal(err)
		}
	}
}

func TestLaterMovesUseTheNewLinks(t *testing.T) {
	from, to := &fakeRegion{device: "n/d0", memory: noise(10)}, &fakeRegion{device: "n/d1", memory: make([]byte, 10)}
	m := NewMover(mustTopology(t))
	if err := m.Move(t.Context(), Move{From: from, To: to, Bytes: 10}); !errors.Is(err, ErrNoRoute) {
		t.Fatal(err)
	}
	m.SetTopology(mustTopology(t, peerLink()))
	if err := m.Move(t.Context(), Move{From: from, To: to, Bytes: 10}); err != nil || !bytes.Equal(from.memory, to.memory) {
		t.Fatal(err)
	}
}
