package gguf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"slicescheduler/gmg"
	"slicescheduler/model/gguf"
	"slicescheduler/model/ggufwrite"
)

// raw writes headers that no honest writer would.
type raw struct{ bytes.Buffer }

func (r *raw) u32(v uint32) *raw { return r.le(v) }
func (r *raw) u64(v uint64) *raw { return r.le(v) }

func (r *raw) le(v any) *raw {
	if err := binary.Write(&r.Buffer, binary.LittleEndian, v); err != nil {
		panic(err)
	}
	return r
}

func (r *raw) str(s string) *raw {
	r.u64(uint64(len(s)))
	r.WriteString(s)
	return r
}

func header(tensors, pairs uint64) *raw {
	r := &raw{}
	r.WriteString("GGUF")
	return r.u32(3).u64(tensors).u64(pairs)
}

// tensorEntry is a file with one tensor of the given dimensions, type and offset.
func tensorEntry(kind uint32, offset uint64, dims ...uint64) []byte {
	r := header(1, 0).str("w").u32(uint32(len(dims)))
	for _, d := range dims {
		r.u64(d)
	}
	r.u32(kind).u64(offset)
	return append(r.Bytes(), make([]byte, 4096)...)
}

// hugeNumbers are lengths and counts that no file can hold.
var hugeNumbers = []uint64{math.MaxUint64, math.MaxUint64 - 7, 1 << 63, math.MaxInt64, 1 << 60, 1 << 40, 1 << 32, 1 << 31, 5000}

// hostile lists files by what is wrong with them.
func hostile() map[string][]byte {
	out := map[string][]byte{
		"empty":                   {},
		"three bytes":             []byte("GGU"),
		"another format":          []byte("PK\x03\x04 and so on and so on"),
		"no version":              []byte("GGUF"),
		"no dimensions":           tensorEntry(0, 0),
		"five dimensions":         tensorEntry(0, 0, 1, 1, 1, 1, 1),
		"dimension of zero":       tensorEntry(0, 0, 4, 0),
		"dimensions overflow":     tensorEntry(0, 0, math.MaxInt64, 2),
		"dimensions overflow 64":  tensorEntry(0, 0, 1<<32, 1<<32),
		"dimensions wrap to zero": tensorEntry(0, 0, 1<<33, 1<<31),
		"bytes overflow":          tensorEntry(0, 0, math.MaxInt64),
		"half a block":            tensorEntry(uint32(gguf.TypeQ8_0), 0, 33),
		"data beyond the end":     tensorEntry(0, 0, 2000),
		"offset beyond the end":   tensorEntry(0, 1<<62, 4),
		"offset of 2^64-1":        tensorEntry(0, math.MaxUint64, 4),
		"offset not aligned":      tensorEntry(0, 4, 4),
		"array of arrays":         header(0, 1).str("k").u32(9).u32(9).u64(1).u32(4).u64(0).Bytes(),
		"unknown value type":      header(0, 1).str("k").u32(13).u64(0).Bytes(),
		"unknown element type":    header(0, 1).str("k").u32(9).u32(99).u64(1).u64(0).Bytes(),
		"empty key":               header(0, 1).str("").u32(4).u64(0).Bytes(),
		"key twice":               header(0, 2).str("k").u32(4).u32(1).str("k").u32(4).u32(1).Bytes(),
		"tensor twice":            append(header(2, 0).str("w").u32(1).u64(1).u32(0).u64(0).str("w").u32(1).u64(1).u32(0).u64(0).Bytes(), make([]byte, 64)...),
	}
	for _, a := range []uint32{0, 1, 3, 12, 48, 1 << 31} {
		out[fmt.Sprintf("alignment %d", a)] = append(header(0, 1).str("general.alignment").u32(4).u32(a).Bytes(), make([]byte, 64)...)
	}
	for _, n := range hugeNumbers {
		out[fmt.Sprintf("%d pairs", n)] = header(0, n).str("k").u32(4).u32(1).Bytes()
		out[fmt.Sprintf("%d tensors", n)] = header(n, 0).u64(0).Bytes()
		out[fmt.Sprintf("key of %d bytes", n)] = header(0, 1).u64(n).u64(0).u64(0).Bytes()
		out[fmt.Sprintf("string of %d bytes", n)] = header(0, 1).str("k").u32(8).u64(n).u64(0).Bytes()
		out[fmt.Sprintf("tensor name of %d bytes", n)] = header(1, 0).u64(n).u64(0).u64(0).u64(0).u64(0).Bytes()
		for kind := range uint32(13) {
			out[fmt.Sprintf("array of %d of type %d", n, kind)] = header(0, 1).str("k").u32(9).u32(kind).u64(n).u64(0).Bytes()
		}
		out[fmt.Sprintf("string of %d bytes in an array", n)] = header(0, 1).str("k").u32(9).u32(8).u64(1).u64(n).u64(0).Bytes()
	}
	return out
}

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// smallOpen is what opening a file of a few kilobytes may allocate.
const smallOpen = 256 << 10

func TestHostileFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	for name, data := range hostile() {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".gguf")
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			var err error
			if n := allocated(func() { _, err = gguf.Open(path) }); n > smallOpen {
				t.Errorf("%d bytes allocated for a file of %d", n, len(data))
			}
			if !errors.Is(err, gguf.ErrFormat) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "offset ") {
				t.Errorf("want ErrFormat with path and offset, got %v", err)
			}
		})
	}
}

// honest is a small valid file with all kinds of metadata.
func honest(t testing.TB) []byte {
	t.Helper()
	var b ggufwrite.Builder
	b.Set("general.architecture", "none")
	b.Set("n", uint32(7))
	b.Set("big", uint64(1<<40))
	b.Set("x", float32(0.5))
	b.Set("yes", true)
	b.Set("list", []int32{1, -2, 3})
	b.Set("floats", []float32{1, 2})
	b.Set("texts", []string{"", "one", "two"})
	b.Tensor("a", gmg.F32, make([]byte, 24), 3, 2)
	b.Tensor("b", gmg.Q8_0, bytes.Repeat([]byte{7}, 68), 32, 2)
	data, err := b.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestHonestFileIsReadBack(t *testing.T) {
	f, err := gguf.OpenBytes("honest", honest(t))
	if err != nil {
		t.Fatal(err)
	}
	if s, _ := f.String("general.architecture"); s != "none" {
		t.Errorf("string %q", s)
	}
	if n, ok := f.Int("n"); !ok || n != 7 {
		t.Errorf("n = %d", n)
	}
	if n, ok := f.Int("big"); !ok || n != 1<<40 {
		t.Errorf("big = %d", n)
	}
	if x, ok := f.Float("x"); !ok || x != 0.5 {
		t.Errorf("x = %g", x)
	}
	if yes, ok := f.Bool("yes"); !ok || !yes {
		t.Errorf("yes = %v", yes)
	}
	if l, _ := f.Ints("list"); fmt.Sprint(l) != "[1 -2 3]" {
		t.Errorf("list = %v", l)
	}
	if l, _ := f.Ints("n"); fmt.Sprint(l) != "[7]" {
		t.Errorf("one integer as a list = %v", l)
	}
	texts, _ := f.Strings("texts")
	var got []string
	for _, s := range texts.All() {
		got = append(got, string(s))
	}
	if fmt.Sprintf("%q", got) != `["" "one" "two"]` {
		t.Errorf("texts = %q", got)
	}
	b, ok := f.Tensor("b")
	if !ok || b.Type != gguf.TypeQ8_0 || b.Elements() != 64 || !bytes.Equal(f.Data(b), bytes.Repeat([]byte{7}, 68)) {
		t.Errorf("tensor b = %+v", b)
	}
	for _, wrong := range []string{"x", "texts", "absent", "yes"} {
		if n, ok := f.Int(wrong); ok {
			t.Errorf("%s is the integer %d", wrong, n)
		}
	}
}

func TestEveryCutIsRefused(t *testing.T) {
	data := honest(t)
	for n := range data {
		if _, err := gguf.OpenBytes("cut", data[:n]); !errors.Is(err, gguf.ErrFormat) {
			t.Fatalf("cut to %d of %d bytes: %v", n, len(data), err)
		}
	}
}

// TestEveryPlaceCorrupted writes numbers over every place of a valid file's header: it must open or be refused, cheaply, and never crash.
func TestEveryPlaceCorrupted(t *testing.T) {
	data := honest(t)
	spoilt := make([]byte, len(data))
	for at := 0; at+8 <= len(data); at++ {
		for _, n := range append([]uint64{0, 1}, hugeNumbers...) {
			copy(spoilt, data)
			binary.LittleEndian.PutUint64(spoilt[at:], n)
			if used := allocated(func() { checkOpens(t, spoilt) }); used > smallOpen {
				t.Fatalf("%d at %d: %d bytes allocated", n, at, used)
			}
		}
	}
}

// checkOpens opens bytes as a file: either an error of ours, or everything that it names can be read.
func checkOpens(t testing.TB, data []byte) {
	t.Helper()
	f, err := gguf.OpenBytes("fuzz", data)
	if err != nil {
		if !errors.Is(err, gguf.ErrFormat) && !errors.Is(err, gguf.ErrUnsupported) {
			t.Fatalf("neither ErrFormat nor ErrUnsupported: %v", err)
		}
		return
	}
	for _, tensor := range f.Tensors() {
		if d := f.Data(tensor); int64(len(d)) != tensor.Bytes || tensor.Elements() < 1 {
			t.Fatalf("tensor %+v has %d bytes", tensor, len(d))
		}
	}
	for _, key := range []string{"n", "texts", "list", "floats", "general.architecture"} {
		f.Int(key)
		f.Float(key)
		f.Ints(key)
		f.Floats(key)
		f.String(key)
		if s, ok := f.Strings(key); ok {
			for range s.All() {
			}
		}
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(honest(f))
	for _, data := range hostile() {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkOpens(t, data) })
}

func TestForeignFilesAreNamed(t *testing.T) {
	big := []byte("GGUF\x00\x00\x00\x03")
	for _, c := range []struct {
		name, want string
		data       []byte
	}{
		{"big-endian", "big-endian", append(big, make([]byte, 64)...)},
		{"version 1", "version 1", (&raw{*bytes.NewBufferString("GGUF")}).u32(1).u64(0).u64(0).Bytes()},
		{"version 4", "version 4", (&raw{*bytes.NewBufferString("GGUF")}).u32(4).u64(0).u64(0).Bytes()},
		{"IQ4_NL", "IQ4_NL", tensorEntry(20, 0, 32)},
		{"type 77", "type 77", tensorEntry(77, 0, 32)},
	} {
		_, err := gguf.OpenBytes("foreign.gguf", c.data)
		if !errors.Is(err, gguf.ErrUnsupported) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "foreign.gguf: offset ") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestVersion2IsRead(t *testing.T) {
	data := honest(t)
	data[4] = 2
	f, err := gguf.OpenBytes("v2", data)
	if err != nil || f.Version() != 2 {
		t.Fatalf("%v", err)
	}
}
