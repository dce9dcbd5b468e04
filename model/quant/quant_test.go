package quant

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"os"
	"testing"

	"pgregory.net/rapid"

	"slicescheduler/gmg"
)

// golden is testdata/golden.json, made by testdata/make_golden.py with the gguf Python package.
type golden struct {
	Dequantised map[string]struct{ Raw, Values string }
	Quantised   map[string]struct{ Rows, Raw string }
	Halves      string `json:"all_finite_halves_sha256"`
}

func readGolden(t *testing.T) golden {
	t.Helper()
	raw, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(raw, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

func decode(t *testing.T, s string) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var types = map[string]gmg.DType{
	"F32": gmg.F32, "F16": gmg.F16, "BF16": gmg.BF16, "Q8_0": gmg.Q8_0, "Q4_0": gmg.Q4_0, "Q4_1": gmg.Q4_1,
	"Q5_0": gmg.Q5_0, "Q5_1": gmg.Q5_1, "Q4_K": gmg.Q4_K, "Q5_K": gmg.Q5_K, "Q6_K": gmg.Q6_K,
}

func floats(b []byte) []float32 {
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}

func TestDequantizeEqualsReferenceBitForBit(t *testing.T) {
	g := readGolden(t)
	for name, dtype := range types {
		t.Run(name, func(t *testing.T) {
			raw, want := decode(t, g.Dequantised[name].Raw), floats(decode(t, g.Dequantised[name].Values))
			if len(want) == 0 {
				t.Fatal("no golden")
			}
			got := make([]float32, len(want))
			if err := Dequantize(dtype, raw, got); err != nil {
				t.Fatal(err)
			}
			for i := range want {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					t.Fatalf("element %d: got %x (%g), want %x (%g)", i, math.Float32bits(got[i]), got[i], math.Float32bits(want[i]), want[i])
				}
			}
		})
	}
}

func TestQuantizeEqualsReferenceByteForByte(t *testing.T) {
	g := readGolden(t)
	for name, q := range g.Quantised {
		t.Run(name, func(t *testing.T) {
			rows, want := floats(decode(t, q.Rows)), decode(t, q.Raw)
			got := make([]byte, len(want))
			if err := Quantize(types[name], rows, got); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("got  %x\nwant %x", got, want)
			}
		})
	}
}

func TestEveryFiniteHalf(t *testing.T) {
	h := sha256.New()
	for i := range 1 << 16 {
		if i&0x7c00 == 0x7c00 {
			continue
		}
		x := Float16(uint16(i))
		var b [4]byte
		binary.LittleEndian.PutUint32(b[:], math.Float32bits(x))
		h.Write(b[:])
		if back := ToFloat16(x); back != uint16(i) {
			t.Fatalf("half %04x came back as %04x", i, back)
		}
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != readGolden(t).Halves {
		t.Fatalf("halves differ from the reference: %s", got)
	}
}

func TestToFloat16IsNearest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := math.Float32frombits(rapid.Uint32().Draw(t, "bits"))
		if x != x {
			return
		}
		h := ToFloat16(x)
		if math.Abs(float64(x)) >= 65520 {
			if h&0x7fff != 0x7c00 {
				t.Fatalf("%g became %04x, not infinite", x, h)
			}
			return
		}
		off := math.Abs(float64(Float16(h)) - float64(x))
		for _, neighbour := range []uint16{h - 1, h + 1} {
			y := float64(Float16(neighbour))
			if neighbour&0x7c00 == 0x7c00 || math.IsNaN(y) || math.Signbit(y) != math.Signbit(float64(x)) {
				continue
			}
			if d := math.Abs(y - float64(x)); d < off || d == off && h&1 == 1 {
				t.Fatalf("%g became %04x, but %04x is as near or nearer", x, h, neighbour)
			}
		}
	})
}

func TestSizesAndTypesAreChecked(t *testing.T) {
	for name, dtype := range types {
		elements, size := dtype.BlockSize(), dtype.BlockBytes()
		if elements == 0 || size == 0 {
			t.Fatalf("%s has no block", name)
		}
		for _, wrong := range [][2]int{{size, 2 * elements}, {2 * size, elements}, {size - 1, elements}, {size + 1, elements}} {
			if err := Dequantize(dtype, make([]byte, wrong[0]), make([]float32, wrong[1])); !errors.Is(err, ErrSize) {
				t.Errorf("%s: %d bytes for %d elements: %v", name, wrong[0], wrong[1], err)
			}
		}
	}
	if err := Dequantize(gmg.DTypeInvalid, nil, nil); !errors.Is(err, ErrType) {
		t.Errorf("invalid type: %v", err)
	}
	if err := Quantize(gmg.Q6_K, make([]float32, 256), make([]byte, 210)); !errors.Is(err, ErrType) {
		t.Errorf("quantising to a type that is only read: %v", err)
	}
}
