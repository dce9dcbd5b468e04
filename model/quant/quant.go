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

// format is how a storage type is converted, one block at a time.
type format struct {
	dequantize func(src []byte, dst []float32)
	quantize   func(src []float32, dst []byte)
}

func formatOf(t gmg.DType) (format, error) {
	switch t {
	case gmg.F32:
		return format{dequantizeF32, quantizeF32}, nil
	case gmg.F16:
		return format{dequantizeF16, quantizeF16}, nil
	case gmg.BF16:
		return format{dequantizeBF16, quantizeBF16}, nil
	case gmg.Q8_0:
		return format{dequantizeQ8_0, quantizeQ8_0}, nil
	case gmg.Q4_0:
		return format{dequantizeQ4_0, quantizeQ4_0}, nil
	case gmg.Q4_1:
		return format{dequantizeQ4_1, quantizeQ4_1}, nil
	case gmg.Q5_0:
		return format{dequantizeQ5_0, nil}, nil
	case gmg.Q5_1:
		return format{dequantizeQ5_1, nil}, nil
	case gmg.Q4_K:
		return format{dequantizeQ4_K, nil}, nil
	case gmg.Q5_K:
		return format{dequantizeQ5_K, nil}, nil
	case gmg.Q6_K:
		return format{dequantizeQ6_K, nil}, nil
	}
	return format{}, fmt.Errorf("%w: %v", ErrType, t)
}

// Dequantize converts stored elements to float32. src must hold exactly len(dst) elements in whole blocks.
func Dequantize(t gmg.DType, src []byte, dst []float32) error {
	f, err := formatOf(t)
	if err != nil {
		return err
	}
	if err := check(t, len(src), len(dst)); err != nil {
		return err
	}
	elements, bytes := t.BlockSize(), t.BlockBytes()
	for len(dst) > 0 {
		f.dequantize(src[:bytes], dst[:elements])
		src, dst = src[bytes:], dst[elements:]
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
		return fmt.Errorf("%w: %v can only be read", ErrType, t)
	}
	if err := check(t, len(dst), len(src)); err != nil {
		return err
	}
	perBlock, bytes := t.BlockSize(), t.BlockBytes()
	for len(src) > 0 {
		f.quantize(src[:perBlock], dst[:bytes])
		src, dst = src[perBlock:], dst[bytes:]
	}
	return nil
}

func check(t gmg.DType, stored, elements int) error {
	if want, err := t.RowBytes(elements); err != nil || want != int64(stored) {
		return fmt.Errorf("%w: %d bytes and %d elements of %v, whose blocks hold %d elements in %d bytes", ErrSize, stored, elements, t, t.BlockSize(), t.BlockBytes())
	}
	return nil
}
