package gpuworker

import "sync"

// Completion is the Event that backends hand out. Make it with NewCompletion, complete it once with Complete.
type Completion struct {
	done   chan struct{}
	once   sync.Once
	err    error
	busyNs int64
}

// NewCompletion returns an Event that is not done yet.
func NewCompletion() *Completion { return &Completion{done: make(chan struct{})} }

// Complete makes the Event done. Only the first call counts; it says whether it was that.
func (c *Completion) Complete(err error, busyNs int64) (first bool) {
	c.once.Do(func() {
		c.err, c.busyNs, first = err, busyNs, true
		close(c.done)
	})
	return first
}

// Done implements Event.
func (c *Completion) Done() <-chan struct{} { return c.done }

// Err implements Event.
func (c *Completion) Err() error {
	<-c.done
	return c.err
}

// BusyNs implements Event.
func (c *Completion) BusyNs() int64 {
	<-c.done
	return c.busyNs
}

// CompletedEvent returns an Event that is done already.
func CompletedEvent(err error) Event {
	c := NewCompletion()
	c.Complete(err, 0)
	return c
}
