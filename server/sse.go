package server

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"slicescheduler/actors"
)

// eventWriter sends server-sent events, each flushed at once. A client that takes none for the write timeout is given up, so that it holds no slot.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	now     func() time.Time
}

// newEventWriter begins a stream of events.
func (s *Server) newEventWriter(w http.ResponseWriter) *eventWriter {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // proxies of nginx's kind hold events back otherwise
	w.WriteHeader(http.StatusOK)
	return &eventWriter{w, http.NewResponseController(w), s.config.Limits.WriteTimeout, s.now}
}

// send writes one event. Its JSON holds no line ends, so it is one data line.
func (e *eventWriter) send(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return e.line(data)
}

func (e *eventWriter) line(data []byte) error {
	_ = e.control.SetWriteDeadline(e.now().Add(e.timeout)) // not every writer has deadlines
	frame := make([]byte, 0, len(data)+8)
	frame = append(append(append(frame, "data: "...), data...), "\n\n"...)
	if _, err := e.w.Write(frame); err != nil {
		return err
	}
	return e.control.Flush()
}

// end closes the stream: with [DONE], or after an error with the error instead.
func (s *Server) end(e *eventWriter, r *http.Request, err error) {
	switch {
	case err == nil:
		_ = e.line([]byte("[DONE]")) // the client has all it asked for
	case r.Context().Err() != nil && !errors.Is(err, actors.ErrShutdown): // the client has gone
	default:
		s.log.Warn("stream ended early", "requestId", requestID(r.Context()), "error", err)
		_ = e.send(errorFor(r, err).body())
	}
	_ = e.control.SetWriteDeadline(time.Time{})
}
