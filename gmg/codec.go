package gmg

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// The format of facts on disk and on the wire:
//
//	"SLGM" | version uint16 | records uint32 | { length uvarint | record } ... | CRC-32C of all before uint32
//	fact: kind text | id text | owner text | incarnation, seq, claim uvarint | flags byte | stamp, if stamped | value as JSON, unless deleted
//	span: "" text | owner text | incarnation, after, through uvarint
//
// Fixed-size integers are little-endian; a text is its length as uvarint and its bytes; a stamp is wall time and counter as uvarints and the node as text.
// What a fact's value is follows from its kind. Fields may be added to values within a version, readers ignore those they don't know; anything else
// needs a new version, which older readers refuse by its number.
const (
	codecMagic   = "SLGM"
	codecVersion = 1
	codecHeader  = len(codecMagic) + 2 + 4
	codecTrailer = 4

	flagDeleted = 1
	flagStamped = 2
)

// Errors of the format.
var (
	ErrCorrupt = errors.New("facts are corrupt")
	ErrVersion = errors.New("facts are of an unknown format version")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// EncodeFacts writes facts in the persistence format.
func EncodeFacts(facts []Fact) ([]byte, error) { return EncodeDelta(Delta{Facts: facts}) }

// DecodeFacts reads what EncodeFacts wrote: values have their types, and every fact is valid. ErrVersion names a version that is not known, ErrCorrupt
// stands for all other damage.
func DecodeFacts(b []byte) ([]Fact, error) {
	d, err := DecodeDelta(b)
	return d.Facts, err
}

// EncodeDelta writes a delta in the same format.
func EncodeDelta(d Delta) ([]byte, error) {
	var e encoder
	for i := range d.Facts {
		if err := e.fact(&d.Facts[i]); err != nil {
			return nil, err
		}
	}
	for _, s := range d.Spans {
		e.span(s)
	}
	return e.bytes(), nil
}

// EncodeDeltaChunks writes a delta as pieces of about limitBytes, each a delta of its own. A piece exceeds the limit only when a single fact does.
func EncodeDeltaChunks(d Delta, limitBytes int) ([][]byte, error) {
	var failed error
	pieces := d.Split(limitBytes, func(f *Fact) int {
		var e encoder
		if err := e.fact(f); err != nil {
			failed = err
		}
		return len(e.body)
	})
	if failed != nil {
		return nil, failed
	}
	chunks := make([][]byte, 0, len(pieces))
	for _, p := range pieces {
		b, err := EncodeDelta(p)
		if err != nil {
			return nil, err
		}
		chunks = append(chunks, b)
	}
	return chunks, nil
}

type encoder struct {
	body    []byte
	record  []byte // the one being written
	records uint32
}

func (e *encoder) text(s string) {
	e.number(uint64(len(s)))
	e.record = append(e.record, s...)
}

func (e *encoder) number(v uint64) { e.record = binary.AppendUvarint(e.record, v) }

func (e *encoder) fact(f *Fact) error {
	e.text(f.Key.Kind.String())
	e.text(f.Key.ID)
	e.text(string(f.Version.Owner))
	e.number(f.Version.Incarnation)
	e.number(f.Version.Seq)
	e.number(f.Claim)
	var flags byte
	if f.Deleted {
		flags |= flagDeleted
	}
	stamped := f.Stamp != Stamp{}
	if stamped {
		flags |= flagStamped
	}
	e.record = append(e.record, flags)
	if stamped {
		e.number(uint64(f.Stamp.WallNs))
		e.number(uint64(f.Stamp.Counter))
		e.text(string(f.Stamp.Node))
	}
	if f.Value != nil {
		v, err := json.Marshal(f.Value)
		if err != nil {
			return fmt.Errorf("encode %v: %w", f.Key, err)
		}
		e.record = append(e.record, v...)
	}
	e.end()
	return nil
}

func (e *encoder) span(s Span) {
	e.text("")
	e.text(string(s.Owner))
	e.number(s.Incarnation)
	e.number(s.After)
	e.number(s.Through)
	e.end()
}

func (e *encoder) end() {
	e.body = binary.AppendUvarint(e.body, uint64(len(e.record)))
	e.body = append(e.body, e.record...)
	e.record = e.record[:0]
	e.records++
}

func (e *encoder) bytes() []byte {
	out := make([]byte, 0, codecHeader+len(e.body)+codecTrailer)
	out = append(out, codecMagic...)
	out = binary.LittleEndian.AppendUint16(out, codecVersion)
	out = binary.LittleEndian.AppendUint32(out, e.records)
	out = append(out, e.body...)
	return binary.LittleEndian.AppendUint32(out, crc32.Checksum(out, castagnoli))
}

// DecodeDelta reads what EncodeDelta wrote, with DecodeFacts' errors.
func DecodeDelta(b []byte) (Delta, error) {
	if len(b) < codecHeader+codecTrailer || string(b[:len(codecMagic)]) != codecMagic {
		return Delta{}, fmt.Errorf("%w: %d bytes without the header of facts", ErrCorrupt, len(b))
	}
	if v := binary.LittleEndian.Uint16(b[len(codecMagic):]); v != codecVersion {
		return Delta{}, fmt.Errorf("%w: version %d, this program reads version %d; use the program that wrote them or a newer one", ErrVersion, v, codecVersion)
	}
	body, sum := b[:len(b)-codecTrailer], binary.LittleEndian.Uint32(b[len(b)-codecTrailer:])
	if got := crc32.Checksum(body, castagnoli); got != sum {
		return Delta{}, fmt.Errorf("%w: checksum %08x, expected %08x", ErrCorrupt, got, sum)
	}
	records := binary.LittleEndian.Uint32(b[codecHeader-4:])
	rest := body[codecHeader:]
	var d Delta
	for i := range records {
		n, width := binary.Uvarint(rest)
		if width <= 0 || n > uint64(len(rest)-width) {
			return Delta{}, fmt.Errorf("%w: record %d of %d is cut short", ErrCorrupt, i, records)
		}
		if err := d.addRecord(rest[width : width+int(n)]); err != nil {
			return Delta{}, fmt.Errorf("%w: record %d: %w", ErrCorrupt, i, err)
		}
		rest = rest[width+int(n):]
	}
	if len(rest) > 0 {
		return Delta{}, fmt.Errorf("%w: %d bytes after the last record", ErrCorrupt, len(rest))
	}
	return d, nil
}

// reader takes a record apart. After a failure everything reads as zero.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) number(limit uint64) uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > limit {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) text() string {
	n := int(r.number(uint64(len(r.rest))))
	if n > len(r.rest) {
		r.fail()
		return ""
	}
	s := string(r.rest[:n])
	r.rest = r.rest[n:]
	return s
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.fail()
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) fail() {
	r.rest, r.err = nil, fmt.Errorf("%w: a field is cut short or out of range", ErrFact)
}

func (d *Delta) addRecord(b []byte) error {
	r := reader{rest: b}
	if kind := r.text(); kind != "" {
		return d.addFact(kind, &r)
	}
	span := Span{Owner: NodeID(r.text()), Incarnation: r.number(math.MaxUint64), After: r.number(math.MaxUint64), Through: r.number(math.MaxUint64)}
	if r.err != nil {
		return r.err
	}
	d.Spans = append(d.Spans, span)
	return span.Validate()
}

func (d *Delta) addFact(kindName string, r *reader) error {
	kind, err := ParseKind(kindName)
	if err != nil {
		return err
	}
	f := Fact{Key: Key{Kind: kind, ID: r.text()}}
	f.Version = Version{Owner: NodeID(r.text()), Incarnation: r.number(math.MaxUint64), Seq: r.number(math.MaxUint64)}
	f.Claim = r.number(math.MaxUint64)
	flags := r.byte()
	if flags&^(flagDeleted|flagStamped) != 0 {
		r.fail()
	}
	f.Deleted = flags&flagDeleted != 0
	if flags&flagStamped != 0 {
		f.Stamp = Stamp{WallNs: int64(r.number(math.MaxInt64)), Counter: uint32(r.number(math.MaxUint32)), Node: NodeID(r.text())}
	}
	if r.err != nil {
		return r.err
	}
	if !f.Deleted {
		if f.Value, err = decodeValue(kind, r.rest); err != nil {
			return fmt.Errorf("%v: %w", f.Key, err)
		}
	}
	if err := f.Validate(); err != nil {
		return err
	}
	d.Facts = append(d.Facts, f)
	return nil
}

// decodeValue reads a value into the type that its kind says.
func decodeValue(kind Kind, b []byte) (Value, error) {
	switch kind {
	case KindNode:
		return decodeAs[Node](b)
	case KindDevice:
		return decodeAs[Device](b)
	case KindLink:
		return decodeAs[Link](b)
	case KindGraph:
		g := new(Graph)
		return g, json.Unmarshal(b, g)
	case KindLane:
		return decodeAs[Lane](b)
	case KindDeviceState:
		return decodeAs[DeviceState](b)
	case KindTenantState:
		return decodeAs[TenantState](b)
	case KindOperatorTimes:
		return decodeAs[OperatorTimes](b)
	case KindTenantSpec:
		return decodeAs[TenantSpec](b)
	case KindAPIKey:
		return decodeAs[APIKey](b)
	}
	return nil, fmt.Errorf("%w: kind %v has no value", ErrFact, kind)
}

func decodeAs[T Value](b []byte) (Value, error) {
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		return nil, err
	}
	return v, nil
}
