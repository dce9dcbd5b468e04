package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// DefaultGossipPort is where nodes gossip unless they are told otherwise; seeds without a port are tried there.
const DefaultGossipPort = 7071

// ErrAddress is an address that can't be used.
var ErrAddress = errors.New("invalid address")

// Resolver looks names up; net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// SplitHostPort takes HOST:PORT, HOST, an IPv6 address with or without brackets, or :PORT apart; a port that isn't there is the default. Ports are 0 to 65535.
func SplitHostPort(address string, defaultPort int) (host string, port int, err error) {
	if ip, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(address, "["), "]")); err == nil {
		return ip.String(), defaultPort, nil
	}
	if !strings.Contains(address, ":") {
		if address == "" {
			return "", 0, fmt.Errorf("%w: it is empty; write HOST:PORT", ErrAddress)
		}
		return address, defaultPort, nil
	}
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("%w %q: write HOST:PORT, IPv6 as [::1]:PORT", ErrAddress, address)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("%w %q: port %q is not a number from 0 to 65535", ErrAddress, address, text)
	}
	return host, int(n), nil
}

// Resolve returns the address that a name to bind or advertise stands for, IPv4 before IPv6.
func Resolve(ctx context.Context, r Resolver, host string) (netip.Addr, error) {
	if host == "" {
		return netip.IPv4Unspecified(), nil
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap(), nil
	}
	ips, err := r.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%w: %s: %w", ErrAddress, host, err)
	}
	for _, ip := range ips {
		if ip = ip.Unmap(); ip.Is4() {
			return ip, nil
		}
	}
	if len(ips) == 0 {
		return netip.Addr{}, fmt.Errorf("%w: %s has no address", ErrAddress, host)
	}
	return ips[0], nil
}

// Outward returns the address by which others reach what is bound to ip: ip itself, or for a wildcard the first of the machine's own that the wildcard
// covers: private ones first, then any that leads out, then loopback.
func Outward(ip netip.Addr) (netip.Addr, error) {
	if !ip.IsUnspecified() {
		return ip, nil
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("addresses of this machine: %w; give one with --advertise", err)
	}
	var best netip.Addr
	bestRank := 0
	for _, a := range addresses {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		if rank := outwardRank(prefix.Addr().Unmap(), ip); rank > bestRank {
			best, bestRank = prefix.Addr().Unmap(), rank
		}
	}
	if bestRank == 0 {
		return netip.Addr{}, fmt.Errorf("%w: %s is bound, but this machine has no address of that kind; give one with --advertise", ErrAddress, ip)
	}
	return best, nil
}

// outwardRank says how well an address stands for a wildcard; 0 is not at all.
func outwardRank(ip, wildcard netip.Addr) int {
	rank := 0
	switch {
	case wildcard.Is4() && !ip.Is4() || ip.Zone() != "" || ip.IsMulticast() || ip.IsLinkLocalUnicast() || ip.IsUnspecified():
		return 0
	case ip.IsLoopback():
		rank = 2
	case ip.IsPrivate():
		rank = 6
	default:
		rank = 4
	}
	if ip.Is4() {
		rank++
	}
	return rank
}

// hostPort writes an address as others dial it.
func hostPort(ip netip.Addr, port int) string {
	return net.JoinHostPort(ip.String(), strconv.Itoa(port))
}
