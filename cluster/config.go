package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"slicescheduler/cluster/secret"
	"slicescheduler/gmg"
)

// DefaultCluster is the cluster's name where none is given.
const DefaultCluster = "slicer"

// Errors of a node's membership.
var (
	ErrConfig    = errors.New("invalid cluster configuration")
	ErrOpenBind  = errors.New("refusing to gossip with strangers")
	ErrNameTaken = errors.New("the node's name is taken")
)

// Defaults of Timing: a killed member of three is noticed in 1 to 2 s, and a seed that comes up is found within 5.
const (
	defaultProbeInterval = 250 * time.Millisecond
	defaultProbeTimeout  = 62 * time.Millisecond
	defaultGossip        = 50 * time.Millisecond
	defaultPushPull      = 5 * time.Second
	defaultRejoinAlone   = 500 * time.Millisecond
	defaultRejoin        = 5 * time.Second
	defaultForget        = 10 * time.Minute
	defaultNameTaken     = 8 * time.Second
	defaultDial          = 2 * time.Second
	defaultLeave         = time.Second
)

// Timing is how fast membership works. Zero values mean the defaults.
type Timing struct {
	ProbeInterval time.Duration // between probes of one other node
	ProbeTimeout  time.Duration // of a probe's answer, before others are asked to probe
	Gossip        time.Duration // between rounds of gossip
	PushPull      time.Duration // between exchanges of whole states with one other node; longer above 32 nodes
	RejoinAlone   time.Duration // between tries of the seeds while a node is alone
	Rejoin        time.Duration // and while it is not
	Forget        time.Duration // after which a lost node is no longer listed and its address no longer tried
	NameTaken     time.Duration // for which another node may have this one's name, as one that was just killed does, before this one gives up
	Dial          time.Duration // of a connection to another node
	Leave         time.Duration // at most, for telling others that the node leaves
}

func (t Timing) withDefaults() Timing {
	for _, d := range []struct {
		v    *time.Duration
		want time.Duration
	}{
		{&t.ProbeInterval, defaultProbeInterval}, {&t.ProbeTimeout, defaultProbeTimeout}, {&t.Gossip, defaultGossip}, {&t.PushPull, defaultPushPull},
		{&t.RejoinAlone, defaultRejoinAlone}, {&t.Rejoin, defaultRejoin}, {&t.Forget, defaultForget}, {&t.NameTaken, defaultNameTaken},
		{&t.Dial, defaultDial}, {&t.Leave, defaultLeave},
	} {
		if *d.v == 0 {
			*d.v = d.want
		}
	}
	return t
}

// Digests is what rides on memberlist's exchanges of states. It is called from memberlist's goroutines and must not block, nor call the Membership.
type Digests interface {
	// Digest returns a few bytes about what this node knows.
	Digest() []byte
	// Compare takes in another node's digest. The bytes are the callee's.
	Compare(digest []byte)
}

// Config is what a node joins a cluster with.
type Config struct {
	Node        gmg.NodeID
	Incarnation uint64 // above that of the node's earlier lives: the start time in nanoseconds
	Cluster     string // clusters of other names never merge with this one; empty: DefaultCluster
	Meta        Meta   // versions of the protocol are filled in
	Bind        string // HOST[:PORT] to gossip at, port 0 for any; empty: 127.0.0.1 and DefaultGossipPort
	Advertise   string // HOST[:PORT] at which others reach it; empty: what is bound, or for a wildcard an address of this machine
	Seeds       []string
	Keys        secret.Keys // empty: the gossip is plain, on loopback only
	Timing      Timing
	Digests     Digests      // nil: none
	OnEvent     func(Event)  // nil: none. Called in order from one goroutine, which may call the Membership back
	Logger      *slog.Logger // nil: none
	Resolver    Resolver     // nil: the system's
}

func (c Config) withDefaults() Config {
	if c.Cluster == "" {
		c.Cluster = DefaultCluster
	}
	if c.Bind == "" {
		c.Bind = "127.0.0.1"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Resolver == nil {
		c.Resolver = net.DefaultResolver
	}
	if c.OnEvent == nil {
		c.OnEvent = func(Event) {}
	}
	c.Meta.Protocol, c.Meta.MinProtocol = ProtocolVersion, MinProtocolVersion
	c.Timing = c.Timing.withDefaults()
	return c
}

// Validate says what is wrong with a configuration, as far as that shows without the network.
func (c Config) Validate() error {
	c = c.withDefaults()
	if err := ValidateName(string(c.Node)); err != nil {
		return fmt.Errorf("%w: node %w", ErrConfig, err)
	}
	if err := ValidateName(c.Cluster); err != nil {
		return fmt.Errorf("%w: cluster %w", ErrConfig, err)
	}
	if c.Incarnation == 0 {
		return fmt.Errorf("%w: Incarnation is 0", ErrConfig)
	}
	if len(c.Keys) > 0 {
		if err := c.Keys.Validate(); err != nil {
			return err
		}
	}
	if _, _, err := SplitHostPort(c.Bind, DefaultGossipPort); err != nil {
		return fmt.Errorf("bind %w", err)
	}
	if c.Advertise != "" {
		if _, _, err := SplitHostPort(c.Advertise, DefaultGossipPort); err != nil {
			return fmt.Errorf("advertise %w", err)
		}
	}
	if _, err := parseSeeds(c.Seeds); err != nil {
		return err
	}
	_, err := c.Meta.Encode()
	return err
}
