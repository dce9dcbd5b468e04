package gguf

import (
	"fmt"

	"slicescheduler/gmg"
)

// Type is a tensor's type as numbered in GGUF files.
type Type uint32

// Tensor types that can be read.
const (
	TypeF32  Type = 0
	TypeF16  Type = 1
	TypeQ4_0 Type = 2
	TypeQ4_1 Type = 3
	TypeQ5_0 Type = 6
	TypeQ5_1 Type = 7
	TypeQ8_0 Type = 8
	TypeQ4_K Type = 12
	TypeQ5_K Type = 13
	TypeQ6_K Type = 14
	TypeBF16 Type = 30
)

// layout is how a type is stored: blocks of elements in a fixed number of bytes. dtype is DTypeInvalid for types that are only known by name.
type layout struct {
	name            string
	elements, bytes int64
	dtype           gmg.DType
}

// layouts is indexed by Type; types without a name are unknown.
var layouts = [...]layout{
	TypeF32:  {"F32", 1, 4, gmg.F32},
	TypeF16:  {"F16", 1, 2, gmg.F16},
	TypeQ4_0: {"Q4_0", 32, 18, gmg.Q4_0},
	TypeQ4_1: {"Q4_1", 32, 20, gmg.Q4_1},
	TypeQ5_0: {"Q5_0", 32, 22, gmg.Q5_0},
	TypeQ5_1: {"Q5_1", 32, 24, gmg.Q5_1},
	TypeQ8_0: {"Q8_0", 32, 34, gmg.Q8_0},
	9:        {name: "Q8_1"},
	10:       {name: "Q2_K"},
	11:       {name: "Q3_K"},
	TypeQ4_K: {"Q4_K", 256, 144, gmg.Q4_K},
	TypeQ5_K: {"Q5_K", 256, 176, gmg.Q5_K},
	TypeQ6_K: {"Q6_K", 256, 210, gmg.Q6_K},
	15:       {name: "Q8_K"},
	16:       {name: "IQ2_XXS"},
	17:       {name: "IQ2_XS"},
	18:       {name: "IQ3_XXS"},
	19:       {name: "IQ1_S"},
	20:       {name: "IQ4_NL"},
	21:       {name: "IQ3_S"},
	22:       {name: "IQ2_S"},
	23:       {name: "IQ4_XS"},
	24:       {name: "I8"},
	25:       {name: "I16"},
	26:       {name: "I32"},
	27:       {name: "I64"},
	28:       {name: "F64"},
	29:       {name: "IQ1_M"},
	TypeBF16: {"BF16", 1, 2, gmg.BF16},
	34:       {name: "TQ1_0"},
	35:       {name: "TQ2_0"},
	39:       {name: "MXFP4"},
}

func (t Type) layout() layout {
	if int64(t) < int64(len(layouts)) {
		return layouts[t]
	}
	return layout{}
}

// String returns the type's name in GGUF, or its number.
func (t Type) String() string {
	if n := t.layout().name; n != "" {
		return n
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// DType returns the graph's name for the type; gmg.DTypeInvalid when it cannot be read.
func (t Type) DType() gmg.DType { return t.layout().dtype }

// TypeOf returns the GGUF type of a storage type.
func TypeOf(d gmg.DType) (Type, bool) {
	for i, l := range layouts {
		if l.dtype == d && d != gmg.DTypeInvalid {
			return Type(i), true
		}
	}
	return 0, false
}

// RowBytes returns the bytes of a row of cols elements, or an error when a row is not a whole number of blocks.
func (t Type) RowBytes(cols int64) (int64, error) {
	l := t.layout()
	switch {
	case l.dtype == gmg.DTypeInvalid:
		return 0, fmt.Errorf("%w: tensor type %v", ErrUnsupported, t)
	case cols <= 0 || cols%l.elements != 0:
		return 0, fmt.Errorf("%w: a row of %d elements is not a whole number of %v blocks of %d", ErrFormat, cols, t, l.elements)
	case cols/l.elements > (1<<62)/l.bytes:
		return 0, fmt.Errorf("%w: a row of %d elements overflows", ErrFormat, cols)
	}
	return cols / l.elements * l.bytes, nil
}
