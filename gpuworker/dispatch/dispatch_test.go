package dispatch_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"slicescheduler/gpuworker"
	"slicescheduler/gpuworker/dispatch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// journal is the order in which things happened.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

// task is a piece of work of several operators. At each it says so, and waits for a token when it has a gate.
type task struct {
	name      string
	journal   *journal
	operators int
	gate      chan struct{}
	memory    string
}

func (k *task) Run(b *dispatch.Boundary) error {
	for range k.operators {
		if k.gate != nil {
			k.gate <- struct{}{} // here I am
			<-k.gate             // go on
		}
		k.journal.add(k.name)
		if err := b.Pass(); err != nil {
			return err
		}
	}
	return nil
}

func (k *task) Shares(other dispatch.Task) bool {
	o, ok := other.(*task)
	return ok && o.memory == k.memory
}

// counter is a clock that ticks with every look.
func counter() func() int64 {
	var mu sync.Mutex
	now := int64(0)
	return func() int64 {
		mu.Lock()
		defer mu.Unlock()
		now++
		return now
	}
}

func start(t *testing.T) *dispatch.Dispatcher {
	d := dispatch.New("t/dev0", counter(), nil)
	t.Cleanup(d.Close)
	return d
}

func wait(t *testing.T, events ...gpuworker.Event) {
	t.Helper()
	for _, e := range events {
		if err := e.Err(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestHomeComesBetweenOperatorsOfBorrowed(t *testing.T) {
	for name, c := range map[string]struct {
		memory string
		want   []string
	}{
		"other memory": {"h", []string{"borrowed", "home1", "home2", "borrowed"}},
		"same memory":  {"b", []string{"borrowed", "borrowed", "home1", "home2"}},
	} {
		t.Run(name, func(t *testing.T) {
			d, j, gate := start(t), &journal{}, make(chan struct{})
			lent := d.Submit(gpuworker.QueueBorrowed, &task{"borrowed", j, 2, gate, "b"})
			<-gate // the first operator runs
			first := d.Submit(gpuworker.QueueHome, &task{"home1", j, 1, nil, c.memory})
			second := d.Submit(gpuworker.QueueHome, &task{"home2", j, 1, nil, c.memory})
			gate <- struct{}{}
			<-gate
			gate <- struct{}{}
			wait(t, lent, first, second)
			if !slices.Equal(j.lines, c.want) {
				t.Errorf("order %v, wants %v", j.lines, c.want)
			}
			if lent.BusyNs() <= 0 || first.BusyNs() <= 0 || d.BusyNs() != lent.BusyNs()+first.BusyNs()+second.BusyNs() {
				t.Errorf("busy %d, of tasks %d, %d, %d", d.BusyNs(), lent.BusyNs(), first.BusyNs(), second.BusyNs())
			}
		})
	}
}

func TestBorrowedNeverInterruptsHome(t *testing.T) {
	d, j, gate := start(t), &journal{}, make(chan struct{})
	home := d.Submit(gpuworker.QueueHome, &task{"home", j, 2, gate, "h"})
	<-gate
	lent := d.Submit(gpuworker.QueueBorrowed, &task{"borrowed", j, 1, nil, "b"})
	other := d.Submit(gpuworker.QueueHome, &task{"home2", j, 1, nil, "x"})
	gate <- struct{}{}
	<-gate
	gate <- struct{}{}
	wait(t, home, lent, other)
	if want := []string{"home", "home", "home2", "borrowed"}; !slices.Equal(j.lines, want) {
		t.Errorf("order %v, wants %v", j.lines, want)
	}
}

func TestCopiesRunBesideSteps(t *testing.T) {
	d, j, gate := start(t), &journal{}, make(chan struct{})
	step := d.Submit(gpuworker.QueueHome, &task{"step", j, 1, gate, ""})
	<-gate
	wait(t, d.Submit(gpuworker.QueueCopy, &task{"copy", j, 1, nil, ""}))
	gate <- struct{}{}
	wait(t, step)
}

func TestErrorsDoNotStopAQueue(t *testing.T) {
	d, bad := start(t), errors.New("bad")
	first := d.Submit(gpuworker.QueueHome, dispatch.Func(func() error { return bad }))
	wait(t, d.Submit(gpuworker.QueueHome, dispatch.Func(func() error { return nil })))
	if !errors.Is(first.Err(), bad) {
		t.Errorf("%v", first.Err())
	}
}

func TestEndsCompleteAllThatIsPending(t *testing.T) {
	ill := errors.New("on fire")
	for name, c := range map[string]struct {
		end  func(*dispatch.Dispatcher)
		want error
	}{
		"unhealthy": {func(d *dispatch.Dispatcher) { d.Fail(ill); d.Fail(errors.New("later")) }, gpuworker.ErrUnhealthy},
		"closed":    {func(d *dispatch.Dispatcher) { go d.Close() }, gpuworker.ErrDeviceClosed},
	} {
		t.Run(name, func(t *testing.T) {
			d, j, gate := start(t), &journal{}, make(chan struct{})
			running := d.Submit(gpuworker.QueueBorrowed, &task{"running", j, 3, gate, ""})
			<-gate
			var pending []gpuworker.Event
			for i := range 20 {
				pending = append(pending, d.Submit(gpuworker.Queue(i%2), &task{"pending", j, 1, nil, ""}))
			}
			c.end(d)
			for _, e := range pending {
				if !errors.Is(e.Err(), c.want) {
					t.Fatalf("pending: %v", e.Err())
				}
			}
			gate <- struct{}{} // the running one stops at its next boundary
			if !errors.Is(running.Err(), c.want) {
				t.Errorf("running: %v", running.Err())
			}
			if e := d.Submit(gpuworker.QueueHome, dispatch.Func(func() error { return nil })); !errors.Is(e.Err(), c.want) {
				t.Errorf("submitted later: %v", e.Err())
			}
			if !slices.Equal(j.lines, []string{"running"}) {
				t.Errorf("ran %v", j.lines)
			}
		})
	}
}
