package replica

import (
	"encoding/binary"
	"errors"
	"fmt"

	"slicescheduler/gmg"
)

// Kind says what a message is for.
type Kind uint8

// Kinds of messages.
const (
	kindInvalid Kind = iota
	KindDelta        // facts to merge and pass on
	KindSync         // what the sender knows; the receiver answers with what it lacks
	KindWant         // how far the sender knows some owners; the receiver answers with what it lacks of them
	KindConfirm      // the owner asks whether its facts up to Seq are kept
	KindKept         // they are
	numKinds
)

// Bits of a message on the wire.
const (
	flagReply  = 1 // of Sync: answer with a Sync too if the sender knows more
	flagChild  = 2 // the sender has chosen the receiver as its parent in the tree
	flagParent = 4 // the receiver is the sender's child
	allFlags   = flagReply | flagChild | flagParent
)

// Limits of messages on the wire.
const (
	MaxMessageBytes = 64 << 10 // of a message with more than one fact
	messageVersion  = 1
	maxHops         = 64 // that a delta may travel: views that differ make circles for a while
)

// ErrMessage is a message that can't be read.
var ErrMessage = errors.New("invalid replication message")

// Message is what replicas send each other. Its fields count as Kind says.
type Message struct {
	Kind   Kind
	Flags  uint8
	Hops   uint8      // of Delta: links that it has passed
	Delta  gmg.Delta  // of Delta
	Vector gmg.Vector // of Sync and Want
	Digest uint64     // of Sync: of the facts that the sender holds
	Point  gmg.Point  // of Confirm and Kept: in the history of the node that asks
}

func (m *Message) has(flag uint8) bool { return m.Flags&flag != 0 }

// Encode writes a message as one or more, each of at most MaxMessageBytes unless a single fact or vector has more: version, kind, flags and hops as a byte
// each; digest, incarnation and sequence number as uvarints; then a delta in gmg's format, where a vector is written as spans from 0.
func (m *Message) Encode() ([][]byte, error) {
	head := []byte{messageVersion, byte(m.Kind), m.Flags, m.Hops}
	for _, v := range []uint64{m.Digest, m.Point.Incarnation, m.Point.Seq} {
		head = binary.AppendUvarint(head, v)
	}
	if m.Kind != KindDelta {
		body, err := gmg.EncodeDelta(gmg.Delta{Spans: spansOf(m.Vector)})
		return [][]byte{append(head, body...)}, err
	}
	chunks, err := gmg.EncodeDeltaChunks(m.Delta, MaxMessageBytes-len(head)-reservedBytes(m.Delta))
	for i, c := range chunks {
		chunks[i] = append(append(make([]byte, 0, len(head)+len(c)), head...), c...)
	}
	return chunks, err
}

// reservedBytes is room for what EncodeDeltaChunks doesn't count: the format's own bytes and the spans, of which a piece rarely has many.
func reservedBytes(d gmg.Delta) int { return 1024 + min(48*len(d.Spans), MaxMessageBytes/2) }

// Decode reads what Encode wrote.
func Decode(b []byte) (Message, error) {
	if len(b) < 4 || b[0] != messageVersion {
		return Message{}, fmt.Errorf("%w: %d bytes of an unknown version", ErrMessage, len(b))
	}
	m := Message{Kind: Kind(b[1]), Flags: b[2], Hops: b[3]}
	if m.Kind == kindInvalid || m.Kind >= numKinds || m.Flags&^allFlags != 0 {
		return Message{}, fmt.Errorf("%w: kind %d, flags %x", ErrMessage, m.Kind, m.Flags)
	}
	b = b[4:]
	for _, v := range []*uint64{&m.Digest, &m.Point.Incarnation, &m.Point.Seq} {
		n, width := binary.Uvarint(b)
		if width <= 0 {
			return Message{}, fmt.Errorf("%w: its head is cut short", ErrMessage)
		}
		*v, b = n, b[width:]
	}
	d, err := gmg.DecodeDelta(b)
	if err != nil {
		return Message{}, fmt.Errorf("%w: %w", ErrMessage, err)
	}
	if m.Kind == KindDelta {
		m.Delta = d
		return m, nil
	}
	if len(d.Facts) > 0 {
		return Message{}, fmt.Errorf("%w: facts in a message of kind %d", ErrMessage, m.Kind)
	}
	m.Vector = make(gmg.Vector, len(d.Spans))
	for _, s := range d.Spans {
		m.Vector[s.Owner] = gmg.Point{Incarnation: s.Incarnation, Seq: s.Through}
	}
	return m, nil
}

func spansOf(v gmg.Vector) []gmg.Span {
	spans := make([]gmg.Span, 0, len(v))
	for _, owner := range sortedOwners(v) {
		spans = append(spans, gmg.Span{Owner: owner, Incarnation: v[owner].Incarnation, Through: v[owner].Seq})
	}
	return spans
}
