package link

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"slicescheduler/cluster"
	"slicescheduler/gmg"
)

// Versions of what is spoken after the hello. Two nodes whose ranges overlap speak the highest version that both do, so adjacent releases mix.
const (
	Version    = 1
	MinVersion = 1
)

// Purpose says what a connection is for.
type Purpose byte

// Purposes of connections.
const (
	PurposeMessages Purpose = 1
	PurposeTensors  Purpose = 2
)

const (
	helloMagic    = "slk1"
	refusalMagic  = "slk!"
	maxHelloBytes = 1 << 10
	maxReason     = 512 // bytes
)

// Errors of the beginning of a connection.
var (
	ErrHello   = errors.New("not a node's greeting")
	ErrRefused = errors.New("the other node refused the connection")
)

// Hello is what a node says of itself at the beginning of a connection.
type Hello struct {
	MinVersion, Version uint64
	Purpose             Purpose
	Cluster             string
	Node                gmg.NodeID
	Incarnation         uint64
}

// encode writes a hello: magic, length of the rest as two bytes, then versions and purpose as uvarints, names behind their lengths, the incarnation. What a newer release
// appends is ignored.
func (h Hello) encode() []byte {
	var b []byte
	for _, v := range []uint64{h.MinVersion, h.Version, uint64(h.Purpose)} {
		b = binary.AppendUvarint(b, v)
	}
	for _, text := range []string{h.Cluster, string(h.Node)} {
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	b = binary.AppendUvarint(b, h.Incarnation)
	return append(binary.BigEndian.AppendUint16([]byte(helloMagic), uint16(len(b))), b...)
}

// encodeRefusal writes why a connection is not wanted.
func encodeRefusal(reason string) []byte {
	reason = reason[:min(len(reason), maxReason)]
	return append(binary.BigEndian.AppendUint16([]byte(refusalMagic), uint16(len(reason))), reason...)
}

// readHello reads the other end's hello, or its refusal as ErrRefused.
func readHello(r *bufio.Reader) (Hello, error) {
	var head [len(helloMagic) + 2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Hello{}, fmt.Errorf("%w: %w", ErrHello, err)
	}
	magic, n := string(head[:len(helloMagic)]), int(binary.BigEndian.Uint16(head[len(helloMagic):]))
	if magic != helloMagic && magic != refusalMagic || n > maxHelloBytes {
		return Hello{}, fmt.Errorf("%w: it begins with % x", ErrHello, head[:])
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return Hello{}, fmt.Errorf("%w: %w", ErrHello, err)
	}
	if magic == refusalMagic {
		return Hello{}, fmt.Errorf("%w: %q", ErrRefused, body)
	}
	return decodeHello(body)
}

func decodeHello(b []byte) (Hello, error) {
	var h Hello
	var purpose uint64
	for _, v := range []*uint64{&h.MinVersion, &h.Version, &purpose} {
		n, width := binary.Uvarint(b)
		if width <= 0 {
			return Hello{}, fmt.Errorf("%w: it is cut short", ErrHello)
		}
		*v, b = n, b[width:]
	}
	var names [2]string
	for i := range names {
		n, width := binary.Uvarint(b)
		if width <= 0 || n > uint64(len(b)-width) || !utf8.Valid(b[width:width+int(n)]) {
			return Hello{}, fmt.Errorf("%w: it is cut short", ErrHello)
		}
		names[i], b = string(b[width:width+int(n)]), b[width+int(n):]
		if err := cluster.ValidateName(names[i]); err != nil {
			return Hello{}, fmt.Errorf("%w: %w", ErrHello, err)
		}
	}
	incarnation, width := binary.Uvarint(b)
	if width <= 0 || purpose > 0xff || h.MinVersion > h.Version {
		return Hello{}, fmt.Errorf("%w: versions %d to %d, purpose %d", ErrHello, h.MinVersion, h.Version, purpose)
	}
	h.Purpose, h.Cluster, h.Node, h.Incarnation = Purpose(purpose), names[0], gmg.NodeID(names[1]), incarnation
	return h, nil
}

// check says why two nodes can't speak with each other.
func (h Hello) check(other Hello) error {
	switch {
	case other.Cluster != h.Cluster:
		return fmt.Errorf("%w: it is of cluster %q, this node of %q", ErrHello, other.Cluster, h.Cluster)
	case other.Version < h.MinVersion || other.MinVersion > h.Version:
		return fmt.Errorf("%w: it speaks versions %d to %d, this node %d to %d: upgrade one release at a time", cluster.ErrProtocol, other.MinVersion, other.Version,
			h.MinVersion, h.Version)
	}
	return nil
}
