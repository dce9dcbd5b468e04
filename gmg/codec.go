package gmg

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
)

// The format of facts on disk and on the wire:
//
//	"SLGM" | version uint16 | records uint32 | { length uvarint | JSON } ... | CRC-32C of all before uint32
//
// Integers are little-endian. A record is a fact or a span as JSON with short names; what a fact's value is follows from its kind. Fields may be added
// within a version, readers ignore what they don't know; anything else needs a new version, which older readers refuse by its number.
const (
	codecMagic   = "SLGM"
	codecVersion = 1
	codecHeader  = len(codecMagic) + 2 + 4
	codecTrailer = 4
)

// Errors of the format.
var (
	ErrCorrupt = errors.New("facts are corrupt")
	ErrVersion = errors.New("facts are of an unknown format version")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type jsonStamp struct {
	WallNs  int64  `json:"w"`
	Counter uint32 `json:"c,omitempty"`
	Node    NodeID `json:"n"`
}

// record is a fact when Kind is set, else a span.
type record struct {
	Kind        string          `json:"k,omitempty"`
	ID          string          `json:"id,omitempty"`
	Owner       NodeID          `json:"o"`
	Incarnation uint64          `json:"i"`
	Seq         uint64          `json:"s,omitempty"`
	Claim       uint64          `json:"c,omitempty"`
	Stamp       *jsonStamp      `json:"t,omitempty"`
	Deleted     bool            `json:"d,omitempty"`
	Value       json.RawMessage `json:"v,omitempty"`
	After       uint64          `json:"a,omitempty"`
	Through     uint64          `json:"u,omitempty"`
}

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
		r := record{Owner: s.Owner, Incarnation: s.Incarnation, After: s.After, Through: s.Through}
		if err := e.add(r); err != nil {
			return nil, err
		}
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
		return e.body.Len()
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
	body    bytes.Buffer
	records uint32
}

func (e *encoder) fact(f *Fact) error {
	r := record{Kind: f.Key.Kind.String(), ID: f.Key.ID, Owner: f.Version.Owner, Incarnation: f.Version.Incarnation,
		Seq: f.Version.Seq, Claim: f.Claim, Deleted: f.Deleted}
	if (f.Stamp != Stamp{}) {
		r.Stamp = &jsonStamp{f.Stamp.WallNs, f.Stamp.Counter, f.Stamp.Node}
	}
	if f.Value != nil {
		v, err := json.Marshal(f.Value)
		if err != nil {
			return fmt.Errorf("encode %v: %w", f.Key, err)
		}
		r.Value = v
	}
	return e.add(r)
}

func (e *encoder) add(r record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode %s/%s: %w", r.Kind, r.ID, err)
	}
	e.body.Write(binary.AppendUvarint(e.body.AvailableBuffer(), uint64(len(b))))
	e.body.Write(b)
	e.records++
	return nil
}

func (e *encoder) bytes() []byte {
	out := make([]byte, 0, codecHeader+e.body.Len()+codecTrailer)
	out = append(out, codecMagic...)
	out = binary.LittleEndian.AppendUint16(out, codecVersion)
	out = binary.LittleEndian.AppendUint32(out, e.records)
	out = append(out, e.body.Bytes()...)
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

func (d *Delta) addRecord(b []byte) error {
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return err
	}
	if r.Kind == "" {
		span := Span{r.Owner, r.Incarnation, r.After, r.Through}
		d.Spans = append(d.Spans, span)
		return span.Validate()
	}
	kind, err := ParseKind(r.Kind)
	if err != nil {
		return err
	}
	f := Fact{Key: Key{kind, r.ID}, Version: Version{r.Owner, r.Incarnation, r.Seq}, Claim: r.Claim, Deleted: r.Deleted}
	if r.Stamp != nil {
		f.Stamp = Stamp{r.Stamp.WallNs, r.Stamp.Counter, r.Stamp.Node}
	}
	if !r.Deleted {
		if f.Value, err = decodeValue(kind, r.Value); err != nil {
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
		if err := json.Unmarshal(b, g); err != nil {
			return nil, err
		}
		if err := g.Validate(); err != nil {
			return nil, err
		}
		return g, nil
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
