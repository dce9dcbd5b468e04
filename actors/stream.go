package actors

import (
	"context"
	"sync"
)

// stream is a running answer on its way from the gateway actor to one client. The gateway never waits for the client: it counts the tokens that the client
// has not taken, and pauses the request when they exceed the window.
type stream struct {
	id     string
	window int    // unread tokens above which the request pauses
	resume func() // the client took enough for the request to go on
	cancel func() // the client is gone

	mu     sync.Mutex
	events []Event
	unread int // tokens in events
	paused bool
	ended  bool          // the last event was pushed
	closed bool          // by the client
	wake   chan struct{} // holds one signal when there is something to see
}

func newStream(id string, window int) *stream {
	return &stream{id: id, window: window, wake: make(chan struct{}, 1)}
}

// ID returns the request's id.
func (s *stream) ID() string { return s.id }

// push hands over an event. It returns true when the request is to be paused, which is said once until the client catches up.
func (s *stream) push(e Event) (pause bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.closed {
		return false
	}
	s.ended = e.Finish != ""
	s.unread += len(e.Tokens)
	s.events = append(s.events, e)
	select {
	case s.wake <- struct{}{}:
	default:
	}
	if !s.ended && !s.paused && s.unread >= s.window {
		s.paused = true
		return true
	}
	return false
}

// Next blocks for the next event.
func (s *stream) Next(ctx context.Context) (Event, error) {
	for {
		e, ok, err := s.take()
		if ok || err != nil {
			return e, err
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}

// take returns the first unread event, or an error when there will be none.
func (s *stream) take() (e Event, ok bool, err error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return Event{}, false, ErrStreamClosed
	}
	if len(s.events) == 0 {
		ended := s.ended
		s.mu.Unlock()
		if ended {
			return Event{}, false, ErrStreamEnded
		}
		return Event{}, false, nil
	}
	e = s.events[0]
	s.events[0] = Event{}
	if s.events = s.events[1:]; len(s.events) == 0 {
		s.events = nil
	}
	s.unread -= len(e.Tokens)
	resume := s.paused && !s.ended && s.unread <= s.window/2
	if resume {
		s.paused = false
	}
	s.mu.Unlock()
	if resume {
		s.resume()
	}
	return e, true, nil
}

// Close cancels the request if it still runs.
func (s *stream) Close() {
	s.mu.Lock()
	first, running := !s.closed, !s.ended
	s.closed, s.events, s.unread = true, nil, 0
	s.mu.Unlock()
	if !first {
		return
	}
	close(s.wake)
	if running {
		s.cancel()
	}
}
