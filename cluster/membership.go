package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"

	"slicescheduler/cluster/secret"
	"slicescheduler/gmg"
)

// bindTries is how often any free port is tried: TCP and UDP must both have it.
const bindTries = 16

// Membership is this node's part in its cluster. Its methods may be called from any goroutine.
type Membership struct {
	config  Config
	name    string // for memberlist
	gossip  netip.AddrPort
	list    *memberlist.Memberlist
	keyring *memberlist.Keyring
	seeds   []seed
	local   *mdnsFinder // nil without an mDNS seed
	meta    atomic.Pointer[[]byte]
	changes *queue[any] // change, sample
	seen    sync.Mutex  // over roster
	roster  *roster
	failed  chan error
	refused atomic.Pointer[refusal]
	ended   context.Context
	end     context.CancelFunc
	running sync.WaitGroup
	closing sync.Mutex // over closed, and while memberlist must not be shut down
	closed  bool
	ending  sync.Once
	endErr  error
}

// Start opens the gossip port and begins to look for other nodes; it returns at once, as a cluster of one. ctx bounds the start only.
func Start(ctx context.Context, c Config) (*Membership, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	m := &Membership{config: c, name: memberName(c.Node, c.Incarnation), changes: newQueue[any](), roster: newRoster(), failed: make(chan error, 1)}
	m.ended, m.end = context.WithCancel(context.Background())
	var err error
	if m.seeds, err = parseSeeds(c.Seeds); err != nil {
		return nil, err
	}
	if err := m.setMeta(c.Meta); err != nil {
		return nil, err
	}
	if err := m.open(ctx); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(m.seeds, func(s seed) bool { return s.mdns }) {
		m.local = newMDNSFinder(c.Cluster, m.name, m.gossip, c.Logger)
	}
	m.running.Go(m.follow)
	m.running.Go(m.rejoin)
	return m, nil
}

func (m *Membership) setMeta(meta Meta) error {
	b, err := meta.Encode()
	if err == nil {
		m.meta.Store(&b)
	}
	return err
}

// open binds the port and starts memberlist on it.
func (m *Membership) open(ctx context.Context) error {
	c := &m.config
	host, port, err := SplitHostPort(c.Bind, DefaultGossipPort)
	if err != nil {
		return err
	}
	bound, err := Resolve(ctx, c.Resolver, host)
	if err != nil {
		return err
	}
	if len(c.Keys) == 0 && !bound.IsLoopback() {
		return fmt.Errorf("%w: %s can be reached by other machines and there is no secret: make one with slicer secret new and give every node --secret-file, or bind 127.0.0.1",
			ErrOpenBind, c.Bind)
	}
	transport, err := listenGossip(bound, port, c)
	if err != nil {
		return err
	}
	if m.gossip, err = advertised(ctx, c, bound, transport.GetAutoBindPort()); err != nil {
		return errors.Join(err, transport.Shutdown())
	}
	config, err := m.memberlistConfig(transport)
	if err != nil {
		return errors.Join(err, transport.Shutdown())
	}
	if m.list, err = memberlist.Create(config); err != nil {
		return errors.Join(fmt.Errorf("gossip: %w", err), transport.Shutdown())
	}
	return nil
}

// listenGossip opens TCP and UDP at one port. A taken port is named.
func listenGossip(bound netip.Addr, port int, c *Config) (*memberlist.NetTransport, error) {
	var err error
	for range bindTries {
		var t *memberlist.NetTransport
		t, err = memberlist.NewNetTransport(&memberlist.NetTransportConfig{
			BindAddrs: []string{bound.String()}, BindPort: port, Logger: newLibraryLogger(c.Logger, "memberlist"),
		})
		if err == nil {
			return t, nil
		}
		if port != 0 {
			break
		}
	}
	address := hostPort(bound, port)
	if l, probe := net.Listen("tcp", address); probe == nil {
		l.Close()
	} else if errors.Is(probe, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("gossip port %s is taken by another process: choose another with --bind, or port 0 for any: %w", address, syscall.EADDRINUSE)
	}
	return nil, fmt.Errorf("gossip at %s: %w", address, err)
}

// advertised returns the address at which others reach this node. It is never a wildcard.
func advertised(ctx context.Context, c *Config, bound netip.Addr, boundPort int) (netip.AddrPort, error) {
	host, port := "", boundPort
	if c.Advertise != "" {
		var err error
		if host, port, err = SplitHostPort(c.Advertise, boundPort); err != nil {
			return netip.AddrPort{}, err
		}
	}
	ip := bound
	if host != "" {
		var err error
		if ip, err = Resolve(ctx, c.Resolver, host); err != nil {
			return netip.AddrPort{}, err
		}
	}
	ip, err := Outward(ip)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if port == 0 {
		port = boundPort
	}
	return netip.AddrPortFrom(ip, uint16(port)), nil
}

func (m *Membership) memberlistConfig(transport memberlist.Transport) (*memberlist.Config, error) {
	c := memberlist.DefaultLANConfig()
	t := m.config.Timing
	c.Name, c.Label, c.Transport = m.name, m.config.Cluster, transport
	c.AdvertiseAddr, c.AdvertisePort = m.gossip.Addr().String(), int(m.gossip.Port())
	c.ProbeInterval, c.ProbeTimeout, c.GossipInterval, c.PushPullInterval, c.TCPTimeout = t.ProbeInterval, t.ProbeTimeout, t.Gossip, t.PushPull, t.Dial
	c.SuspicionMaxTimeoutMult = 3 // a death is believed after at most three times the time that many witnesses need
	d := &delegate{m}
	c.Delegate, c.Events, c.Ping, c.Alive, c.Merge = d, d, d, d, d
	c.Logger = newLibraryLogger(m.config.Logger, "memberlist")
	if len(m.config.Keys) > 0 {
		var err error
		if m.keyring, err = memberlist.NewKeyring(nil, m.config.Keys[0].GossipKey(m.config.Cluster)); err != nil {
			return nil, fmt.Errorf("gossip key: %w", err)
		}
		for _, s := range m.config.Keys[1:] {
			if err := m.keyring.AddKey(s.GossipKey(m.config.Cluster)); err != nil {
				return nil, fmt.Errorf("gossip key: %w", err)
			}
		}
		c.Keyring = m.keyring
	}
	return c, nil
}

// SetKeys changes the valid secrets of the gossip without a restart. A cluster that began without a secret can't take one up.
func (m *Membership) SetKeys(keys secret.Keys) error {
	if err := keys.Validate(); err != nil {
		return err
	}
	if m.keyring == nil {
		return fmt.Errorf("%w: this node was started without a secret: restart it with --secret-file", ErrConfig)
	}
	valid := make(map[string]bool)
	for _, s := range keys {
		key := s.GossipKey(m.config.Cluster)
		valid[string(key)] = true
		if err := m.keyring.AddKey(key); err != nil {
			return fmt.Errorf("gossip key: %w", err)
		}
	}
	if err := m.keyring.UseKey(keys[0].GossipKey(m.config.Cluster)); err != nil {
		return fmt.Errorf("gossip key: %w", err)
	}
	for _, key := range slices.Clone(m.keyring.GetKeys()) {
		if !valid[string(key)] {
			if err := m.keyring.RemoveKey(key); err != nil {
				return fmt.Errorf("gossip key: %w", err)
			}
		}
	}
	m.config.Logger.Info("secrets changed", "use", keys[0], "accept", len(keys))
	return nil
}

// Self returns this node as others see it.
func (m *Membership) Self() Member {
	meta, err := DecodeMeta(*m.meta.Load())
	if err != nil {
		panic(err) // this node encoded it
	}
	s := Member{Node: m.config.Node, Incarnation: m.config.Incarnation, State: StateUp, Gossip: m.gossip, Meta: meta, Self: true, Clocked: true}
	if meta.Leaving {
		s.State = StateLeaving
	}
	return s
}

// Fact returns this node's own fact for the GMG.
func (m *Membership) Fact() gmg.Node {
	s := m.Self()
	return gmg.Node{ID: s.Node, Incarnation: s.Incarnation, Version: s.Meta.Version, GossipAddress: s.Gossip.String(), ActorAddress: s.Meta.ActorAddress,
		TensorAddress: s.Meta.TensorAddress, HTTPAddress: s.Meta.HTTPAddress, StartUnixNs: int64(s.Incarnation)}
}

// Members returns all nodes, this one among them, by name. Lost ones are listed for Timing.Forget.
func (m *Membership) Members() []Member {
	m.seen.Lock()
	members := m.roster.list(m.config.Node)
	m.seen.Unlock()
	members = append(members, m.Self())
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.Node, b.Node) })
	return members
}

// Failed gets an error when the node can't be part of its cluster: ErrNameTaken.
func (m *Membership) Failed() <-chan error { return m.failed }

// SetMeta changes what this node says of itself.
func (m *Membership) SetMeta(meta Meta) error {
	meta.Protocol, meta.MinProtocol = ProtocolVersion, MinProtocolVersion
	m.closing.Lock()
	defer m.closing.Unlock()
	if err := m.setMeta(meta); err != nil || m.closed {
		return err
	}
	return ignoreTimeout(m.list.UpdateNode(m.config.Timing.Leave))
}

// ignoreTimeout drops an error that says that nobody confirmed to have heard: the exchange of states will tell them.
func ignoreTimeout(err error) error {
	if err != nil && strings.Contains(err.Error(), "timeout") {
		return nil
	}
	return err
}

// Leave tells the others that this node goes, and closes. Nodes that don't hear it find out as with a crash.
func (m *Membership) Leave() error {
	meta := m.Self().Meta
	meta.Leaving = true
	err := m.SetMeta(meta)
	m.closing.Lock()
	if !m.closed {
		err = errors.Join(err, ignoreTimeout(m.list.Leave(m.config.Timing.Leave)))
	}
	m.closing.Unlock()
	return errors.Join(err, m.Close())
}

// Close ends the membership without a word to others, and waits for what it started. It may be called more than once, but not from OnEvent.
func (m *Membership) Close() error {
	m.closing.Lock()
	m.closed = true
	m.closing.Unlock()
	m.ending.Do(func() {
		m.end()
		m.endErr = m.list.Shutdown()
		m.running.Wait()
		if m.local != nil {
			m.endErr = errors.Join(m.endErr, m.local.close())
		}
	})
	return m.endErr
}

// follow turns notifications into members and events.
func (m *Membership) follow() {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-m.ended.Done():
			return
		case <-m.changes.wake:
			for _, item := range m.changes.take() {
				m.take(item, time.Now())
			}
		case now := <-ticker.C:
			m.tidy(now)
		}
	}
}

func (m *Membership) take(item any, now time.Time) {
	m.seen.Lock()
	var event Event
	var happened bool
	switch item := item.(type) {
	case change:
		event, happened = m.roster.apply(item, now)
	case sample:
		m.roster.clock(item)
	}
	m.seen.Unlock()
	if happened && event.Member.Node != m.config.Node {
		m.config.Logger.Info("node "+string(event.Kind), "peer", event.Member.Node, "address", event.Member.Gossip, "version", event.Member.Meta.Version)
		m.config.OnEvent(event)
	}
}

// tidy forgets long lost nodes and looks for a live one of the same name.
func (m *Membership) tidy(now time.Time) {
	m.seen.Lock()
	m.roster.forget(now.Add(-m.config.Timing.Forget))
	other := m.roster.namesake(m.config.Node, m.config.Incarnation, now.Add(-m.config.Timing.NameTaken))
	var found Member
	if other != nil {
		found = *other
	}
	m.seen.Unlock()
	if other != nil {
		m.giveUp(found.Incarnation, found.Gossip.String())
	}
}

// giveUp ends the younger of two nodes of one name.
func (m *Membership) giveUp(other uint64, address string) {
	if other > m.config.Incarnation {
		return
	}
	select {
	case m.failed <- fmt.Errorf("%w: %s runs at %s already: choose another with --name", ErrNameTaken, m.config.Node, address):
	default:
	}
}
