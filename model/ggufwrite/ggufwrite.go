// Package ggufwrite writes GGUF files, for tests and for models that are made up on the spot. It keeps to version 3, little-endian.
package ggufwrite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"slicescheduler/gmg"
	"slicescheduler/model/gguf"
)

// ErrValue is something that the format or this package cannot hold.
var ErrValue = errors.New("cannot be written to GGUF")

const (
	version   = 3
	alignment = 32
)

// Value types as numbered in the format.
const (
	typeU32    = 4
	typeI32    = 5
	typeF32    = 6
	typeBool   = 7
	typeString = 8
	typeArray  = 9
	typeU64    = 10
)

// Builder collects a file. The zero value is ready to use; metadata and tensors keep the order in which they come.
type Builder struct {
	meta    []byte
	pairs   int
	tensors []tensor
	err     error
}

type tensor struct {
	name string
	kind gguf.Type
	dims []int64
	data []byte
}

// Set adds a metadata pair. Values are uint32, int32, uint64, float32, bool, string and slices of int32, uint32, float32 and string.
func (b *Builder) Set(key string, value any) {
	b.pairs++
	b.meta = appendString(b.meta, key)
	switch v := value.(type) {
	case uint32:
		b.meta = le32(le32(b.meta, typeU32), v)
	case int32:
		b.meta = le32(le32(b.meta, typeI32), uint32(v))
	case uint64:
		b.meta = binary.LittleEndian.AppendUint64(le32(b.meta, typeU64), v)
	case float32:
		b.meta = le32(le32(b.meta, typeF32), math.Float32bits(v))
	case bool:
		b.meta = append(le32(b.meta, typeBool), boolByte(v))
	case string:
		b.meta = appendString(le32(b.meta, typeString), v)
	case []int32:
		b.meta = appendArray(b.meta, typeI32, v, func(d []byte, x int32) []byte { return le32(d, uint32(x)) })
	case []uint32:
		b.meta = appendArray(b.meta, typeU32, v, le32)
	case []float32:
		b.meta = appendArray(b.meta, typeF32, v, func(d []byte, x float32) []byte { return le32(d, math.Float32bits(x)) })
	case []string:
		b.meta = appendArray(b.meta, typeString, v, appendString)
	default:
		b.err = errors.Join(b.err, fmt.Errorf("%w: %s of type %T", ErrValue, key, value))
	}
}

// Tensor adds a tensor. dims are in GGUF's order, the length of a row first; data are its rows as stored.
func (b *Builder) Tensor(name string, dtype gmg.DType, data []byte, dims ...int64) {
	kind, ok := gguf.TypeOf(dtype)
	if !ok || len(dims) == 0 {
		b.err = errors.Join(b.err, fmt.Errorf("%w: tensor %q of type number %d with %d dimensions", ErrValue, name, dtype, len(dims)))
		return
	}
	want, err := kind.RowBytes(dims[0])
	for _, d := range dims[1:] {
		want *= d
	}
	if err != nil || want != int64(len(data)) {
		b.err = errors.Join(b.err, fmt.Errorf("%w: tensor %q with dimensions %v has %d bytes, %d are needed (%v)", ErrValue, name, dims, len(data), want, err))
		return
	}
	b.tensors = append(b.tensors, tensor{name, kind, dims, data})
}

// Bytes returns the file.
func (b *Builder) Bytes() ([]byte, error) {
	if b.err != nil {
		return nil, b.err
	}
	out := le32([]byte("GGUF"), version)
	out = binary.LittleEndian.AppendUint64(out, uint64(len(b.tensors)))
	out = binary.LittleEndian.AppendUint64(out, uint64(b.pairs))
	out = append(out, b.meta...)
	offset := 0
	for _, t := range b.tensors {
		out = le32(appendString(out, t.name), uint32(len(t.dims)))
		for _, d := range t.dims {
			out = binary.LittleEndian.AppendUint64(out, uint64(d))
		}
		out = binary.LittleEndian.AppendUint64(le32(out, uint32(t.kind)), uint64(offset))
		offset = aligned(offset + len(t.data))
	}
	for _, t := range b.tensors {
		out = append(out, make([]byte, aligned(len(out))-len(out))...)
		out = append(out, t.data...)
	}
	return out, nil
}

// Shards returns the file cut into n: all metadata is in the first, the tensors are spread in their order.
func (b *Builder) Shards(n int) ([][]byte, error) {
	if n < 1 || n > len(b.tensors) {
		return nil, fmt.Errorf("%w: %d tensors in %d shards", ErrValue, len(b.tensors), n)
	}
	files := make([][]byte, n)
	for i := range files {
		from, to := i*len(b.tensors)/n, (i+1)*len(b.tensors)/n
		part := Builder{tensors: b.tensors[from:to], err: b.err}
		if i == 0 {
			part.meta, part.pairs = bytes.Clone(b.meta), b.pairs
		}
		part.Set("split.no", uint32(i))
		part.Set("split.count", uint32(n))
		part.Set("split.tensors.count", int32(len(b.tensors)))
		var err error
		if files[i], err = part.Bytes(); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func aligned(n int) int { return (n + alignment - 1) / alignment * alignment }

func le32(dst []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(dst, v) }

func boolByte(v bool) byte {
	if v {
		return 1
	}
	return 0
}

func appendString(dst []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(dst, uint64(len(s))), s...)
}

func appendArray[T any](dst []byte, kind uint32, values []T, one func([]byte, T) []byte) []byte {
	dst = le32(le32(dst, typeArray), kind)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(len(values)))
	for _, v := range values {
		dst = one(dst, v)
	}
	return dst
}
