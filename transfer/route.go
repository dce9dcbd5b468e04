package transfer

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"slicescheduler/gmg"
)

// Errors of routes.
var (
	ErrNoRoute = errors.New("no route between devices")
	ErrLink    = errors.New("invalid link")
)

// RouteKind says what a route is bound by: the slowest kind of link on it.
type RouteKind uint8

// Kinds of routes, best first.
const (
	RouteMemory  RouteKind = iota // both ends share memory
	RoutePeer                     // device to device
	RouteStaged                   // through host memory
	RouteNetwork                  // between hosts
	NumRouteKinds
)

// String returns the kind's name in metrics.
func (k RouteKind) String() string {
	if k >= NumRouteKinds {
		return fmt.Sprintf("route(%d)", uint8(k))
	}
	return [NumRouteKinds]string{"memory", "peer", "staged", "network"}[k]
}

func kindOf(l gmg.Link) (RouteKind, bool) {
	switch l.Kind {
	case gmg.LinkMemory:
		return RouteMemory, true
	case gmg.LinkPeer:
		return RoutePeer, true
	case gmg.LinkStaged, gmg.LinkHost:
		return RouteStaged, true
	case gmg.LinkNetwork:
		return RouteNetwork, true
	}
	return 0, false
}

// Route is a way from one device to another. A route within one device has no hops.
type Route struct {
	From, To gmg.DeviceID
	Hops     []gmg.Link
}

// Kind returns what the route is bound by.
func (r Route) Kind() RouteKind {
	worst := RouteMemory
	for _, l := range r.Hops {
		if k, ok := kindOf(l); ok {
			worst = max(worst, k)
		}
	}
	return worst
}

// String writes the route for people: "a/cuda0 -host-> a/host -network-> b/host".
func (r Route) String() string {
	var b strings.Builder
	b.WriteString(string(r.From))
	for _, l := range r.Hops {
		fmt.Fprintf(&b, " -%s-> %s", l.Kind, l.To)
	}
	return b.String()
}

// EstimateNs returns how long n bytes take when nothing else uses the links. Chunks follow each other, so every hop works at the same
// time on another chunk: the first chunk passes all hops, the rest arrives at the pace of the slowest.
func (r Route) EstimateNs(bytes int64) int64 {
	chunk := min(bytes, r.ChunkBytes())
	var ns, slowest float64
	for _, l := range r.Hops {
		perByte := nsPerByte(l)
		ns += float64(l.LatencyNs) + float64(chunk)*perByte
		slowest = max(slowest, perByte)
	}
	return int64(math.Ceil(ns + float64(bytes-chunk)*slowest))
}

// nsPerByte is 0 for a memory link without a bandwidth, which hands memory over instead of copying it.
func nsPerByte(l gmg.Link) float64 {
	if l.BandwidthBytesPerS == 0 {
		return 0
	}
	return 1e9 / l.BandwidthBytesPerS
}

// Topology finds routes over a fixed set of links. It is safe for concurrent use.
type Topology struct {
	between map[ends][]gmg.Link
	out, in map[gmg.DeviceID][]gmg.DeviceID // only hosts
}

type ends struct{ from, to gmg.DeviceID }

// NewTopology indexes links. A link with a bandwidth or latency that can't be is ErrLink.
func NewTopology(links []gmg.Link) (*Topology, error) {
	t := &Topology{between: make(map[ends][]gmg.Link), out: make(map[gmg.DeviceID][]gmg.DeviceID), in: make(map[gmg.DeviceID][]gmg.DeviceID)}
	for _, l := range links {
		if err := validate(l); err != nil {
			return nil, err
		}
		pair := ends{l.From, l.To}
		if len(t.between[pair]) == 0 {
			if l.To.IsHost() {
				t.out[l.From] = append(t.out[l.From], l.To)
			}
			if l.From.IsHost() {
				t.in[l.To] = append(t.in[l.To], l.From)
			}
		}
		t.between[pair] = append(t.between[pair], l)
	}
	return t, nil
}

func validate(l gmg.Link) error {
	_, known := kindOf(l)
	bandwidth := l.BandwidthBytesPerS
	switch {
	case !known || l.From == "" || l.To == "" || l.From == l.To:
		return fmt.Errorf("%w: %q from %q to %q", ErrLink, l.Kind, l.From, l.To)
	case !(bandwidth >= 0) || math.IsInf(bandwidth, 0) || bandwidth == 0 && l.Kind != gmg.LinkMemory || l.LatencyNs < 0:
		return fmt.Errorf("%w: %s from %s to %s with %v bytes/s and a latency of %d ns", ErrLink, l.Kind, l.From, l.To, bandwidth, l.LatencyNs)
	}
	return nil
}

// Route returns the fastest route for n bytes: a direct link, or through one or two hosts' memory. Other devices are never used as relays, since
// their memory belongs to their tenants. Of equally fast routes it takes the one with fewer hops, then the better kind.
func (t *Topology) Route(from, to gmg.DeviceID, bytes int64) (Route, error) {
	if from == to {
		return Route{From: from, To: to}, nil
	}
	var best candidate
	try := func(stops ...gmg.DeviceID) { t.extend(&best, Route{From: from, To: to}, from, stops, bytes) }
	try(to)
	for _, first := range t.out[from] {
		if first == to {
			continue
		}
		try(first, to)
		for _, second := range t.in[to] {
			if second != first && second != from {
				try(first, second, to)
			}
		}
	}
	if !best.found {
		return Route{}, fmt.Errorf("%w: from %s to %s", ErrNoRoute, from, to)
	}
	return best.route, nil
}

// candidate is the best route so far.
type candidate struct {
	route Route
	ns    int64
	found bool
}

// extend tries every choice of parallel links along the stops.
func (t *Topology) extend(best *candidate, r Route, at gmg.DeviceID, stops []gmg.DeviceID, bytes int64) {
	if len(stops) == 0 {
		ns := r.EstimateNs(bytes)
		if !best.found || better(ns, r, best.ns, best.route) {
			*best = candidate{r, ns, true}
		}
		return
	}
	for _, l := range t.between[ends{at, stops[0]}] {
		next := r
		next.Hops = append(slices.Clone(r.Hops), l)
		t.extend(best, next, stops[0], stops[1:], bytes)
	}
}

func better(aNs int64, a Route, bNs int64, b Route) bool {
	return cmp.Or(cmp.Compare(aNs, bNs), cmp.Compare(len(a.Hops), len(b.Hops)), cmp.Compare(a.Kind(), b.Kind()),
		strings.Compare(a.String(), b.String())) < 0
}
