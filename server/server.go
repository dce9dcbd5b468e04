// Package server is a node's HTTP side: the OpenAI API, the admin API, health, metrics and a page for browsers. It holds no state of its own beyond
// counters; everything else is asked of actors.API.
package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"slicescheduler/actors"
)

// ErrConfig is a Config that can't be.
var ErrConfig = errors.New("invalid server config")

// Timeouts of connections. Nothing bounds how long an answer streams; each single write is bounded by Limits.WriteTimeout.
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	lastWordsTimeout  = time.Second // for telling clients that the node ends
)

// Limits bound what one request may ask. A zero field takes its default.
type Limits struct {
	BodyBytes    int64         // of a request's body; default 8 MiB
	Choices      int           // prompts times n; default 128
	Stops        int           // stop strings; default 16
	ReadTimeout  time.Duration // to receive a whole body; default 30 s
	WriteTimeout time.Duration // for a client to take one event; default 30 s
}

// Config says what a server serves and to whom.
type Config struct {
	API    actors.API
	Logger *slog.Logger // nil: slog.Default()
	Limits Limits
	// AdminKey guards the admin API and may use every tenant. When empty only this machine may use the admin API.
	AdminKey string
	// Loopback says that the listener is bound to a loopback address: tenants without keys are open, and the Host header is checked.
	Loopback bool
	// OpenTenants opens tenants without keys on other binds too.
	OpenTenants bool
	// Hosts are names allowed in the Host header on loopback binds, beside localhost, 127.0.0.1 and ::1.
	Hosts   []string
	Version string
	// MetricsSource gives the node's counters to /metrics; nil for none.
	MetricsSource func() actors.MetricsSnapshot
}

// Validate says what is wrong with a config. The error is an ErrConfig.
func (c Config) Validate() error {
	l := c.Limits
	switch {
	case c.API == nil:
		return fmt.Errorf("%w: API is nil", ErrConfig)
	case l.BodyBytes < 0 || l.Choices < 0 || l.Stops < 0 || l.ReadTimeout < 0 || l.WriteTimeout < 0:
		return fmt.Errorf("%w: limits must not be negative: %+v", ErrConfig, l)
	}
	return nil
}

func (l Limits) withDefaults() Limits {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	if l.BodyBytes == 0 {
		l.BodyBytes = 8 << 20
	}
	def(&l.Choices, 128)
	def(&l.Stops, 16)
	if l.ReadTimeout == 0 {
		l.ReadTimeout = 30 * time.Second
	}
	if l.WriteTimeout == 0 {
		l.WriteTimeout = 30 * time.Second
	}
	return l
}

// Server is an http.Handler, and with Serve and Shutdown a whole HTTP server.
type Server struct {
	config  Config
	api     actors.API
	log     *slog.Logger
	metrics *metrics
	handler http.Handler
	http    *http.Server
	cancel  context.CancelCauseFunc // ends the requests that outlast Shutdown's grace
	now     func() time.Time
	newID   func() string
}

// New makes a server. The error is an ErrConfig.
func New(c Config) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.Limits = c.Limits.withDefaults()
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	s := &Server{config: c, api: c.API, log: c.Logger, cancel: cancel, now: time.Now, newID: randomID}
	s.metrics = newMetrics(c)
	s.handler = s.middleware(s.routes())
	s.http = &http.Server{
		Handler: s, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(c.Logger.Handler(), slog.LevelDebug),
	}
	return s, nil
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Serve answers a listener's connections until Shutdown, and then returns nil.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving HTTP on %s: %w", l.Addr(), err)
	}
	return nil
}

// Shutdown takes no new requests, waits for the running ones until ctx is done, and then ends them: their clients are told so if they still listen. It
// returns ctx's error if any had to be ended.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	s.cancel(actors.ErrShutdown)
	if err == nil {
		return nil
	}
	last, done := context.WithTimeout(context.WithoutCancel(ctx), lastWordsTimeout)
	defer done()
	if s.http.Shutdown(last) != nil {
		err = errors.Join(err, s.http.Close())
	}
	return err
}

func randomID() string { return rand.Text() }
