package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"slicescheduler/gmg"
)

// Protocol versions that this program speaks to other nodes. Nodes form a cluster when their ranges overlap, so adjacent releases mix.
const (
	ProtocolVersion    = 1
	MinProtocolVersion = 1
)

// Limits of what a node says of itself. A full Meta has less than half of the 512 bytes at which memberlist panics.
const (
	MaxNodeName   = 63 // bytes
	maxVersion    = 32
	maxAddress    = 64
	maxMetaBytes  = 240
	metaFormat    = 1
	metaFlagGoing = 1
)

// ErrMeta is a member's name or metadata that can't be read.
var ErrMeta = errors.New("invalid member metadata")

// ErrProtocol is a node whose release speaks no protocol version that this one does.
var ErrProtocol = errors.New("incompatible protocol version")

// Meta is what a node says of itself in the gossip.
type Meta struct {
	Protocol, MinProtocol uint16 // range of protocol versions
	Version               string // of the program
	ActorAddress          string // HOST:PORT; empty if it has none
	TensorAddress         string
	HTTPAddress           string // URL
	Leaving               bool   // it drains and will be gone soon
}

// Encode returns the metadata as bytes: format byte, flags byte, protocol versions as uvarints, then the texts, each behind its length as uvarint. What a
// newer release appends is ignored.
func (m Meta) Encode() ([]byte, error) {
	var flags byte
	if m.Leaving {
		flags |= metaFlagGoing
	}
	b := []byte{metaFormat, flags}
	b = binary.AppendUvarint(b, uint64(m.Protocol))
	b = binary.AppendUvarint(b, uint64(m.MinProtocol))
	for _, f := range m.fields() {
		if len(*f.text) > f.limit || !utf8.ValidString(*f.text) {
			return nil, fmt.Errorf("%w: %s %q must be UTF-8 of at most %d bytes", ErrMeta, f.name, *f.text, f.limit)
		}
		b = binary.AppendUvarint(b, uint64(len(*f.text)))
		b = append(b, *f.text...)
	}
	if len(b) > maxMetaBytes {
		return nil, fmt.Errorf("%w: %d bytes of addresses and version, at most %d fit", ErrMeta, len(b), maxMetaBytes)
	}
	return b, nil
}

type metaField struct {
	name  string
	limit int
	text  *string
}

func (m *Meta) fields() []metaField {
	return []metaField{{"version", maxVersion, &m.Version}, {"actor address", maxAddress, &m.ActorAddress}, {"tensor address", maxAddress, &m.TensorAddress},
		{"HTTP address", maxAddress, &m.HTTPAddress}}
}

// DecodeMeta is the inverse of Encode.
func DecodeMeta(b []byte) (Meta, error) {
	var m Meta
	if len(b) < 2 || b[0] != metaFormat {
		return m, fmt.Errorf("%w: %d bytes of an unknown format", ErrMeta, len(b))
	}
	m.Leaving = b[1]&metaFlagGoing != 0
	b = b[2:]
	for _, v := range []*uint16{&m.Protocol, &m.MinProtocol} {
		n, width := binary.Uvarint(b)
		if width <= 0 || n > 0xffff {
			return Meta{}, fmt.Errorf("%w: protocol version", ErrMeta)
		}
		*v, b = uint16(n), b[width:]
	}
	for _, f := range m.fields() {
		n, width := binary.Uvarint(b)
		if width <= 0 || n > uint64(f.limit) || n > uint64(len(b)-width) || !utf8.Valid(b[width:width+int(n)]) {
			return Meta{}, fmt.Errorf("%w: %s", ErrMeta, f.name)
		}
		*f.text, b = string(b[width:width+int(n)]), b[width+int(n):]
	}
	if m.MinProtocol > m.Protocol {
		return Meta{}, fmt.Errorf("%w: protocol versions %d to %d", ErrMeta, m.MinProtocol, m.Protocol)
	}
	return m, nil
}

// compatible says whether this program and the node share a protocol version.
func (m Meta) compatible() error {
	if m.Protocol < MinProtocolVersion || m.MinProtocol > ProtocolVersion {
		return fmt.Errorf("%w: it speaks %d to %d (release %s), this node %d to %d: upgrade one release at a time", ErrProtocol, m.MinProtocol, m.Protocol, m.Version,
			MinProtocolVersion, ProtocolVersion)
	}
	return nil
}

// ValidateName checks a node's or cluster's name: letters, digits, '-', '_' and '.'.
func ValidateName(name string) error {
	ok := name != "" && len(name) <= MaxNodeName && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r))
	})
	if !ok {
		return fmt.Errorf("name %q: write 1 to %d letters, digits, '-', '_' or '.'", name, MaxNodeName)
	}
	return nil
}

// memberName is the name under which a node's present life is known to memberlist.
func memberName(node gmg.NodeID, incarnation uint64) string {
	return fmt.Sprintf("%s@%016x", node, incarnation)
}

func parseMemberName(name string) (gmg.NodeID, uint64, error) {
	node, life, found := strings.Cut(name, "@")
	incarnation, err := strconv.ParseUint(life, 16, 64)
	if !found || err != nil || ValidateName(node) != nil || memberName(gmg.NodeID(node), incarnation) != name {
		return "", 0, fmt.Errorf("%w: member name %q", ErrMeta, name)
	}
	return gmg.NodeID(node), incarnation, nil
}
