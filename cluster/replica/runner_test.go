package replica

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"slicescheduler/gmg"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wire is a network of runners in one process. Each delivery is a goroutine of its own, so messages overtake each other.
type wire struct {
	mu      sync.Mutex
	runners map[gmg.NodeID]*Runner
	busy    sync.WaitGroup
}

type end struct {
	*wire
	self gmg.NodeID
}

func (e end) Send(to gmg.NodeID, message []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := e.runners[to]; r != nil {
		e.busy.Go(func() {
			if err := r.Deliver(e.self, message); err != nil {
				panic(err)
			}
		})
	}
}

func (w *wire) run(id gmg.NodeID, incarnation uint64, change func(*RunnerConfig)) *Runner {
	c := RunnerConfig{Store: gmg.NewStore(id, incarnation), Transport: end{w, id}}
	if change != nil {
		change(&c)
	}
	r := Run(c)
	w.mu.Lock()
	w.runners[id] = r
	w.mu.Unlock()
	return r
}

func (w *wire) close() {
	for _, r := range w.runners {
		r.Close()
	}
	w.busy.Wait()
}

func TestRunnersShareFacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{runners: make(map[gmg.NodeID]*Runner)}
		ids := []gmg.NodeID{"a", "b", "c"}
		var changed sync.Map
		for _, id := range ids {
			w.run(id, 1, func(c *RunnerConfig) {
				c.OnChange = func(_ *gmg.Snapshot, keys []gmg.Key) { changed.Store(id, keys) }
			}).Members(ids)
		}
		if err := w.runners["a"].Update(func(s *gmg.Store) error { return s.Put(gmg.Node{ID: "a", Version: "1"}) }); err != nil {
			t.Fatal(err)
		}
		if _, found := w.runners["a"].Snapshot().Node("a"); !found {
			t.Error("the writer does not see its own fact")
		}
		time.Sleep(BatchNs + time.Millisecond)
		synctest.Wait()
		for _, id := range ids[1:] {
			if n, found := w.runners[id].Snapshot().Node("a"); !found || n.Version != "1" {
				t.Errorf("%s sees %+v", id, n)
			}
			if keys, _ := changed.Load(id); len(keys.([]gmg.Key)) != 1 {
				t.Errorf("%s was told of %v", id, keys)
			}
		}
		w.runners["b"].Gone("a", 1)
		time.Sleep(BatchNs + time.Millisecond)
		synctest.Wait()
		if _, found := w.runners["c"].Snapshot().Node("a"); found {
			t.Error("the fact of one that left stays")
		}
		if err := w.runners["b"].Deliver("a", []byte("junk")); !errors.Is(err, ErrMessage) {
			t.Errorf("junk: %v", err)
		}
		w.close()
		if err := w.runners["a"].Update(func(*gmg.Store) error { return nil }); !errors.Is(err, ErrClosed) {
			t.Errorf("an update after the end: %v", err)
		}
	})
}

func TestDigestsFindWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{runners: make(map[gmg.NodeID]*Runner)}
		a := w.run("a", 1, nil)
		if err := a.Update(func(s *gmg.Store) error { return s.Put(gmg.Node{ID: "a"}) }); err != nil {
			t.Fatal(err)
		}
		b := w.run("b", 1, nil)
		b.Members([]gmg.NodeID{"a"}) // a does not know b, so it sent nothing; b's request is answered all the same
		synctest.Wait()
		a.Members([]gmg.NodeID{"b"})
		b.Compare(a.Digest())
		b.Compare([]byte{200, 1})
		time.Sleep(time.Second)
		synctest.Wait()
		if _, found := b.Snapshot().Node("a"); !found {
			t.Error("the digest found nothing")
		}
		if string(a.Digest()[2:]) != string(b.Digest()[2:]) {
			t.Error("digests differ after the sync")
		}
		w.close()
	})
}

func TestKeptWaitsForAllDisks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{runners: make(map[gmg.NodeID]*Runner)}
		var disk sync.Map
		for _, id := range []gmg.NodeID{"a", "b", "c"} {
			w.run(id, 1, func(c *RunnerConfig) {
				c.Persist = func(facts []gmg.Fact) error {
					time.Sleep(40 * time.Millisecond)
					disk.Store(id, len(facts))
					return nil
				}
			}).Members([]gmg.NodeID{"a", "b", "c"})
		}
		if err := w.runners["a"].Update(func(s *gmg.Store) error {
			_, err := s.PutShared(gmg.TenantSpec{ID: "t", Model: "m"}, 1)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := w.runners["a"].Kept(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, id := range []gmg.NodeID{"b", "c"} {
			if n, _ := disk.Load(id); n != 1 {
				t.Errorf("%s has %v on disk", id, n)
			}
		}
		w.runners["c"].Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := w.runners["a"].Update(func(s *gmg.Store) error { return s.Put(gmg.Node{ID: "a"}) }); err != nil {
			t.Fatal(err)
		}
		if err := w.runners["a"].Kept(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("kept by a member that does not answer: %v", err)
		}
		w.close()
	})
}

// What the disk refuses must not be confirmed to anybody.
func TestFailedDiskEndsReplication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{runners: make(map[gmg.NodeID]*Runner)}
		a := w.run("a", 1, nil)
		b := w.run("b", 1, func(c *RunnerConfig) { c.Persist = func([]gmg.Fact) error { return errors.New("disk full") } })
		a.Members([]gmg.NodeID{"b"})
		b.Members([]gmg.NodeID{"a"})
		if err := a.Update(func(s *gmg.Store) error {
			_, err := s.PutShared(gmg.TenantSpec{ID: "t", Model: "m"}, 1)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if err := b.Update(func(*gmg.Store) error { return nil }); !errors.Is(err, ErrClosed) {
			t.Errorf("it goes on: %v", err)
		}
		w.close()
	})
}

func TestErrorsNameThePeer(t *testing.T) {
	r := New(gmg.NewStore("a", 1), 1, 0)
	_, err := r.Receive("b", Message{Kind: KindDelta, Delta: gmg.Delta{Facts: []gmg.Fact{{}}}}, 0)
	if !errors.Is(err, gmg.ErrFact) || !strings.Contains(err.Error(), "b") {
		t.Errorf("got %v", err)
	}
}
