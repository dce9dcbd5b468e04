package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
)

// cursor walks over a file's bytes. After an error it stays where the error is and yields zeros, so that callers check once.
type cursor struct {
	path string
	data []byte
	pos  int
	err  error
}

func (c *cursor) fail(offset int, format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%s: offset %d: %w: %s", c.path, offset, ErrFormat, fmt.Sprintf(format, args...))
	}
}

func (c *cursor) left() int { return len(c.data) - c.pos }

// take returns the next n bytes.
func (c *cursor) take(n int, what string) []byte {
	if c.err != nil {
		return nil
	}
	if n > c.left() {
		c.fail(c.pos, "%s needs %d bytes, the file ends after %d", what, n, c.left())
		return nil
	}
	b := c.data[c.pos : c.pos+n]
	c.pos += n
	return b
}

func (c *cursor) u32(what string) uint32 {
	if b := c.take(4, what); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) u64(what string) uint64 {
	if b := c.take(8, what); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// count reads a number of items that take at least itemBytes each and checks that they can be there.
func (c *cursor) count(itemBytes int, what string) int {
	at := c.pos
	n := c.u64(what)
	if c.err == nil && n > uint64(c.left()/itemBytes) {
		c.fail(at, "%s: a length of %d, more than the %d bytes that follow can hold", what, n, c.left())
		return 0
	}
	return int(n)
}

// str returns a string's bytes in place.
func (c *cursor) str(what string) []byte {
	n := c.count(1, what)
	return c.take(n, what)
}

// parse reads and checks the header: metadata and tensor list.
func (s *shard) parse() error {
	c := &cursor{path: s.path, data: s.data}
	if err := s.parsePreamble(c); err != nil {
		return err
	}
	// The smallest tensor entry: name length, dimension count, one dimension, type, offset. The smallest pair: key length, type, one byte.
	tensors := c.count(8+4+8+4+8, "tensor count")
	pairs := c.count(8+4+1, "metadata count")
	s.meta = make(map[string]value)
	for i := 0; i < pairs && c.err == nil; i++ {
		s.parsePair(c)
	}
	alignment := s.alignment(c)
	names := make(map[string]struct{})
	for i := 0; i < tensors && c.err == nil; i++ {
		s.parseTensor(c, names)
	}
	if c.err != nil {
		return c.err
	}
	return s.placeTensors(c, alignment)
}

func (s *shard) parsePreamble(c *cursor) error {
	switch m := c.u32("magic"); {
	case c.err != nil:
		return c.err
	case m == magicSwapped:
		return fmt.Errorf("%s: offset 0: %w: big-endian file", s.path, ErrUnsupported)
	case m != magic:
		c.fail(0, "not a GGUF file: it begins with %q", s.data[:4])
		return c.err
	}
	s.version = c.u32("version")
	switch v := s.version; {
	case c.err != nil:
		return c.err
	case v < minVersion || v > maxVersion:
		if v&0xffff == 0 && v != 0 {
			return fmt.Errorf("%s: offset 4: %w: big-endian file", s.path, ErrUnsupported)
		}
		return fmt.Errorf("%s: offset 4: %w: GGUF version %d, versions %d and %d can be read", s.path, ErrUnsupported, v, minVersion, maxVersion)
	}
	return nil
}

func (s *shard) parsePair(c *cursor) {
	at := c.pos
	key := string(c.str("metadata key"))
	if c.err != nil {
		return
	}
	if len(key) == 0 || len(key) > maxKeyBytes {
		c.fail(at, "metadata key of %d bytes", len(key))
		return
	}
	if _, dup := s.meta[key]; dup {
		c.fail(at, "metadata key %q is there twice", key)
		return
	}
	s.meta[key] = parseValue(c, key)
}

// alignment returns the alignment of tensor data.
func (s *shard) alignment(c *cursor) int64 {
	v, ok := s.meta["general.alignment"]
	if !ok || c.err != nil {
		return defaultAlignment
	}
	n, isInt := v.integer()
	if !isInt || n < 8 || n > maxAlignment || n&(n-1) != 0 {
		c.fail(v.at, "general.alignment is %v: a power of two between 8 and %d is needed", n, maxAlignment)
		return defaultAlignment
	}
	return n
}

func (s *shard) parseTensor(c *cursor, names map[string]struct{}) {
	at := c.pos
	t := Tensor{Name: string(c.str("tensor name"))}
	dims := c.u32("number of dimensions")
	if c.err == nil && (dims < 1 || dims > maxDims) {
		c.fail(at, "tensor %q has %d dimensions, 1 to %d are possible", t.Name, dims, maxDims)
	}
	if c.err != nil {
		return
	}
	if _, dup := names[t.Name]; dup {
		c.fail(at, "tensor %q is there twice", t.Name)
		return
	}
	names[t.Name] = struct{}{}
	elements := int64(1)
	for range dims {
		d := c.u64("dimension")
		if c.err == nil && (d < 1 || d > math.MaxInt64/uint64(elements)) {
			c.fail(at, "tensor %q: dimension %d after %v is zero or overflows", t.Name, d, t.Dims)
		}
		if c.err != nil {
			return
		}
		elements *= int64(d)
		t.Dims = append(t.Dims, int64(d))
	}
	t.Type = Type(c.u32("tensor type"))
	offset := c.u64("tensor offset")
	if c.err == nil && offset > uint64(len(c.data)) {
		c.fail(at, "tensor %q: data at %d lies beyond the file's %d bytes", t.Name, offset, len(c.data))
	}
	if c.err != nil {
		return
	}
	t.Offset = int64(offset)
	if err := t.size(); err != nil {
		c.err = fmt.Errorf("%s: offset %d: tensor %q: %w", c.path, at, t.Name, err)
		return
	}
	s.tensors = append(s.tensors, t)
}

// size sets Bytes from type and dimensions.
func (t *Tensor) size() error {
	row, err := t.Type.RowBytes(t.Dims[0])
	if err != nil {
		return err
	}
	rows := t.Rows()
	if rows > math.MaxInt64/row {
		return fmt.Errorf("%w: size of %v overflows", ErrFormat, t.Dims)
	}
	t.Bytes = rows * row
	return nil
}

// placeTensors turns offsets that count from the data section into offsets in the file and checks that all data is there.
func (s *shard) placeTensors(c *cursor, alignment int64) error {
	base := (int64(c.pos) + alignment - 1) / alignment * alignment
	size := int64(len(s.data))
	for i := range s.tensors {
		t := &s.tensors[i]
		if t.Offset%alignment != 0 {
			c.fail(c.pos, "tensor %q: offset %d is not aligned to %d", t.Name, t.Offset, alignment)
			return c.err
		}
		// Both addends are at most the file's length, so the sum cannot overflow; neither can what is left.
		t.Offset += base
		if t.Offset > size || t.Bytes > size-t.Offset {
			c.fail(c.pos, "tensor %q: %d bytes of data at %d lie beyond the file's %d bytes: is the file cut short?", t.Name, t.Bytes, t.Offset, size)
			return c.err
		}
	}
	return nil
}
