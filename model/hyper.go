package model

import (
	"fmt"
	"math"

	"slicescheduler/model/gguf"
)

// Limits on hyperparameters: far above any model, low enough that products of a few of them cannot overflow.
const (
	maxLayers  = 4096
	maxWidth   = 1 << 24
	maxContext = 1 << 31
)

// hyper reads hyperparameters of one architecture from a file's metadata. The first error sticks and is asked for once.
type hyper struct {
	file *gguf.File
	arch string
	err  error
}

func (h *hyper) fail(key, format string, args ...any) {
	if h.err == nil {
		h.err = h.file.Error(h.arch+"."+key, fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...)))
	}
}

// number returns the integer of a key, which must be within 1 and limit; def stands in where the key is absent, and 0 means it must be there.
func (h *hyper) number(key string, def, limit int) int {
	full := h.arch + "." + key
	if !h.file.Has(full) {
		if def == 0 {
			h.fail(key, "missing")
		}
		return max(def, 1)
	}
	n, ok := h.file.Int(full)
	if !ok || n < 1 || n > int64(limit) {
		h.fail(key, "an integer between 1 and %d is needed", limit)
		return 1
	}
	return int(n)
}

// perLayer returns a key that is one integer for all layers or an array with one for each.
func (h *hyper) perLayer(key string, layers, def, limit int) []int {
	full := h.arch + "." + key
	out := make([]int, layers)
	values, ok := h.file.Ints(full)
	switch {
	case !h.file.Has(full) && def > 0:
		values = []int64{int64(def)}
	case !ok:
		h.fail(key, "missing, or not made of integers")
		values = []int64{1}
	case len(values) != 1 && len(values) < layers:
		h.fail(key, "%d values for %d layers", len(values), layers)
		values = []int64{1}
	}
	for i := range out {
		v := values[0]
		if len(values) > 1 {
			v = values[i]
		}
		if v < 1 || v > int64(limit) {
			h.fail(key, "value %d of layer %d is not between 1 and %d", v, i, limit)
			v = 1
		}
		out[i] = int(v)
	}
	return out
}

// float returns a finite number; def stands in where the key is absent.
func (h *hyper) float(key string, def float64) float32 {
	full := h.arch + "." + key
	if !h.file.Has(full) {
		return float32(def)
	}
	x, ok := h.file.Float(full)
	if !ok || math.IsNaN(x) || math.IsInf(x, 0) {
		h.fail(key, "a finite number is needed")
	}
	return float32(x)
}

// text returns a string, empty where the key is absent.
func (h *hyper) text(key string) string {
	s, _ := h.file.String(h.arch + "." + key)
	return s
}

// decoder holds the hyperparameters that decoder-only transformers share.
type decoder struct {
	layers, hidden, context int
	heads, kvHeads, ffn     []int // per layer
	headDim, ropeDims       int
	eps, ropeBase           float32
	ropeScale               float32 // factor on positions
}

// readDecoder reads what all families need.
func readDecoder(h *hyper) (decoder, error) {
	d := decoder{
		layers:   h.number("block_count", 0, maxLayers),
		hidden:   h.number("embedding_length", 0, maxWidth),
		context:  h.number("context_length", 0, maxContext),
		eps:      h.float("attention.layer_norm_rms_epsilon", 1e-5),
		ropeBase: h.float("rope.freq_base", 10000),
	}
	d.heads = h.perLayer("attention.head_count", d.layers, 0, maxWidth)
	d.kvHeads = d.heads
	if h.file.Has(h.arch + ".attention.head_count_kv") {
		d.kvHeads = h.perLayer("attention.head_count_kv", d.layers, 0, maxWidth)
	}
	d.ffn = h.perLayer("feed_forward_length", d.layers, 0, maxWidth)
	d.headDim = h.number("attention.key_length", max(1, d.hidden/d.heads[0]), maxWidth)
	d.ropeDims = h.number("rope.dimension_count", d.headDim, maxWidth)
	d.ropeScale = readRoPEScale(h)
	if v := h.number("attention.value_length", d.headDim, maxWidth); v != d.headDim && h.err == nil {
		h.err = h.file.Error(h.arch+".attention.value_length", fmt.Errorf("%w: values of %d elements beside keys of %d", ErrUnsupported, v, d.headDim))
	}
	for i := range d.heads {
		if d.heads[i]%d.kvHeads[i] != 0 {
			h.fail("attention.head_count_kv", "%d heads in layer %d do not share %d key-value heads evenly", d.heads[i], i, d.kvHeads[i])
		}
	}
	if d.ropeDims > d.headDim || d.ropeDims%2 != 0 {
		h.fail("rope.dimension_count", "%d of a head's %d elements cannot rotate", d.ropeDims, d.headDim)
	}
	if d.eps < 0 || d.ropeBase <= 0 {
		h.fail("rope.freq_base", "epsilon %g or base %g is out of range", d.eps, d.ropeBase)
	}
	return d, h.err
}

// readRoPEScale returns the factor on positions of linear RoPE scaling, 1 for none.
func readRoPEScale(h *hyper) float32 {
	factor := h.float("rope.scaling.factor", float64(h.float("rope.scale_linear", 1)))
	switch kind := h.text("rope.scaling.type"); kind {
	case "", "linear":
		if factor == 0 {
			return 1
		}
		if factor < 0 {
			h.fail("rope.scaling.factor", "%g is negative", factor)
		}
		return 1 / factor
	case "none":
	default:
		if h.err == nil {
			h.err = h.file.Error(h.arch+".rope.scaling.type", fmt.Errorf("%w: RoPE scaling %q", ErrUnsupported, kind))
		}
	}
	return 1
}
