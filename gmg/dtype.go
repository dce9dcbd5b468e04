package gmg

import (
	"errors"
	"fmt"
)

// ErrDType is returned for unknown storage types and rows that aren't a whole number of blocks.
var ErrDType = errors.New("invalid storage type")

// dtypeInfo gives each type's name in GGUF, the elements of one block and its bytes.
var dtypeInfo = [...]struct {
	name       string
	elements   int
	blockBytes int
}{
	DTypeInvalid: {"invalid", 1, 0},
	F32:          {"F32", 1, 4},
	F16:          {"F16", 1, 2},
	BF16:         {"BF16", 1, 2},
	Q8_0:         {"Q8_0", 32, 2 + 32},
	Q4_0:         {"Q4_0", 32, 2 + 16},
	Q4_1:         {"Q4_1", 32, 4 + 16},
	Q5_0:         {"Q5_0", 32, 2 + 4 + 16},
	Q5_1:         {"Q5_1", 32, 4 + 4 + 16},
	Q4_K:         {"Q4_K", 256, 4 + 12 + 128},
	Q5_K:         {"Q5_K", 256, 4 + 12 + 32 + 128},
	Q6_K:         {"Q6_K", 256, 128 + 64 + 16 + 2},
}

// Valid says whether d is a storage type.
func (d DType) Valid() bool { return d > DTypeInvalid && int(d) < len(dtypeInfo) }

// String returns the type's name as GGUF spells it.
func (d DType) String() string {
	if int(d) >= len(dtypeInfo) {
		return fmt.Sprintf("dtype(%d)", uint8(d))
	}
	return dtypeInfo[d].name
}

// ParseDType is the inverse of String.
func ParseDType(s string) (DType, error) {
	for d := F32; d.Valid(); d++ {
		if dtypeInfo[d].name == s {
			return d, nil
		}
	}
	return DTypeInvalid, fmt.Errorf("%w: %q", ErrDType, s)
}

// MarshalText makes types travel by name, so that their numbers may change.
func (d DType) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *DType) UnmarshalText(b []byte) (err error) {
	if string(b) == dtypeInfo[DTypeInvalid].name {
		*d = DTypeInvalid
		return nil
	}
	*d, err = ParseDType(string(b))
	return err
}

// Quantised says whether elements are stored in blocks with scales.
func (d DType) Quantised() bool { return d.Valid() && d.BlockSize() > 1 }

// BlockSize returns the elements of one block, 1 for plain floats.
func (d DType) BlockSize() int {
	if !d.Valid() {
		return 1
	}
	return dtypeInfo[d].elements
}

// BlockBytes returns the bytes of one block, 0 for an invalid type.
func (d DType) BlockBytes() int {
	if !d.Valid() {
		return 0
	}
	return dtypeInfo[d].blockBytes
}

// RowBytes returns the bytes of a row of cols elements, or ErrDType if that isn't a whole number of blocks.
func (d DType) RowBytes(cols int) (int64, error) {
	if !d.Valid() || cols < 0 || cols%d.BlockSize() != 0 {
		return 0, fmt.Errorf("%w: %d columns of %v (blocks of %d)", ErrDType, cols, d, d.BlockSize())
	}
	return int64(cols/d.BlockSize()) * int64(d.BlockBytes()), nil
}
