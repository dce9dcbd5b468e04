package model

import (
	"fmt"
	"strings"

	"slicescheduler/gmg"
	"slicescheduler/model/gguf"
)

// layerFunc adds the operators of one layer to its block.
type layerFunc func(b *blockBuilder, layer int)

// family describes a kind of model: prepare reads what is special to it and says how a layer is made.
type family struct {
	arch    string // general.architecture
	prepare func(h *hyper, d decoder) (layout, error)
}

// layout is what a family decides beyond its decoder's hyperparameters.
type layout struct {
	layer      layerFunc
	embedScale float32
	softCap    float32  // on logits
	extra      []string // tensors outside stages that the family reads itself
}

// families lists all that can be read; a new one is a file with its prepare function and a line here.
var families = [...]family{
	{arch: "llama", prepare: prepareLlama},
	{arch: "gemma3", prepare: prepareGemma3},
}

func familyOf(f *gguf.File) (family, error) {
	arch, ok := f.String("general.architecture")
	if !ok {
		return family{}, f.Error("general.architecture", fmt.Errorf("%w: missing, or not a string", ErrFormat))
	}
	names := make([]string, len(families))
	for i, fam := range families {
		if fam.arch == arch {
			return fam, nil
		}
		names[i] = fam.arch
	}
	return family{}, f.Error("general.architecture", fmt.Errorf("%w: architecture %q; these can be read: %s", ErrUnsupported, arch, strings.Join(names, ", ")))
}

// ropeFactors returns the per-frequency divisors of a file, nil when it has none.
func ropeFactors(f *gguf.File, ropeDims int) ([]float32, error) {
	t, ok := f.Tensor(ropeFreqsTensor)
	if !ok {
		return nil, nil
	}
	if t.Type != gguf.TypeF32 || t.Elements() != int64(ropeDims/2) {
		return nil, fmt.Errorf("%s: %w: tensor %q is %v %v, %d numbers of F32 are needed", f.Path(), ErrFormat, t.Name, t.Type, t.Dims, ropeDims/2)
	}
	return float32s(f.Data(t)), nil
}

// rope returns the RoPE attributes of a decoder for one base and scale.
func (d decoder) rope(style gmg.RoPEStyle, base, scale float32, factors []float32) gmg.Attrs {
	return gmg.Attrs{RoPEBase: base, RoPEDims: d.ropeDims, RoPEStyle: style, RoPEScale: scale, RoPEFactor: factors}
}
