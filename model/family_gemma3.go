package model

import (
	"math"

	"slicescheduler/gmg"
)

// Gemma 3 constants that files do not always hold.
const (
	gemma3LocalBase = 10000
	gemma3Pattern   = 6 // five local layers, then a global one
	gemma3Layers27B = 62
)

// prepareGemma3 describes Gemma 3's text models (arXiv 2503.19786): norms before and after attention and feed-forward, norms on query and key heads, RoPE on
// halves with one base for sliding-window layers and another for global ones, GELU. Files hold norm weights with the 1 already added.
func prepareGemma3(h *hyper, d decoder) (layout, error) {
	window := h.number("attention.sliding_window", 0, maxContext)
	pattern := h.number("attention.sliding_window_pattern", gemma3Pattern, maxLayers)
	global := d.rope(gmg.RoPEHalves, h.float("rope.freq_base", 1000000), d.ropeScale, nil)
	local := d.rope(gmg.RoPEHalves, h.float("rope.freq_base_swa", gemma3LocalBase), 1, nil)
	scale := float32(1 / math.Sqrt(float64(d.headDim)))
	if d.layers == gemma3Layers27B {
		// The 27B model alone scales by its hidden width per head, which is not its head dimension; the file does not say so.
		scale = float32(1 / math.Sqrt(float64(d.hidden/d.heads[0])))
	}
	layer := func(b *blockBuilder, i int) {
		a := attend{heads: d.heads[i], kvHeads: d.kvHeads[i], headDim: d.headDim, rope: local, window: window, scale: scale}
		if i%pattern == pattern-1 {
			a.rope, a.window = global, 0
		}

		x := b.norm("layernorm", residual, "attn_norm.weight", d.eps, gmg.RowToken)
		qkv := b.linear("qkv_proj", x, projection{"attn_q.weight", a.qWidth()}, projection{"attn_k.weight", a.kvWidth()}, projection{"attn_v.weight", a.kvWidth()})
		b.headNorm(qkv, a, "attn_q_norm.weight", "attn_k_norm.weight", d.eps)
		b.rotate(qkv, a)
		x = b.linear("o_proj", b.attention(qkv, a), projection{"attn_output.weight", d.hidden})
		b.addTo(b.norm("layernorm", x, "post_attention_norm.weight", d.eps, gmg.RowToken))

		x = b.norm("layernorm", residual, "ffn_norm.weight", d.eps, gmg.RowToken)
		x = b.linear("gate_up_proj", x, projection{"ffn_gate.weight", d.ffn[i]}, projection{"ffn_up.weight", d.ffn[i]})
		x = b.linear("down_proj", b.activate(x, gmg.GELUTanh), projection{"ffn_down.weight", d.hidden})
		b.addTo(b.norm("layernorm", x, "post_ffw_norm.weight", d.eps, gmg.RowToken))
	}
	return layout{layer: layer, embedScale: float32(math.Sqrt(float64(d.hidden))), softCap: h.float("final_logit_softcapping", 0)}, h.err
}
