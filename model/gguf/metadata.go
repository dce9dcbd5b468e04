package gguf

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
)

// kind is a metadata value's type as numbered in GGUF files.
type kind uint32

const (
	kindU8 kind = iota
	kindI8
	kindU16
	kindI16
	kindU32
	kindI32
	kindF32
	kindBool
	kindString
	kindArray
	kindU64
	kindI64
	kindF64
)

// kindBytes is the size of a scalar; 0 for strings, arrays and unknown kinds.
func (k kind) bytes() int {
	switch k {
	case kindU8, kindI8, kindBool:
		return 1
	case kindU16, kindI16:
		return 2
	case kindU32, kindI32, kindF32:
		return 4
	case kindU64, kindI64, kindF64:
		return 8
	}
	return 0
}

// value is a metadata value that stays in the file's bytes until somebody asks for it. For an array elem is the kind of its n elements.
type value struct {
	kind, elem kind
	n          int
	data       []byte
	at         int // offset in the file, for messages
}

// parseValue checks a value's extent without decoding it.
func parseValue(c *cursor, key string) value {
	at := c.pos
	v := value{kind: kind(c.u32("type of " + key)), at: at}
	switch {
	case c.err != nil:
	case v.kind == kindString:
		v.data = c.str(key)
	case v.kind == kindArray:
		parseArray(c, key, &v)
	case v.kind.bytes() > 0:
		v.data = c.take(v.kind.bytes(), key)
	default:
		c.fail(at, "%s has unknown value type %d", key, v.kind)
	}
	return v
}

func parseArray(c *cursor, key string, v *value) {
	v.elem = kind(c.u32("element type of " + key))
	at := c.pos
	switch size := v.elem.bytes(); {
	case c.err != nil:
	case size > 0:
		v.n = c.count(size, key)
		v.data = c.take(v.n*size, key)
	case v.elem == kindString:
		v.n = c.count(8, key)
		from := c.pos
		for i := 0; i < v.n && c.err == nil; i++ {
			c.str(key)
		}
		if c.err == nil {
			v.data = c.data[from:c.pos]
		}
	case v.elem == kindArray:
		c.fail(at, "%s is an array of arrays", key)
	default:
		c.fail(at, "%s has unknown element type %d", key, v.elem)
	}
}

// scalar decodes the number at the beginning of b: an integer, or a float when isFloat.
func scalar(k kind, b []byte) (n int64, x float64, isFloat, ok bool) {
	le := binary.LittleEndian
	switch k {
	case kindU8, kindBool:
		n = int64(b[0])
	case kindI8:
		n = int64(int8(b[0]))
	case kindU16:
		n = int64(le.Uint16(b))
	case kindI16:
		n = int64(int16(le.Uint16(b)))
	case kindU32:
		n = int64(le.Uint32(b))
	case kindI32:
		n = int64(int32(le.Uint32(b)))
	case kindU64:
		u := le.Uint64(b)
		return int64(u), float64(u), false, u <= math.MaxInt64
	case kindI64:
		n = int64(le.Uint64(b))
	case kindF32:
		return 0, float64(math.Float32frombits(le.Uint32(b))), true, true
	case kindF64:
		return 0, math.Float64frombits(le.Uint64(b)), true, true
	default:
		return 0, 0, false, false
	}
	return n, float64(n), false, true
}

func (v value) integer() (int64, bool) {
	n, _, isFloat, ok := scalar(v.kind, v.data)
	return n, ok && !isFloat && v.kind != kindBool
}

// lookup finds a key in the first shard, which holds the metadata of the whole model.
func (f *File) lookup(key string) (value, bool) {
	v, ok := f.shards[0].meta[key]
	return v, ok
}

// Has says whether the metadata has a key.
func (f *File) Has(key string) bool {
	_, ok := f.lookup(key)
	return ok
}

// Int returns an integer of any width; false when the key is absent or holds something else.
func (f *File) Int(key string) (int64, bool) {
	if v, ok := f.lookup(key); ok {
		return v.integer()
	}
	return 0, false
}

// Float returns a number of any kind.
func (f *File) Float(key string) (float64, bool) {
	v, ok := f.lookup(key)
	if !ok {
		return 0, false
	}
	_, x, _, ok := scalar(v.kind, v.data)
	return x, ok && v.kind != kindBool
}

// Bool returns a truth value.
func (f *File) Bool(key string) (val, ok bool) {
	if v, ok := f.lookup(key); ok && v.kind == kindBool {
		return v.data[0] != 0, true
	}
	return false, false
}

// String returns a copy of a string.
func (f *File) String(key string) (string, bool) {
	if v, ok := f.lookup(key); ok && v.kind == kindString {
		return string(v.data), true
	}
	return "", false
}

// Ints returns an array of integers, decoded. A single integer counts as an array of one. Truth values count as 0 and 1.
func (f *File) Ints(key string) ([]int64, bool) {
	v, ok := f.lookup(key)
	if !ok {
		return nil, false
	}
	if v.kind != kindArray {
		n, ok := v.integer()
		return []int64{n}, ok
	}
	size := v.elem.bytes()
	if size == 0 || v.elem == kindF32 || v.elem == kindF64 {
		return nil, false
	}
	out := make([]int64, v.n)
	for i := range out {
		if out[i], _, _, ok = scalar(v.elem, v.data[i*size:]); !ok {
			return nil, false
		}
	}
	return out, true
}

// Floats returns an array of 32-bit floats, decoded.
func (f *File) Floats(key string) ([]float32, bool) {
	v, ok := f.lookup(key)
	if !ok || v.kind != kindArray || v.elem != kindF32 {
		return nil, false
	}
	out := make([]float32, v.n)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(v.data[i*4:]))
	}
	return out, true
}

// Strings is an array of strings that stays in the file's bytes.
type Strings struct {
	n    int
	data []byte
}

// Strings returns an array of strings.
func (f *File) Strings(key string) (Strings, bool) {
	v, ok := f.lookup(key)
	if !ok || v.kind != kindArray || v.elem != kindString {
		return Strings{}, false
	}
	return Strings{n: v.n, data: v.data}, true
}

// Len returns the number of strings.
func (s Strings) Len() int { return s.n }

// Bytes returns the bytes of all strings together, without their lengths.
func (s Strings) Bytes() int { return len(s.data) - 8*s.n }

// All yields the strings in order. Each is mapped memory: copy what is kept beyond the file's Close.
func (s Strings) All() iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		rest := s.data
		for i := range s.n {
			n := binary.LittleEndian.Uint64(rest)
			if !yield(i, rest[8:8+n:8+n]) {
				return
			}
			rest = rest[8+n:]
		}
	}
}

// Error wraps an error with the file and, when the metadata has the key, the key's offset.
func (f *File) Error(key string, err error) error {
	if v, ok := f.lookup(key); ok {
		return fmt.Errorf("%s: offset %d: %s: %w", f.path, v.at, key, err)
	}
	return fmt.Errorf("%s: %s: %w", f.path, key, err)
}
