package link

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"slicescheduler/cluster"
	"slicescheduler/cluster/secret"
	"slicescheduler/gmg"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds waits for what must happen; nothing is concluded from how long it took.
const patience = 30 * time.Second

var lives atomic.Uint64

type got struct {
	s    *Session
	what string
	kind byte
	body []byte
	err  error
}

// ears hand over what a handler was told.
type ears chan got

func (e ears) Opened(s *Session) { e <- got{s: s, what: "opened"} }
func (e ears) Message(s *Session, kind byte, body []byte) {
	e <- got{s: s, what: "message", kind: kind, body: body}
}
func (e ears) Closed(s *Session, why error)        { e <- got{s: s, what: "closed", err: why} }
func (e ears) await(t testing.TB, what string) got { t.Helper(); return awaitFrom(t, e, what) }
func awaitFrom(t testing.TB, e ears, what string) (found got) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		select {
		case found = <-e:
			if found.what == what {
				return found
			}
		case <-deadline.C:
			t.Fatalf("nothing was %s", what)
		}
	}
}

type testHub struct {
	*Hub
	accepted, dialled ears
}

func identity(t testing.TB, node string, s secret.Secret) *secret.Identity {
	t.Helper()
	id, err := secret.NewIdentity(cluster.DefaultCluster, node, secret.Keys{s}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func open(t testing.TB, name string, change func(*Config)) *testHub {
	t.Helper()
	h := &testHub{accepted: make(ears, 4096), dialled: make(ears, 4096)}
	c := Config{Node: gmg.NodeID(name), Incarnation: lives.Add(1), Bind: "127.0.0.1:0", Accepted: h.accepted, Dialled: h.dialled,
		Timing: Timing{Alive: 20 * time.Millisecond, Silence: 300 * time.Millisecond, Retry: 5 * time.Millisecond, RetryMax: 20 * time.Millisecond}}
	if change != nil {
		change(&c)
	}
	var err error
	if h.Hub, err = Listen(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

func (h *testHub) peersWith(others ...*testHub) {
	list := make(map[gmg.NodeID]string)
	for _, o := range others {
		list[o.config.Node] = o.Address().String()
	}
	h.SetPeers(list)
}

func TestMessagesComeInOrderBothWays(t *testing.T) {
	s := secret.New()
	for name, secured := range map[string]bool{"plain": false, "mutual TLS": true} {
		t.Run(name, func(t *testing.T) {
			with := func(node string) func(*Config) {
				if !secured {
					return nil
				}
				return func(c *Config) { c.Identity = identity(t, node, s) }
			}
			a, b := open(t, "a", with("a")), open(t, "b", with("b"))
			a.peersWith(b)
			const messages = 500
			for i := range messages {
				if _, err := a.Send("b", 7, binary.BigEndian.AppendUint32(nil, uint32(i))); err != nil {
					t.Fatal(err)
				}
			}
			for i := range messages {
				m := b.accepted.await(t, "message")
				if n := binary.BigEndian.Uint32(m.body); m.kind != 7 || n != uint32(i) || m.s.Peer.Node != "a" || m.s.Peer.Incarnation != a.config.Incarnation {
					t.Fatalf("message %d is %d of kind %d from %+v", i, n, m.kind, m.s.Peer)
				}
				if err := m.s.Send(9, m.body); err != nil {
					t.Fatal(err)
				}
			}
			for i := range messages {
				if m := a.dialled.await(t, "message"); m.kind != 9 || binary.BigEndian.Uint32(m.body) != uint32(i) {
					t.Fatalf("answer %d is %v", i, m)
				}
			}
		})
	}
}

func TestLargeMessagesCostNothingButThemselves(t *testing.T) {
	a, b := open(t, "a", nil), open(t, "b", nil)
	a.peersWith(b)
	s := a.dialled.await(t, "opened").s
	if _, err := a.Send("b", 1, make([]byte, MaxMessageBytes+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a message over the limit: %v", err)
	}
	for _, n := range []int{5 << 20, 0, MaxMessageBytes} {
		if now, err := a.Send("b", 1, make([]byte, n)); err != nil || now != s {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if m := b.accepted.await(t, "message"); len(m.body) != n {
			t.Errorf("%d bytes came as %d", n, len(m.body))
		}
	}
}

func TestCrashedPeerIsReachedAgainAtItsAddress(t *testing.T) {
	a, b := open(t, "a", nil), open(t, "b", nil)
	a.peersWith(b)
	first := a.dialled.await(t, "opened").s
	address := b.Address().String()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if down := a.dialled.await(t, "closed"); down.s != first || down.err == nil {
		t.Errorf("closed: %+v", down)
	}
	again := open(t, "b", func(c *Config) { c.Bind = address })
	second := a.dialled.await(t, "opened").s
	if second.Peer.Incarnation != again.config.Incarnation || second == first {
		t.Errorf("the new session is with %+v", second.Peer)
	}
	if _, err := a.Send("b", 3, []byte("hello again")); err != nil {
		t.Fatal(err)
	}
	if m := again.accepted.await(t, "message"); string(m.body) != "hello again" {
		t.Errorf("got %q", m.body)
	}
}

func TestSilentPeerIsGivenUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hung := make(chan net.Conn, 64)
	defer func() {
		l.Close()
		for c := range hung {
			c.Close()
		}
	}()
	go func() { // greets, and then neither reads nor writes, as a stopped process does
		defer close(hung)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := readHello(bufio.NewReader(c)); err == nil {
				_, _ = c.Write(Hello{MinVersion: 1, Version: 1, Purpose: PurposeMessages, Cluster: cluster.DefaultCluster, Node: "b", Incarnation: 1}.encode())
			}
			hung <- c
		}
	}()
	a := open(t, "a", nil)
	a.SetPeers(map[gmg.NodeID]string{"b": l.Addr().String()})
	s := a.dialled.await(t, "opened").s
	if down := a.dialled.await(t, "closed"); down.s != s {
		t.Errorf("another session was closed: %+v", down)
	}
	a.SetPeers(nil)
	l.Close()
}

func TestStrangersAreRefused(t *testing.T) {
	ours, theirs := secret.New(), secret.New()
	b := open(t, "b", func(c *Config) { c.Identity = identity(t, "b", ours) })
	for name, c := range map[string]struct {
		change func(*Config)
		node   gmg.NodeID
		want   string
	}{
		"another secret":  {func(c *Config) { c.Identity = identity(t, "a", theirs) }, "b", "secret"},
		"no secret":       {nil, "b", ""},
		"another node":    {func(c *Config) { c.Identity = identity(t, "a", ours) }, "c", "it is node b"},
		"another cluster": {func(c *Config) { c.Identity, c.Cluster = identity(t, "a", ours), "other" }, "b", `of cluster \"other\"`},
	} {
		a := open(t, "a", c.change)
		_, err := a.Dial(t.Context(), b.Address().String(), c.node, PurposeMessages)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := open(t, "a", func(c *Config) { c.Identity = identity(t, "a", ours) }).Dial(t.Context(), b.Address().String(), "b", PurposeTensors); err == nil {
		t.Error("tensors were taken by a hub that has nobody for them")
	}
}

func TestPublicBindWithoutSecretIsRefused(t *testing.T) {
	_, err := Listen(t.Context(), Config{Node: "a", Incarnation: 1, Bind: "0.0.0.0:0", Accepted: make(ears), Dialled: make(ears)})
	if !errors.Is(err, cluster.ErrOpenBind) || !strings.Contains(err.Error(), "slicer secret new") {
		t.Errorf("got %v", err)
	}
	taken := open(t, "a", nil)
	_, err = Listen(t.Context(), Config{Node: "b", Incarnation: 1, Bind: taken.Address().String(), Accepted: make(ears), Dialled: make(ears)})
	if err == nil || !strings.Contains(err.Error(), taken.Address().String()) || !strings.Contains(err.Error(), "--peer-bind") {
		t.Errorf("a taken port: %v", err)
	}
	h := open(t, "c", func(c *Config) { c.Advertise = "127.0.0.9:4567" })
	if h.Address().String() != "127.0.0.9:4567" {
		t.Errorf("advertised %v", h.Address())
	}
}

// What the first release says, byte by byte: later ones must be understood by it and understand it.
const recordedHello = "736c6b31001a01010106736c69636572066e6f64652d31808080808080808010"

func TestHelloOfTheFirstReleaseIsUnderstood(t *testing.T) {
	want := Hello{MinVersion: 1, Version: 1, Purpose: PurposeMessages, Cluster: "slicer", Node: "node-1", Incarnation: 1 << 60}
	if got := hex.EncodeToString(want.encode()); got != recordedHello {
		t.Errorf("this release says %s", got)
	}
	raw, err := hex.DecodeString(recordedHello)
	if err != nil {
		t.Fatal(err)
	}
	if h, err := readHello(bufio.NewReader(bytes.NewReader(raw))); err != nil || h.Node != want.Node || h.check(want) != nil {
		t.Errorf("got %+v, %v", h, err)
	}
	newer := want
	newer.Version = 2
	if err := want.check(newer); err != nil {
		t.Errorf("a release that still speaks version 1 is refused: %v", err)
	}
	newer.MinVersion = 2
	if err := want.check(newer); !errors.Is(err, cluster.ErrProtocol) || !strings.Contains(err.Error(), "one release at a time") {
		t.Errorf("a release that doesn't: %v", err)
	}
	longer := append(want.encode(), "appended by a newer release"...)
	binary.BigEndian.PutUint16(longer[len(helloMagic):], uint16(len(longer)-len(helloMagic)-2))
	if h, err := readHello(bufio.NewReader(bytes.NewReader(longer))); err != nil || h != want {
		t.Errorf("what a newer release appends isn't passed over: %+v, %v", h, err)
	}
}

func FuzzHello(f *testing.F) {
	raw, _ := hex.DecodeString(recordedHello)
	f.Add(raw)
	f.Add(encodeRefusal("no"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := readHello(bufio.NewReader(bytes.NewReader(b)))
		if err != nil {
			return
		}
		if again, err := readHello(bufio.NewReader(bytes.NewReader(h.encode()))); err != nil || again != h {
			t.Errorf("%+v is read as %+v, %v", h, again, err)
		}
	})
}

// FuzzPort sends what anybody may send to a node's port, and then talks to it as a node does.
func FuzzPort(f *testing.F) {
	raw, _ := hex.DecodeString(recordedHello)
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add(append(raw, 0, 0, 0, 2, 5, 6))
	f.Add(append(raw, 0xff, 0xff, 0xff, 0xff, 1))
	a, b := open(f, "a", nil), open(f, "b", nil)
	a.peersWith(b)
	a.dialled.await(f, "opened")
	go func() {
		for m := range b.accepted {
			if m.what == "message" && m.s.Peer.Node == "a" {
				_ = m.s.Send(m.kind, m.body)
			}
		}
	}()
	f.Cleanup(func() { _ = b.Close(); close(b.accepted) })
	f.Fuzz(func(t *testing.T, junk []byte) {
		c, err := net.Dial("tcp", b.Address().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write(junk)
		_ = c.(*net.TCPConn).CloseWrite()
		_ = c.SetReadDeadline(time.Now().Add(patience))
		_, _ = io.Copy(io.Discard, c)
		c.Close()
		if _, err := a.Send("b", 5, []byte("still there?")); err != nil {
			t.Fatal(err)
		}
		if m := a.dialled.await(t, "message"); string(m.body) != "still there?" {
			t.Errorf("answer %q", m.body)
		}
	})
}

func BenchmarkRoundTrip(b *testing.B) {
	s := secret.New()
	for _, secured := range []bool{false, true} {
		b.Run(fmt.Sprintf("tls=%v", secured), func(b *testing.B) {
			with := func(node string) func(*Config) {
				return func(c *Config) {
					if c.Timing = (Timing{}); secured {
						c.Identity = identity(b, node, s)
					}
				}
			}
			x, y := open(b, "x", with("x")), open(b, "y", with("y"))
			x.peersWith(y)
			x.dialled.await(b, "opened")
			y.accepted.await(b, "opened")
			body := make([]byte, 100)
			for b.Loop() {
				if _, err := x.Send("y", 1, body); err != nil {
					b.Fatal(err)
				}
				m := <-y.accepted
				if err := m.s.Send(1, m.body); err != nil {
					b.Fatal(err)
				}
				<-x.dialled
			}
		})
	}
}
