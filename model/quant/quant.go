// Package quant turns stored weights into float32 and back. The formats are those of GGUF; dequantised values are equal bit for bit to what the gguf
// Python package gives.
package quant

import (
	"errors"
	"fmt"

	"slicescheduler/gmg"
)

// Errors of conversions, wrapped with the sizes or the type at fault.
var (
	ErrSize = errors.New("buffer sizes do not match")
	ErrType = errors.New("storage type not supported")
)

// superBlock is the number of elements in a block of the K types.
const superBlock = 256

// format is how a storage type is laid out and converted, one block at a time.
type format struct {
	elements, bytes int
	dequantize      func(src []byte, dst []float32)
	quantize        func(src []float32, dst []byte)
}

func formatOf(t gmg.DType) (format, error) {
	switch t {
	case gmg.F32:
		return format{1, 4, dequantizeF32, quantizeF32}, nil
	case gmg.F16:
		return format{1, 2, dequantizeF16, quantizeF16}, nil
	case gmg.BF16:
		return format{1, 2, dequantizeBF16, quantizeBF16}, nil
	case gmg.Q8_0:
		return format{32, 34, dequantizeQ8_0, quantizeQ8_0}, nil
	case gmg.Q4_0:
		return format{32, 18, dequantizeQ4_0, quantizeQ4_0}, nil
	case gmg.Q4_1:
		return format{32, 20, dequantizeQ4_1, quantizeQ4_1}, nil
	case gmg.Q5_0:
		return format{32, 22, dequantizeQ5_0, nil}, nil
	case gmg.Q5_1:
		return format{32, 24, dequantizeQ5_1, nil}, nil
	case gmg.Q4_K:
		return format{superBlock, 144, dequantizeQ4_K, nil}, nil
	case gmg.Q5_K:
		return format{superBlock, 176, dequantizeQ5_K, nil}, nil
	case gmg.Q6_K:
		return format{superBlock, 210, dequantizeQ6_K, nil}, nil
	}
	return format{}, fmt.Errorf("%w: number %d", ErrType, t)
}

// Block returns how many elements a block of a type holds and in how many bytes; zeros for a type that is not supported.
func Block(t gmg.DType) (elements, bytes int) {
	f, err := formatOf(t)
	if err != nil {
		return 0, 0
	}
	return f.elements, f.bytes
}

// Dequantize converts stored elements to float32. src must hold exactly len(dst) elements in whole blocks.
func Dequantize(t gmg.DType, src []byte, dst []float32) error {
	f, err := formatOf(t)
	if err != nil {
		return err
	}
	if err := f.check(t, len(src), len(dst)); err != nil {
		return err
	}
	for len(dst) > 0 {
		f.dequantize(src[:f.bytes], dst[:f.elements])
		src, dst = src[f.bytes:], dst[f.elements:]
	}
	return nil
}

// Quantize converts float32 to stored elements, to F32, F16, BF16, Q8_0, Q4_0 or Q4_1. dst must hold exactly len(src) elements in whole blocks.
func Quantize(t gmg.DType, src []float32, dst []byte) error {
	f, err := formatOf(t)
	if err != nil {
		return err
	}
	if f.quantize == nil {
		return fmt.Errorf("%w: number %d can only be read", ErrType, t)
	}
	if err := f.check(t, len(dst), len(src)); err != nil {
		return err
	}
	for len(src) > 0 {
		f.quantize(src[:f.elements], dst[:f.bytes])
		src, dst = src[f.elements:], dst[f.bytes:]
	}
	return nil
}

func (f format) check(t gmg.DType, stored, elements int) error {
	if elements%f.elements != 0 || stored%f.bytes != 0 || stored/f.bytes != elements/f.elements {
		return fmt.Errorf("%w: %d bytes and %d elements of type number %d, whose blocks hold %d elements in %d bytes", ErrSize, stored, elements, t, f.elements, f.bytes)
	}
	return nil
}
