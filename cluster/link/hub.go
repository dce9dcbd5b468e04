package link

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"slicescheduler/cluster"
	"slicescheduler/cluster/secret"
	"slicescheduler/gmg"
)

// Defaults of Timing.
const (
	defaultAlive     = 500 * time.Millisecond
	defaultSilence   = 2500 * time.Millisecond
	defaultHandshake = 3 * time.Second
	defaultRetry     = 50 * time.Millisecond
	defaultRetryMax  = time.Second
	maxGreeting      = 64 // connections that have not yet shown who they are
)

// Timing is how fast a hub notices what happens. Zero values mean the defaults.
type Timing struct {
	Alive     time.Duration // between signs of life
	Silence   time.Duration // after which a session is given up
	Handshake time.Duration // at most, for connecting and greeting
	Retry     time.Duration // between tries to dial, doubling
	RetryMax  time.Duration
}

func (t Timing) withDefaults() Timing {
	for _, d := range []struct {
		v    *time.Duration
		want time.Duration
	}{{&t.Alive, defaultAlive}, {&t.Silence, defaultSilence}, {&t.Handshake, defaultHandshake}, {&t.Retry, defaultRetry}, {&t.RetryMax, defaultRetryMax}} {
		if *d.v == 0 {
			*d.v = d.want
		}
	}
	return t
}

// Config is what a hub listens and dials with.
type Config struct {
	Node        gmg.NodeID
	Incarnation uint64
	Cluster     string           // empty: cluster.DefaultCluster
	Bind        string           // HOST:PORT; port 0 for any
	Advertise   string           // HOST[:PORT] by which others reach it; empty: what is bound
	Identity    *secret.Identity // nil: connections are plain, on loopback only
	Accepted    Handler          // of sessions that others opened
	Dialled     Handler          // of sessions that Send opened
	Tensors     func(net.Conn)   // takes over verified connections for tensors, and closes them; nil: refused
	Timing      Timing
	Logger      *slog.Logger // nil: none
}

func (c Config) withDefaults() Config {
	if c.Cluster == "" {
		c.Cluster = cluster.DefaultCluster
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Timing = c.Timing.withDefaults()
	return c
}

// Validate says what is wrong with a configuration.
func (c Config) Validate() error {
	c = c.withDefaults()
	for _, name := range []string{string(c.Node), c.Cluster} {
		if err := cluster.ValidateName(name); err != nil {
			return fmt.Errorf("%w: %w", cluster.ErrConfig, err)
		}
	}
	if c.Accepted == nil || c.Dialled == nil {
		return fmt.Errorf("%w: a hub needs handlers", cluster.ErrConfig)
	}
	if _, _, err := cluster.SplitHostPort(c.Bind, 0); err != nil {
		return fmt.Errorf("bind %w", err)
	}
	if c.Advertise != "" {
		if _, _, err := cluster.SplitHostPort(c.Advertise, 0); err != nil {
			return fmt.Errorf("advertise %w", err)
		}
	}
	return nil
}

// Hub is a node's end of all its links. Its methods may be called from any goroutine, Handlers' too, but for Close.
type Hub struct {
	config   Config
	hello    Hello
	listener net.Listener
	address  netip.AddrPort
	ended    context.Context
	end      context.CancelFunc
	running  sync.WaitGroup
	greeting chan struct{}
	mu       sync.Mutex
	open     map[*Session]bool
	peers    map[gmg.NodeID]*peer
}

// Listen opens a hub. ctx bounds the start only.
func Listen(ctx context.Context, c Config) (*Hub, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	h := &Hub{config: c, greeting: make(chan struct{}, maxGreeting), open: make(map[*Session]bool), peers: make(map[gmg.NodeID]*peer),
		hello: Hello{MinVersion: MinVersion, Version: Version, Cluster: c.Cluster, Node: c.Node, Incarnation: c.Incarnation}}
	var err error
	if h.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", c.Bind); err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("port for other nodes %s is taken by another process: choose another with --peer-bind, or port 0 for any: %w", c.Bind, err)
		}
		return nil, fmt.Errorf("listen for other nodes at %s: %w", c.Bind, err)
	}
	bound := h.listener.Addr().(*net.TCPAddr).AddrPort()
	if c.Identity == nil && !bound.Addr().Unmap().IsLoopback() {
		return nil, errors.Join(fmt.Errorf("%w: %s can be reached by other machines and there is no secret: make one with slicer secret new and give every node --secret-file, or bind 127.0.0.1",
			cluster.ErrOpenBind, c.Bind), h.listener.Close())
	}
	if h.address, err = advertised(ctx, c.Advertise, bound); err != nil {
		return nil, errors.Join(err, h.listener.Close())
	}
	h.ended, h.end = context.WithCancel(context.Background())
	h.running.Go(h.accept)
	return h, nil
}

// advertised is the address by which others reach what is bound; it is never a wildcard.
func advertised(ctx context.Context, text string, bound netip.AddrPort) (netip.AddrPort, error) {
	ip, port := bound.Addr().Unmap(), int(bound.Port())
	if text != "" {
		host, p, err := cluster.SplitHostPort(text, port)
		if err != nil {
			return netip.AddrPort{}, err
		}
		if p != 0 {
			port = p
		}
		if host != "" {
			if ip, err = cluster.Resolve(ctx, net.DefaultResolver, host); err != nil {
				return netip.AddrPort{}, err
			}
		}
	}
	ip, err := cluster.Outward(ip)
	return netip.AddrPortFrom(ip, uint16(port)), err
}

// Address is where others reach the hub.
func (h *Hub) Address() netip.AddrPort { return h.address }

// Close ends all sessions and waits until their handlers have returned.
func (h *Hub) Close() error {
	h.mu.Lock()
	h.end()
	for s := range h.open {
		s.Close()
	}
	h.mu.Unlock()
	err := h.listener.Close()
	h.running.Wait()
	return err
}

func (h *Hub) accept() {
	for {
		conn, err := h.listener.Accept()
		if h.ended.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return
		}
		if err != nil {
			h.config.Logger.Warn("connection of another node not accepted", "error", err)
			select {
			case <-time.After(h.config.Timing.Retry): // out of descriptors, for example
			case <-h.ended.Done():
			}
			continue
		}
		select {
		case h.greeting <- struct{}{}:
			h.running.Go(func() { h.serve(conn) })
		default:
			conn.Close() // strangers don't keep nodes out for longer than a handshake
		}
	}
}

// serve greets who has connected, and takes what it sends.
func (h *Hub) serve(conn net.Conn) {
	s, err := h.greet(conn)
	<-h.greeting
	if err != nil {
		conn.Close()
		if h.ended.Err() == nil {
			h.config.Logger.Warn("connection refused", "from", conn.RemoteAddr(), "error", err)
		}
		return
	}
	if s.Peer.Purpose == PurposeTensors {
		stop := context.AfterFunc(h.ended, func() { conn.Close() })
		defer stop()
		h.config.Tensors(bufferedConn{s.conn, s.reader})
		return
	}
	h.run(s, h.config.Accepted)
}

// bufferedConn is a connection whose first bytes may have been read already.
type bufferedConn struct {
	net.Conn
	reader *bufio.Reader
}

// Read implements net.Conn.
func (c bufferedConn) Read(b []byte) (int, error) { return c.reader.Read(b) }

// greet waits for the dialler's hello and answers it.
func (h *Hub) greet(conn net.Conn) (*Session, error) {
	stop := context.AfterFunc(h.ended, func() { conn.Close() })
	defer stop()
	if err := conn.SetDeadline(time.Now().Add(h.config.Timing.Handshake)); err != nil {
		return nil, err
	}
	safe := conn
	if h.config.Identity != nil {
		safe = tls.Server(conn, h.config.Identity.Server())
	}
	reader := bufio.NewReaderSize(safe, maxHelloBytes)
	peer, err := readHello(reader)
	if err != nil {
		return nil, err
	}
	if err = h.hello.check(peer); err == nil && (peer.Purpose != PurposeMessages && (peer.Purpose != PurposeTensors || h.config.Tensors == nil)) {
		err = fmt.Errorf("%w: purpose %d", ErrHello, peer.Purpose)
	}
	if err != nil {
		_, failed := safe.Write(encodeRefusal(err.Error()))
		return nil, errors.Join(err, failed)
	}
	mine := h.hello
	mine.Purpose = peer.Purpose
	if _, err := safe.Write(mine.encode()); err != nil {
		return nil, err
	}
	return h.session(peer, conn, safe, reader)
}

// session makes a greeted connection one; a connection for tensors has no silence to watch for, since they are asked for.
func (h *Hub) session(peer Hello, conn, safe net.Conn, first *bufio.Reader) (*Session, error) {
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	if peer.Purpose == PurposeTensors {
		return newSession(peer, safe, first, h.config.Timing), nil
	}
	w := watched{safe, h.config.Timing.Silence}
	rest := make([]byte, first.Buffered())
	if _, err := first.Read(rest); err != nil && len(rest) > 0 {
		return nil, err
	}
	return newSession(peer, w, bufio.NewReaderSize(&prefixed{rest, w}, bufferBytes), h.config.Timing), nil
}

// prefixed reads some bytes and then the connection.
type prefixed struct {
	first []byte
	conn  net.Conn
}

// Read implements io.Reader.
func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.first) > 0 {
		n := copy(b, p.first)
		p.first = p.first[n:]
		return n, nil
	}
	return p.conn.Read(b)
}

// run handles a session until it ends.
func (h *Hub) run(s *Session, handler Handler) {
	h.mu.Lock()
	if h.ended.Err() != nil {
		s.Close()
	}
	h.open[s] = true
	h.mu.Unlock()
	s.run(handler)
	h.mu.Lock()
	delete(h.open, s)
	h.mu.Unlock()
}

// Dial connects with a node that must be the expected one: addresses are used again by others. The connection's hello is exchanged when it returns.
func (h *Hub) Dial(ctx context.Context, address string, node gmg.NodeID, purpose Purpose) (net.Conn, error) {
	s, err := h.dial(ctx, address, node, purpose)
	if err != nil {
		return nil, err
	}
	return bufferedConn{s.conn, s.reader}, nil
}

func (h *Hub) dial(ctx context.Context, address string, node gmg.NodeID, purpose Purpose) (*Session, error) {
	ctx, cancel := context.WithTimeout(ctx, h.config.Timing.Handshake)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", node, err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	s, err := h.introduce(conn, node, purpose)
	if err == nil && !stop() {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("node %s at %s: %w", node, address, err)
	}
	return s, nil
}

// introduce says hello and checks who answers.
func (h *Hub) introduce(conn net.Conn, node gmg.NodeID, purpose Purpose) (*Session, error) {
	safe := conn
	if h.config.Identity != nil {
		safe = tls.Client(conn, h.config.Identity.Client())
	}
	mine := h.hello
	mine.Purpose = purpose
	if _, err := safe.Write(mine.encode()); err != nil {
		return nil, err
	}
	reader := bufio.NewReaderSize(safe, maxHelloBytes)
	peer, err := readHello(reader)
	if err != nil {
		return nil, err
	}
	if peer.Node != node {
		return nil, fmt.Errorf("%w: it is node %s", ErrHello, peer.Node)
	}
	peer.Purpose = purpose
	return h.session(peer, conn, safe, reader)
}
