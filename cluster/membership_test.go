package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"slicescheduler/cluster/secret"
	"slicescheduler/gmg"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds waits for what must happen; nothing is concluded from how long it took.
const patience = 30 * time.Second

var lives atomic.Uint64

// node is a member under test; it keeps the events it got.
type node struct {
	*Membership
	t      *testing.T
	mu     sync.Mutex
	events []Event
	woken  chan struct{}
}

// launch starts a node on loopback. change may alter its configuration.
func launch(t *testing.T, name string, change func(*Config), seeds ...string) *node {
	t.Helper()
	n, err := tryLaunch(t, name, change, seeds...)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func tryLaunch(t *testing.T, name string, change func(*Config), seeds ...string) (*node, error) {
	n := &node{t: t, woken: make(chan struct{}, 1)}
	c := Config{Node: gmg.NodeID(name), Incarnation: 1000 + lives.Add(1), Bind: "127.0.0.1:0", Seeds: seeds, Meta: Meta{Version: "test"},
		Timing: Timing{RejoinAlone: 50 * time.Millisecond, Rejoin: 200 * time.Millisecond}, OnEvent: n.see}
	if change != nil {
		change(&c)
	}
	var err error
	n.Membership, err = Start(t.Context(), c)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n, nil
}

func (n *node) see(e Event) {
	n.mu.Lock()
	n.events = append(n.events, e)
	n.mu.Unlock()
	select {
	case n.woken <- struct{}{}:
	default:
	}
}

// await blocks until an event matches.
func (n *node) await(what string, match func(Event) bool) Event {
	n.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for seen := 0; ; {
		n.mu.Lock()
		events := n.events[seen:]
		n.mu.Unlock()
		for _, e := range events {
			if match(e) {
				return e
			}
		}
		seen += len(events)
		select {
		case <-n.woken:
		case <-deadline.C:
			n.t.Fatalf("%s never saw %s; it saw %+v and lists %+v", n.config.Node, what, n.events, n.Members())
		}
	}
}

func (n *node) awaitKind(kind EventKind, peer string) Event {
	n.t.Helper()
	return n.await(fmt.Sprintf("%s %s", peer, kind), func(e Event) bool { return e.Kind == kind && string(e.Member.Node) == peer })
}

func (n *node) address() string { return n.gossip.String() }

func TestNodeAloneIsACluster(t *testing.T) {
	n := launch(t, "a", nil)
	members := n.Members()
	if len(members) != 1 || !members[0].Self || members[0].State != StateUp || members[0].Gossip.Port() == 0 {
		t.Errorf("got %+v", members)
	}
	fact := n.Fact()
	if fact.ID != "a" || fact.GossipAddress != n.address() || fact.Version != "test" || fact.Incarnation != n.config.Incarnation {
		t.Errorf("fact %+v", fact)
	}
}

func TestThreeFindEachOtherAndNoticeADeath(t *testing.T) {
	a := launch(t, "a", nil)
	b := launch(t, "b", nil, a.address())
	c := launch(t, "c", func(c *Config) { c.Meta.ActorAddress = "10.0.0.3:7072" }, b.address())
	a.awaitKind(EventJoined, "c")
	if e := b.awaitKind(EventJoined, "c"); e.Member.Meta.ActorAddress != "10.0.0.3:7072" {
		t.Errorf("c's metadata is %+v", e.Member.Meta)
	}
	c.awaitKind(EventJoined, "a")
	start := time.Now()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	a.awaitKind(EventLost, "b")
	t.Logf("noticed the death after %v", time.Since(start).Round(10*time.Millisecond))
	for _, m := range a.Members() {
		if m.Node == "b" && m.State != StateLost || m.Node == "c" && m.State != StateUp {
			t.Errorf("%s is %s", m.Node, m.State)
		}
	}
}

func TestLeavingIsNotDying(t *testing.T) {
	a := launch(t, "a", nil)
	b := launch(t, "b", nil, a.address())
	a.awaitKind(EventJoined, "b")
	b.awaitKind(EventJoined, "a") // one that knows nobody has nobody to tell
	if err := b.Leave(); err != nil {
		t.Fatal(err)
	}
	a.awaitKind(EventLeft, "b")
	if members := a.Members(); len(members) != 1 {
		t.Errorf("one that left is still listed: %+v", members)
	}
	if err := b.Leave(); err != nil {
		t.Errorf("leaving twice: %v", err)
	}
}

// Seeds may come up later, and each other's seed may be the other.
func TestSimultaneousStartsConverge(t *testing.T) {
	var ports []string
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, l.Addr().String())
		l.Close()
	}
	var nodes []*node
	for i, name := range []string{"a", "b", "c"} {
		nodes = append(nodes, launch(t, name, func(c *Config) { c.Bind = ports[i] }, ports[(i+1)%3]))
	}
	for _, n := range nodes {
		for _, peer := range []string{"a", "b", "c"} {
			if string(n.config.Node) != peer {
				n.awaitKind(EventJoined, peer)
			}
		}
	}
}

// A node that was killed comes back under its name at another port: it is one node, in a new life.
func TestRestartUnderTheSameName(t *testing.T) {
	a := launch(t, "a", nil)
	b := launch(t, "b", nil, a.address())
	first := a.awaitKind(EventJoined, "b").Member
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	again := launch(t, "b", nil, a.address())
	e := a.await("b's new life", func(e Event) bool {
		return e.Kind == EventJoined && e.Member.Node == "b" && e.Member.Incarnation > first.Incarnation
	})
	if e.Member.Gossip != again.gossip {
		t.Errorf("b is thought to be at %v, it is at %v", e.Member.Gossip, again.gossip)
	}
	if members := a.Members(); len(members) != 2 || members[1].State != StateUp {
		t.Errorf("members %+v", members)
	}
}

func TestTwoOfOneName(t *testing.T) {
	a := launch(t, "a", nil)
	b := launch(t, "b", nil, a.address())
	a.awaitKind(EventJoined, "b")
	second := launch(t, "b", func(c *Config) { c.Timing.NameTaken = 300 * time.Millisecond }, a.address())
	select {
	case err := <-second.Failed():
		if !errors.Is(err, ErrNameTaken) || !strings.Contains(err.Error(), b.address()) || !strings.Contains(err.Error(), "--name") {
			t.Errorf("got %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the second b goes on")
	}
	select {
	case err := <-b.Failed():
		t.Errorf("the first b gave up: %v", err)
	default:
	}
}

func TestClustersStayApart(t *testing.T) {
	s := secret.New()
	keyed := func(cluster string, keys ...secret.Secret) func(*Config) {
		return func(c *Config) { c.Cluster, c.Keys = cluster, keys }
	}
	a := launch(t, "a", keyed("prod", s))
	log := &lines{}
	for name, change := range map[string]func(*Config){
		"other-cluster": keyed("test", s), "other-secret": keyed("prod", secret.New()), "no-secret": keyed("prod"),
	} {
		launch(t, name, func(c *Config) { change(c); c.Logger = slog.New(slog.NewTextHandler(log, nil)) }, a.address())
	}
	log.await(t, "can't join", 3)
	launch(t, "member", keyed("prod", s), a.address())
	a.awaitKind(EventJoined, "member")
	if members := a.Members(); len(members) != 2 {
		t.Errorf("strangers joined: %+v", members)
	}
	if strings.Contains(log.String(), s.Reveal()[len("slicer-secret-1-"):]) {
		t.Error("the log shows the secret")
	}
}

// lines is a log that can be waited for.
type lines struct {
	mu    sync.Mutex
	text  strings.Builder
	woken chan struct{}
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.woken != nil {
		close(l.woken)
		l.woken = nil
	}
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) await(t *testing.T, part string, count int) {
	t.Helper()
	deadline := time.After(patience)
	for {
		l.mu.Lock()
		if strings.Count(l.text.String(), part) >= count {
			l.mu.Unlock()
			return
		}
		if l.woken == nil {
			l.woken = make(chan struct{})
		}
		woken := l.woken
		l.mu.Unlock()
		select {
		case <-woken:
		case <-deadline:
			t.Fatalf("the log never had %q %d times:\n%s", part, count, l)
		}
	}
}

// Every node takes up one phase of a rotation after the other, and nobody is lost; a newcomer with the new secret gets in, one with the old doesn't.
func TestRotationKeepsTheCluster(t *testing.T) {
	old, next := secret.New(), secret.New()
	keyed := func(keys ...secret.Secret) func(*Config) { return func(c *Config) { c.Keys = keys } }
	a := launch(t, "a", keyed(old))
	b := launch(t, "b", keyed(old), a.address())
	a.awaitKind(EventJoined, "b")
	for _, keys := range []secret.Keys{{old, next}, {next, old}, {next}} {
		for _, n := range []*node{a, b} {
			if err := n.SetKeys(keys); err != nil {
				t.Fatal(err)
			}
		}
	}
	log := &lines{}
	launch(t, "late", func(c *Config) { keyed(old)(c); c.Logger = slog.New(slog.NewTextHandler(log, nil)) }, a.address())
	log.await(t, "can't join", 1)
	launch(t, "c", keyed(next), b.address())
	a.awaitKind(EventJoined, "c")
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.events {
		if e.Kind == EventLost || e.Member.Node == "late" {
			t.Errorf("%s %s", e.Member.Node, e.Kind)
		}
	}
	plain := launch(t, "plain", nil)
	if err := plain.SetKeys(secret.Keys{next}); !errors.Is(err, ErrConfig) {
		t.Errorf("a node without a secret took one up: %v", err)
	}
}

func TestMetadataChanges(t *testing.T) {
	a := launch(t, "a", nil)
	b := launch(t, "b", nil, a.address())
	a.awaitKind(EventJoined, "b")
	if err := b.SetMeta(Meta{Version: "test", TensorAddress: "10.0.0.2:7073"}); err != nil {
		t.Fatal(err)
	}
	a.await("b's tensor address", func(e Event) bool { return e.Kind == EventUpdated && e.Member.Meta.TensorAddress == "10.0.0.2:7073" })
}

// Calling back from an event is what deadlocks inside memberlist's own notifications.
func TestEventsMayCallBack(t *testing.T) {
	a := launch(t, "a", nil)
	done := make(chan error, 1)
	var b *Membership
	ready := make(chan struct{})
	launch(t, "b", func(c *Config) {
		c.OnEvent = func(e Event) {
			<-ready
			select {
			case done <- b.SetMeta(Meta{Version: fmt.Sprint(len(b.Members()))}):
			default:
			}
		}
	}, a.address()).publish(&b, ready)
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("the callback hangs")
	}
	a.await("b's new version", func(e Event) bool { return e.Kind == EventUpdated && e.Member.Meta.Version == "2" })
}

func (n *node) publish(to **Membership, ready chan struct{}) {
	*to = n.Membership
	close(ready)
}

func TestClockOffsets(t *testing.T) {
	a := launch(t, "a", nil)
	launch(t, "b", nil, a.address())
	a.awaitKind(EventJoined, "b")
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		if m := a.Members()[1]; m.Clocked {
			if m.ClockOffset.Abs() > m.RoundTrip {
				t.Errorf("offset %v at a round trip of %v on one machine", m.ClockOffset, m.RoundTrip)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no offset was measured")
		}
	}
}

func TestTakenPortNamesItself(t *testing.T) {
	a := launch(t, "a", nil)
	_, err := tryLaunch(t, "b", func(c *Config) { c.Bind = a.address() })
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), a.address()) || !strings.Contains(err.Error(), "--bind") {
		t.Errorf("got %v", err)
	}
}

func TestOpenBindNeedsASecret(t *testing.T) {
	if _, err := tryLaunch(t, "a", func(c *Config) { c.Bind = "0.0.0.0:0" }); !errors.Is(err, ErrOpenBind) || !strings.Contains(err.Error(), "slicer secret new") {
		t.Errorf("got %v", err)
	}
}

func TestWildcardNeverLeaks(t *testing.T) {
	keys := secret.Keys{secret.New()}
	for _, bind := range []string{"0.0.0.0:0", "[::]:0", ":0"} {
		n, err := tryLaunch(t, "a", func(c *Config) { c.Bind, c.Keys = bind, keys })
		if err != nil && strings.HasPrefix(bind, "[") {
			t.Logf("no IPv6 here: %v", err)
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		if a := n.Self().Gossip; a.Addr().IsUnspecified() || a.Port() == 0 || strings.Contains(n.Fact().GossipAddress, "0.0.0.0") {
			t.Errorf("bound to %s it says that it is at %v", bind, a)
		}
	}
}

func TestIPv6(t *testing.T) {
	a, err := tryLaunch(t, "a", func(c *Config) { c.Bind = "[::1]:0" })
	if err != nil {
		t.Skipf("no IPv6 loopback here: %v", err)
	}
	b := launch(t, "b", func(c *Config) { c.Bind = "[::1]:0" }, a.address())
	if e := a.awaitKind(EventJoined, "b"); e.Member.Gossip != b.gossip {
		t.Errorf("b is at %v, a thinks at %v", b.gossip, e.Member.Gossip)
	}
}

// fakeDNS answers from tables.
type fakeDNS struct {
	hosts map[string][]netip.Addr
	srv   map[string][]*net.SRV
}

func (f fakeDNS) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if ips, found := f.hosts[host]; found {
		return ips, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

func (f fakeDNS) LookupSRV(_ context.Context, _, _, name string) (string, []*net.SRV, error) {
	if records, found := f.srv[name]; found {
		return name, records, nil
	}
	return "", nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

func TestJoinByNameAndAdvertisedName(t *testing.T) {
	loopback := []netip.Addr{netip.MustParseAddr("::1"), netip.MustParseAddr("127.0.0.1")}
	dns := fakeDNS{hosts: map[string][]netip.Addr{"slicer-0.slicer": loopback}}
	a := launch(t, "a", func(c *Config) { c.Resolver, c.Advertise = dns, "slicer-0.slicer" })
	dns.srv = map[string][]*net.SRV{"_gossip._tcp.slicer": {
		{Target: "slicer-9.slicer.", Port: 1}, // not up yet
		{Target: "slicer-0.slicer.", Port: a.gossip.Port()},
	}}
	for i, s := range []string{fmt.Sprintf("slicer-0.slicer:%d", a.gossip.Port()), "srv:_gossip._tcp.slicer"} {
		name := fmt.Sprintf("n%d", i)
		launch(t, name, func(c *Config) { c.Resolver = dns }, "nobody.slicer", s)
		a.awaitKind(EventJoined, name)
	}
}

func TestJoinByMDNS(t *testing.T) {
	a := launch(t, "a", func(c *Config) { c.Cluster = fmt.Sprintf("mdns-%d", time.Now().UnixNano()) }, "mdns")
	if a.local.failed != nil {
		t.Skipf("no multicast here: %v", a.local.failed)
	}
	found, err := a.local.find(t.Context())
	if err != nil || len(found) == 0 {
		t.Skipf("multicast does not come back here: %v, %v", found, err)
	}
	launch(t, "b", func(c *Config) { c.Cluster = a.config.Cluster }, "mdns")
	a.awaitKind(EventJoined, "b")
}

// digests counts what came with exchanges of states.
type digests struct {
	mine string
	got  chan string
}

func (d digests) Digest() []byte { return []byte(d.mine) }
func (d digests) Compare(b []byte) {
	select {
	case d.got <- string(b):
	default:
	}
}

func TestDigestsRideOnExchanges(t *testing.T) {
	got := make(chan string, 1)
	a := launch(t, "a", func(c *Config) { c.Digests = digests{"of a", got} })
	launch(t, "b", func(c *Config) { c.Digests = digests{"of b", make(chan string, 1)} }, a.address())
	select {
	case text := <-got:
		if text != "of b" {
			t.Errorf("got %q", text)
		}
	case <-time.After(patience):
		t.Fatal("no digest came")
	}
}
