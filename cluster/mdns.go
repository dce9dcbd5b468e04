package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/mdns"
)

// The service under which nodes are found on the local network, and how long an answer may take.
const (
	mdnsService = "_slicer._tcp"
	mdnsWait    = 500 * time.Millisecond
	mdnsEntries = 256
)

// mdnsFinder answers queries for nodes of this cluster and asks them. It needs multicast; where there is none, asking says so.
type mdnsFinder struct {
	cluster, host string
	server        *mdns.Server
	failed        error // of the server
	logger        *slog.Logger
}

// newMDNSFinder starts to answer. A node that is reached on loopback tells its host's name, so that nodes of other hosts don't try their own loopback.
func newMDNSFinder(cluster, member string, gossip netip.AddrPort, logger *slog.Logger) *mdnsFinder {
	f := &mdnsFinder{cluster: cluster, logger: logger}
	f.host, _ = os.Hostname()
	instance := strings.NewReplacer("@", "-", ".", "-").Replace(member)
	service, err := mdns.NewMDNSService(instance, mdnsService, "local.", instance+".local.", int(gossip.Port()), []net.IP{gossip.Addr().AsSlice()}, f.texts())
	if err == nil {
		f.server, err = mdns.NewServer(&mdns.Config{Zone: service, Logger: newLibraryLogger(logger, "mdns")})
	}
	if err != nil {
		f.failed = fmt.Errorf("mDNS: %w; name seeds with --join", err)
	}
	return f
}

func (f *mdnsFinder) texts() []string { return []string{"cluster=" + f.cluster, "host=" + f.host} }

func (f *mdnsFinder) close() error {
	if f.server == nil {
		return nil
	}
	return f.server.Shutdown()
}

// find asks the local network for nodes of the cluster, over IPv4, and where that fails over IPv6.
func (f *mdnsFinder) find(ctx context.Context) ([]netip.AddrPort, error) {
	if f.failed != nil {
		return nil, f.failed
	}
	found, err := f.query(ctx, false)
	if err != nil {
		var err6 error
		if found, err6 = f.query(ctx, true); err6 != nil {
			return nil, fmt.Errorf("mDNS: %w; name seeds with --join", errors.Join(err, err6))
		}
	}
	return found, nil
}

func (f *mdnsFinder) query(ctx context.Context, v6 bool) ([]netip.AddrPort, error) {
	entries := make(chan *mdns.ServiceEntry, mdnsEntries)
	err := mdns.QueryContext(ctx, &mdns.QueryParam{
		Service: mdnsService, Domain: "local", Timeout: mdnsWait, Entries: entries, DisableIPv4: v6, DisableIPv6: !v6, Logger: newLibraryLogger(f.logger, "mdns"),
	})
	if err != nil {
		return nil, err
	}
	var found []netip.AddrPort
	for {
		select {
		case e := <-entries:
			if a, ok := f.accept(e); ok {
				found = append(found, a)
			}
		default:
			return found, nil
		}
	}
}

// accept takes an answer of this cluster that can be dialled from here.
func (f *mdnsFinder) accept(e *mdns.ServiceEntry) (netip.AddrPort, bool) {
	said := make(map[string]string)
	for _, text := range e.InfoFields {
		key, value, _ := strings.Cut(text, "=")
		said[key] = value
	}
	raw := e.AddrV4
	if raw == nil {
		raw = addressV6(e)
	}
	ip, ok := netip.AddrFromSlice(raw)
	if !ok || said["cluster"] != f.cluster || e.Port < 1 || e.Port > 65535 {
		return netip.AddrPort{}, false
	}
	if ip = ip.Unmap(); ip.IsUnspecified() || ip.IsLoopback() && said["host"] != f.host {
		return netip.AddrPort{}, false
	}
	return netip.AddrPortFrom(ip, uint16(e.Port)), true
}

// addressV6 returns an answer's IPv6 address, if it has one.
func addressV6(e *mdns.ServiceEntry) net.IP {
	if e.AddrV6IPAddr == nil {
		return nil
	}
	return e.AddrV6IPAddr.IP
}
