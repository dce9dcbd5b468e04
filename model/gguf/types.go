package gguf

import (
	"fmt"
	"math"

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

// known is a type's name and its storage type, which is DTypeInvalid for types that are only known by name.
type known struct {
	name  string
	dtype gmg.DType
}

// knownTypes is indexed by Type; types without a name are unknown.
var knownTypes = [...]known{
	TypeF32:  {"F32", gmg.F32},
	TypeF16:  {"F16", gmg.F16},
	TypeQ4_0: {"Q4_0", gmg.Q4_0},
	TypeQ4_1: {"Q4_1", gmg.Q4_1},
	TypeQ5_0: {"Q5_0", gmg.Q5_0},
	TypeQ5_1: {"Q5_1", gmg.Q5_1},
	TypeQ8_0: {"Q8_0", gmg.Q8_0},
	9:        {name: "Q8_1"},
	10:       {name: "Q2_K"},
	11:       {name: "Q3_K"},
	TypeQ4_K: {"Q4_K", gmg.Q4_K},
	TypeQ5_K: {"Q5_K", gmg.Q5_K},
	TypeQ6_K: {"Q6_K", gmg.Q6_K},
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
	TypeBF16: {"BF16", gmg.BF16},
	34:       {name: "TQ1_0"},
	35:       {name: "TQ2_0"},
	39:       {name: "MXFP4"},
}

func (t Type) known() known {
	if int64(t) < int64(len(knownTypes)) {
		return knownTypes[t]
	}
	return known{}
}

// String returns the type's name in GGUF, or its number.
func (t Type) String() string {
	if n := t.known().name; n != "" {
		return n
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// DType returns the graph's name for the type; gmg.DTypeInvalid when it cannot be read.
func (t Type) DType() gmg.DType { return t.known().dtype }

// TypeOf returns the GGUF type of a storage type.
func TypeOf(d gmg.DType) (Type, bool) {
	for i, l := range knownTypes {
		if l.dtype == d && d != gmg.DTypeInvalid {
			return Type(i), true
		}
	}
	return 0, false
}

// RowBytes returns the bytes of a row of cols elements, or an error when a row is not a whole number of blocks.
func (t Type) RowBytes(cols int64) (int64, error) {
	d := t.DType()
	elements, bytes := int64(d.BlockSize()), int64(d.BlockBytes())
	switch {
	case !d.Valid():
		return 0, fmt.Errorf("%w: tensors of %v; take a file in another format, Q8_0 or Q4_K_M for instance", ErrUnsupported, t)
	case cols <= 0 || cols%elements != 0:
		return 0, fmt.Errorf("%w: a row of %d elements is not a whole number of %v blocks of %d", ErrFormat, cols, t, elements)
	case cols/elements > math.MaxInt64/bytes:
		return 0, fmt.Errorf("%w: a row of %d elements overflows", ErrFormat, cols)
	}
	return cols / elements * bytes, nil
}
