// Package node puts one node together: devices, actors and the HTTP server in front of them.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"syscall"

	"slicescheduler/actors"
	"slicescheduler/cmd/slicer/internal/devspec"
	"slicescheduler/cmd/slicer/internal/machine"
	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
	"slicescheduler/model"
	"slicescheduler/server"
)

// ErrOpenBind is a node that strangers could reach and that asks nobody for a key.
var ErrOpenBind = errors.New("refusing to serve strangers")

// Config says what a node is made of.
type Config struct {
	Name      gmg.NodeID
	Devices   []devspec.Device
	Machine   Machine // for devices that leave something open; zero: this machine
	HTTP      string  // address to listen at; port 0 for any free one
	DataDir   string  // empty: nothing is kept
	ModelsDir string
	AdminKey  string
	Version   string
	Logger    *slog.Logger // nil: none
	Limits    actors.Limits
}

// Validate says what is wrong with a configuration.
func (c Config) Validate() error {
	switch {
	case c.Name == "":
		return errors.New("a node needs a name: give one with --name")
	case len(c.Devices) == 0:
		return errors.New("a node needs a device: give one with --devices")
	}
	if _, _, err := net.SplitHostPort(c.HTTP); err != nil {
		return fmt.Errorf("HTTP address %q: %w; write HOST:PORT, as in 127.0.0.1:7070", c.HTTP, err)
	}
	return nil
}

// Node is a running node.
type Node struct {
	*actors.Node
	devices  []gpuworker.Device
	listener net.Listener
	server   *server.Server
	served   chan error
}

// Start starts a node; requests are taken when it returns. ctx bounds the start only.
func Start(ctx context.Context, c Config) (*Node, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Machine == (Machine{}) {
		c.Machine = Machine{Cores: runtime.NumCPU(), MemoryBytes: machine.Memory()}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	n := &Node{served: make(chan error, 1)}
	if err := n.start(ctx, c); err != nil {
		return nil, errors.Join(err, n.abandon(ctx))
	}
	return n, nil
}

func (n *Node) start(ctx context.Context, c Config) (err error) {
	if n.listener, err = listen(ctx, c.HTTP); err != nil {
		return err
	}
	if n.devices, err = openDevices(c.Name, c.Devices, c.Machine); err != nil {
		return err
	}
	n.Node, err = actors.StartNode(ctx, actors.NodeConfig{
		Name: c.Name, Devices: n.devices, Links: linksOf(c.Name, n.devices), DataDir: c.DataDir, Library: model.NewLibrary(c.ModelsDir),
		Version: c.Version, HTTPAddr: n.HTTP(), Logger: c.Logger, Limits: c.Limits,
	})
	if err != nil {
		return err
	}
	loopback := isLoopback(n.listener.Addr())
	if err := n.checkBind(ctx, c, loopback); err != nil {
		return err
	}
	n.server, err = server.New(server.Config{API: n.Node, Logger: c.Logger, AdminKey: c.AdminKey, Loopback: loopback, Version: c.Version, MetricsSource: n.Node.Metrics})
	if err != nil {
		return err
	}
	go func() { n.served <- n.server.Serve(n.listener) }()
	return nil
}

// listen opens the HTTP port. A taken one is named, with what helps.
func listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is taken by another process: choose another address with --http, or port 0 for any: %w", address, err)
	}
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", address, err)
	}
	return l, nil
}

func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// checkBind refuses an address that others can reach as long as there is no key at all.
func (n *Node) checkBind(ctx context.Context, c Config, loopback bool) error {
	if loopback || c.AdminKey != "" {
		return nil
	}
	tenants, err := n.Tenants(ctx)
	if err != nil {
		return err
	}
	for _, t := range tenants {
		if keys, err := n.Keys(ctx, t.Spec.ID); err != nil || len(keys) > 0 {
			return err
		}
	}
	return fmt.Errorf("%w: %s can be reached by other machines and there is no key: set --admin-key (or SLICER_ADMIN_KEY), or make a tenant's key with slicer key add while on 127.0.0.1",
		ErrOpenBind, c.HTTP)
}

// HTTP returns the URL at which the node is reached from this machine.
func (n *Node) HTTP() string {
	host, port, err := net.SplitHostPort(n.listener.Addr().String())
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// Served gets what ended the HTTP server.
func (n *Node) Served() <-chan error { return n.served }

// Close drains: no new requests, running ones finish until ctx ends, then all is given back.
func (n *Node) Close(ctx context.Context) error {
	err := n.Node.Close(ctx)
	return errors.Join(err, n.server.Shutdown(ctx), closeDevices(n.devices))
}

// abandon gives back what a failed start has taken.
func (n *Node) abandon(ctx context.Context) error {
	var errs []error
	if n.Node != nil {
		errs = append(errs, n.Node.Close(ctx))
	}
	if n.listener != nil {
		errs = append(errs, n.listener.Close())
	}
	return errors.Join(append(errs, closeDevices(n.devices))...)
}
