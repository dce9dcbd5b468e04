package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Ways to write a seed beside HOST and HOST:PORT, whose name may have many addresses.
const (
	seedSRV  = "srv:" // a DNS name with SRV records
	seedMDNS = "mdns" // whoever answers on the local network
)

// seed is one place to look for other nodes.
type seed struct {
	text string
	srv  bool
	mdns bool
	host string
	port int
}

// parseSeeds reads a list of seeds.
func parseSeeds(texts []string) ([]seed, error) {
	var seeds []seed
	for _, text := range texts {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		s := seed{text: text}
		name, srv := strings.CutPrefix(text, seedSRV)
		switch {
		case text == seedMDNS:
			s.mdns = true
		case srv && name == "":
			return nil, fmt.Errorf("%w: seed %q: write srv:NAME", ErrAddress, text)
		case srv:
			s.srv, s.host = true, name
		default:
			var err error
			if s.host, s.port, err = SplitHostPort(text, DefaultGossipPort); err != nil {
				return nil, fmt.Errorf("seed %q: %w", text, err)
			}
			if ip, err := netip.ParseAddr(s.host); s.host == "" || s.port == 0 || err == nil && ip.IsUnspecified() {
				return nil, fmt.Errorf("%w: seed %q must name a host and a port that others can dial", ErrAddress, text)
			}
		}
		seeds = append(seeds, s)
	}
	return seeds, nil
}

// finder looks for nodes on the local network.
type finder interface {
	find(ctx context.Context) ([]netip.AddrPort, error)
}

// resolve returns the addresses that a seed stands for now, in order, each once.
func (s seed) resolve(ctx context.Context, r Resolver, local finder) ([]netip.AddrPort, error) {
	var found []netip.AddrPort
	var err error
	switch {
	case s.mdns:
		found, err = local.find(ctx)
	case s.srv:
		found, err = s.resolveSRV(ctx, r)
	default:
		found, err = lookup(ctx, r, s.host, s.port)
	}
	if err != nil {
		return nil, fmt.Errorf("seed %s: %w", s.text, err)
	}
	slices.SortFunc(found, netip.AddrPort.Compare)
	return slices.Compact(found), nil
}

// resolveSRV follows the records to their hosts; hosts that can't be resolved don't hide the others.
func (s seed) resolveSRV(ctx context.Context, r Resolver) ([]netip.AddrPort, error) {
	_, records, err := r.LookupSRV(ctx, "", "", s.host)
	if err != nil {
		return nil, err
	}
	var found []netip.AddrPort
	var errs []error
	for _, rec := range records {
		addresses, err := lookup(ctx, r, strings.TrimSuffix(rec.Target, "."), int(rec.Port))
		found = append(found, addresses...)
		errs = append(errs, err)
	}
	if len(found) > 0 {
		return found, nil
	}
	return nil, errors.Join(errs...)
}

// lookup returns all addresses of a host.
func lookup(ctx context.Context, r Resolver, host string, port int) ([]netip.AddrPort, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(ip.Unmap(), uint16(port))}, nil
	}
	ips, err := r.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	found := make([]netip.AddrPort, 0, len(ips))
	for _, ip := range ips {
		found = append(found, netip.AddrPortFrom(ip.Unmap(), uint16(port)))
	}
	return found, nil
}
