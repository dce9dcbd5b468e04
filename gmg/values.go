package gmg

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Node describes one process of the cluster and how it is reached.
type Node struct {
	ID            NodeID `json:"id"`
	Incarnation   uint64 `json:"incarnation"`
	Version       string `json:"version"` // of the program
	GossipAddress string `json:"gossipAddress"`
	ActorAddress  string `json:"actorAddress"`
	TensorAddress string `json:"tensorAddress"`
	HTTPAddress   string `json:"httpAddress"`
	Cell          string `json:"cell"` // the planner's cell that the node belongs to
	StartUnixNs   int64  `json:"startUnixNs"`
}

// OperatorTime is what one operator was measured to take for a step of Tokens tokens in Sequences sequences at a mean context.
type OperatorTime struct {
	Name          string  `json:"name"` // as in cost tables (qkv_proj, attention, ...)
	DType         DType   `json:"dtype"`
	Tokens        int     `json:"tokens"`
	Sequences     int     `json:"sequences"`
	ContextTokens int     `json:"contextTokens"`
	MeanNs        float64 `json:"meanNs"`
	Count         int64   `json:"count"`
}

// OperatorTimes are a device's measured operator times.
type OperatorTimes struct {
	Device DeviceID       `json:"device"`
	Times  []OperatorTime `json:"times"`
}

// APIKey is a tenant's API key as it is kept: never the key itself, only its hash.
type APIKey struct {
	Tenant       TenantID `json:"tenant"`
	Name         string   `json:"name"`
	Prefix       string   `json:"prefix"` // the key's first characters, for people to tell keys apart
	Hash         string   `json:"hash"`   // hex of SHA-256
	CreatedUnixS int64    `json:"createdUnixS"`
}

// hostName is the last part of a host memory's identifier.
const hostName = "/host"

// HostOf returns the identifier of a node's host memory as an end of links.
func HostOf(n NodeID) DeviceID { return DeviceID(n) + hostName }

// IsHost says whether an end of a link is a node's host memory rather than a device.
func (d DeviceID) IsHost() bool { return strings.HasSuffix(string(d), hostName) }

// NodeKey, DeviceKey and the like name facts by the identifiers that callers hold.
func NodeKey(id NodeID) Key            { return Key{KindNode, string(id)} }
func DeviceKey(id DeviceID) Key        { return Key{KindDevice, string(id)} }
func GraphKey(id string) Key           { return Key{KindGraph, id} }
func LaneKey(id LaneID) Key            { return Key{KindLane, string(id)} }
func DeviceStateKey(id DeviceID) Key   { return Key{KindDeviceState, string(id)} }
func TenantStateKey(id TenantID) Key   { return Key{KindTenantState, string(id)} }
func OperatorTimesKey(id DeviceID) Key { return Key{KindOperatorTimes, string(id)} }
func TenantKey(id TenantID) Key        { return Key{KindTenantSpec, string(id)} }

// APIKeyKey names the fact of a tenant's API key.
func APIKeyKey(t TenantID, name string) Key { return Key{KindAPIKey, string(t) + "/" + name} }

// LinkKey names a link's fact; two devices may have links of several kinds.
func LinkKey(from, to DeviceID, kind LinkKind) Key {
	return Key{KindLink, fmt.Sprintf("%s>%s:%s", from, to, kind)}
}

// Key implements Value.
func (n Node) Key() Key          { return NodeKey(n.ID) }
func (d Device) Key() Key        { return DeviceKey(d.ID) }
func (l Link) Key() Key          { return LinkKey(l.From, l.To, l.Kind) }
func (g *Graph) Key() Key        { return GraphKey(g.ID) }
func (l Lane) Key() Key          { return LaneKey(l.ID) }
func (s DeviceState) Key() Key   { return DeviceStateKey(s.Device) }
func (s TenantState) Key() Key   { return TenantStateKey(s.Tenant) }
func (t OperatorTimes) Key() Key { return OperatorTimesKey(t.Device) }
func (s TenantSpec) Key() Key    { return TenantKey(s.ID) }
func (k APIKey) Key() Key        { return APIKeyKey(k.Tenant, k.Name) }

// check refuses what would make a fact unusable for others: numbers that JSON can't carry, and graphs that contradict themselves.
func (n Node) check() error        { return nil }
func (g *Graph) check() error      { return g.Validate() }
func (l Lane) check() error        { return nil }
func (s DeviceState) check() error { return nil }
func (s TenantState) check() error { return nil }
func (s TenantSpec) check() error  { return nil }
func (k APIKey) check() error      { return nil }
func (l Link) check() error        { return finite("bandwidth", l.BandwidthBytesPerS) }

func (d Device) check() error {
	for _, v := range d.PeakFLOPS {
		if err := finite("peak FLOP/s", v); err != nil {
			return err
		}
	}
	return finite("bandwidth", d.BandwidthBytesPerS)
}

func (t OperatorTimes) check() error {
	for i := range t.Times {
		if err := finite(t.Times[i].Name, t.Times[i].MeanNs); err != nil {
			return err
		}
	}
	return nil
}

func finite(what string, v float64) error {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("%w: %s of %v", ErrFact, what, v)
	}
	return nil
}

func (n Node) clone() Value        { return n }
func (l Link) clone() Value        { return l }
func (g *Graph) clone() Value      { return g } // graphs never change: their ID is a hash of their content
func (s DeviceState) clone() Value { return s }
func (k APIKey) clone() Value      { return k }

func (d Device) clone() Value {
	d.PeakFLOPS = maps.Clone(d.PeakFLOPS)
	return d
}

func (l Lane) clone() Value {
	l.Slices = slices.Clone(l.Slices)
	return l
}

func (s TenantState) clone() Value {
	s.Waiting, s.Running = slices.Clone(s.Waiting), slices.Clone(s.Running)
	return s
}

func (t OperatorTimes) clone() Value {
	t.Times = slices.Clone(t.Times)
	return t
}

func (s TenantSpec) clone() Value {
	s.KeyHashes = slices.Clone(s.KeyHashes)
	return s
}
