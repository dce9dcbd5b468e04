package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

const (
	requestIDHeader   = "X-Request-Id"
	maxRequestIDBytes = 128
)

type requestIDKey struct{}

func requestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// saneID says whether a client's request id may go into logs and headers.
func saneID(id string) bool {
	const sane = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:"
	return id != "" && len(id) <= maxRequestIDBytes && !strings.ContainsFunc(id, func(r rune) bool { return !strings.ContainsRune(sane, r) })
}

// recorder remembers what was answered.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	if status == statusClientGone {
		return // nobody is there, and it is no status of HTTP
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if w.status == statusClientGone {
		return len(p), nil
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController find the connection.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// middleware gives each request an id, guards it, counts it, logs it, and turns a panic into an error.
func (s *Server) middleware(next http.Handler) http.Handler {
	guarded := s.guardHost(s.guardOrigin(next))
	return http.HandlerFunc(func(plain http.ResponseWriter, r *http.Request) {
		start := s.now()
		id := r.Header.Get(requestIDHeader)
		if !saneID(id) {
			id = "req-" + s.newID()
		}
		h := plain.Header()
		h.Set(requestIDHeader, id)
		h.Set("X-Content-Type-Options", "nosniff")
		w := &recorder{ResponseWriter: plain}
		r = r.WithContext(context.WithValue(r.Context(), requestIDKey{}, id))
		if r.ContentLength != 0 {
			// Bounds bodies that no handler reads too. Requests without a body are left alone: on them it would end the watch for the client leaving.
			_ = http.NewResponseController(plain).SetReadDeadline(start.Add(s.config.Limits.ReadTimeout)) // not every writer has deadlines
		}
		s.metrics.inFlight.Inc()
		defer func() {
			abort := s.recovered(recover(), w, r)
			s.metrics.inFlight.Dec()
			s.account(w, r, s.now().Sub(start))
			if abort {
				panic(http.ErrAbortHandler) // cuts the connection: the client must not take half an answer for a whole one
			}
		}()
		guarded.ServeHTTP(w, r)
	})
}

// recovered answers for a handler that panicked, and says whether the connection must be cut.
func (s *Server) recovered(p any, w *recorder, r *http.Request) (abort bool) {
	switch {
	case p == nil:
		return false
	case p == http.ErrAbortHandler: //nolint:errorlint // a sentinel by contract
		return true
	}
	s.log.Error("handler panicked", "requestId", requestID(r.Context()), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	if w.status != 0 {
		return true
	}
	s.fail(w, r, fmt.Errorf("panic: %v", p))
	return false
}

// account counts and logs a finished request: no bodies, no queries, no keys.
func (s *Server) account(w *recorder, r *http.Request, took time.Duration) {
	route := r.Pattern
	if route == "" || route == "/" && r.URL.Path != "/" {
		route = "other"
	}
	s.metrics.observe(route, r.Method, w.status, took)
	s.log.Info("http request", "requestId", requestID(r.Context()), "method", r.Method, "path", r.URL.Path, "status", w.status,
		"bytes", w.bytes, "durationMs", float64(took.Microseconds())/1000, "remote", r.RemoteAddr)
}

// guardHost refuses names that a stranger's DNS may point at this machine, so that web pages can't reach a loopback bind under their own name.
func (s *Server) guardHost(next http.Handler) http.Handler {
	if !s.config.Loopback {
		return next
	}
	allowed := append([]string{"localhost", "127.0.0.1", "::1"}, s.config.Hosts...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
		if !slices.ContainsFunc(allowed, func(a string) bool { return strings.EqualFold(a, host) }) {
			s.fail(w, r, &apiError{status: http.StatusForbidden, kind: typePermission, code: "host_not_allowed",
				message: fmt.Sprintf("host %.100q is not served here; use localhost or add the name to the server's hosts", host)})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// guardOrigin refuses requests that browsers send on behalf of other sites.
func (s *Server) guardOrigin(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := protection.Check(r); err != nil {
			s.fail(w, r, &apiError{status: http.StatusForbidden, kind: typePermission, code: "cross_origin", message: err.Error()})
			return
		}
		next.ServeHTTP(w, r)
	})
}
