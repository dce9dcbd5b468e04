package gmg

import (
	"cmp"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Kind says what a fact is about.
type Kind uint8

// Kinds of facts. The numbers are part of the sort order only; on disk and on the wire kinds travel by name.
const (
	KindInvalid Kind = iota
	KindNode
	KindDevice
	KindLink
	KindGraph
	KindLane
	KindDeviceState
	KindTenantState
	KindOperatorTimes
	KindTenantSpec
	KindAPIKey
	numKinds
)

var kindNames = [numKinds]string{"invalid", "node", "device", "link", "graph", "lane", "device-state", "tenant-state",
	"operator-times", "tenant-spec", "api-key"}

// String returns the kind's name on disk and in listings.
func (k Kind) String() string {
	if k >= numKinds {
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
	return kindNames[k]
}

// ParseKind is the inverse of String.
func ParseKind(s string) (Kind, error) {
	for k := KindNode; k < numKinds; k++ {
		if kindNames[k] == s {
			return k, nil
		}
	}
	return KindInvalid, fmt.Errorf("%w: unknown kind %q", ErrFact, s)
}

// Shared says whether any node may write facts of the kind. Shared facts are last-writer-wins by Stamp and outlive the node that wrote them; all
// others have one owner and go with it.
func (k Kind) Shared() bool { return k == KindTenantSpec || k == KindAPIKey }

// Errors of facts.
var (
	ErrFact     = errors.New("invalid fact")
	ErrNotOwner = errors.New("another node owns this fact")
)

// Key names a fact. IDs are unique within a kind.
type Key struct {
	Kind Kind
	ID   string
}

// String returns "kind/id".
func (k Key) String() string { return k.Kind.String() + "/" + k.ID }

// Version places a fact in its owner's history. An owner never uses a (incarnation, seq) twice.
type Version struct {
	Owner       NodeID
	Incarnation uint64 // of the owner; rises with each start and each time the owner was declared dead while it lived
	Seq         uint64 // from 1 up within an incarnation
}

// Value is what a fact says; the types of this package that can be a fact's value implement it. Values are immutable once they are in a store:
// slices and maps reached through a snapshot must not be written.
type Value interface {
	// Key returns the name of the fact that holds this value.
	Key() Key
	check() error
	clone() Value
}

// Fact is one versioned piece of the GMG.
//
// Conflicts. Of one owner's facts for a key the one with the higher (incarnation, seq) counts. When two owners hold the same key, which happens while
// something changes hands, the one with the highest (Claim, Incarnation, Seq, Owner) is seen. Facts of an incarnation below the highest known one of
// their owner don't count at all. Of shared facts the one with the highest Stamp counts, whoever wrote it. Each rule is a maximum over a total
// order, hence merging is commutative, associative and idempotent.
type Fact struct {
	Key     Key
	Version Version
	Claim   uint64 // how often the key changed hands
	Stamp   Stamp  // shared kinds only
	Deleted bool   // a tombstone; Value is nil
	Value   Value
}

// supersedes says whether f replaces g in the same register: the same key and, unless the kind is shared, the same owner.
func (f *Fact) supersedes(g *Fact) bool {
	if f.Key.Kind.Shared() {
		if c := f.Stamp.Compare(g.Stamp); c != 0 {
			return c > 0
		}
	}
	return compareVersions(f.Version, g.Version) > 0
}

// outranks says which of two owners' facts for one key is seen.
func (f *Fact) outranks(g *Fact) bool {
	if f.Claim != g.Claim {
		return f.Claim > g.Claim
	}
	return compareVersions(f.Version, g.Version) > 0
}

func compareVersions(a, b Version) int {
	return cmp.Or(cmp.Compare(a.Incarnation, b.Incarnation), cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Owner, b.Owner))
}

// Limits that keep the next incarnation and the next stamp from overflowing. Both are times in nanoseconds as a rule: the year 2116.
const (
	maxIncarnation = 1 << 62
	maxWallNs      = 1 << 62
)

// Validate checks that a fact is well-formed: its key, version and value belong together.
func (f *Fact) Validate() error {
	switch {
	case f.Key.Kind == KindInvalid || f.Key.Kind >= numKinds:
		return fmt.Errorf("%w: kind %v", ErrFact, f.Key.Kind)
	case f.Key.ID == "" || !utf8.ValidString(f.Key.ID):
		return fmt.Errorf("%w: %v with id %q", ErrFact, f.Key.Kind, f.Key.ID)
	case f.Version.Owner == "" || f.Version.Seq == 0:
		return fmt.Errorf("%w: %v without owner or sequence number", ErrFact, f.Key)
	case f.Version.Incarnation > maxIncarnation:
		return fmt.Errorf("%w: %v of incarnation %d", ErrFact, f.Key, f.Version.Incarnation)
	case f.Key.Kind.Shared() && (f.Stamp == Stamp{} || f.Stamp.WallNs < 0 || f.Stamp.WallNs > maxWallNs):
		return fmt.Errorf("%w: %v with time stamp %+v", ErrFact, f.Key, f.Stamp)
	case f.Deleted != (f.Value == nil):
		return fmt.Errorf("%w: %v must have either a value or be deleted", ErrFact, f.Key)
	case f.Value != nil && f.Value.Key() != f.Key:
		return fmt.Errorf("%w: %v holds the value of %v", ErrFact, f.Key, f.Value.Key())
	}
	if f.Value == nil {
		return nil
	}
	if err := f.Value.check(); err != nil {
		return fmt.Errorf("%v: %w", f.Key, err)
	}
	return nil
}

// hash identifies a fact's content for digests. Shared facts count by their stamp, so that it doesn't matter who passed them on.
func (f *Fact) hash() uint64 {
	h := newHash64()
	h.byte(byte(f.Key.Kind))
	h.string(f.Key.ID)
	if f.Key.Kind.Shared() {
		h.uint64(uint64(f.Stamp.WallNs))
		h.uint64(uint64(f.Stamp.Counter))
		h.string(string(f.Stamp.Node))
	} else {
		h.string(string(f.Version.Owner))
		h.uint64(f.Version.Incarnation)
		h.uint64(f.Version.Seq)
	}
	if f.Deleted {
		h.byte(1)
	}
	return h.sum()
}
