package model

import (
	"math"

	"slicescheduler/gmg"
)

// prepareLlama describes Llama 2 and 3 and models of their shape, SmolLM2 among them (arXiv 2302.13971): pre-norm, grouped-query attention, RoPE on interleaved
// pairs, SwiGLU. Llama 3.1 and later stretch RoPE by per-frequency factors that lie in the file as a tensor.
func prepareLlama(h *hyper, d decoder) (layout, error) {
	factors, err := ropeFactors(h.file, d.ropeDims)
	if err != nil {
		return layout{}, err
	}
	rope := d.rope(gmg.RoPEInterleaved, d.ropeBase, d.ropeScale, factors)
	scale := h.float("attention.scale", 1/math.Sqrt(float64(d.headDim)))
	layer := func(b *blockBuilder, i int) {
		a := attend{heads: d.heads[i], kvHeads: d.kvHeads[i], headDim: d.headDim, rope: rope, scale: scale}

		x := b.norm("layernorm", residual, "attn_norm.weight", d.eps, gmg.RowToken)
		qkv := b.linear("qkv_proj", x, projection{"attn_q.weight", a.qWidth()}, projection{"attn_k.weight", a.kvWidth()}, projection{"attn_v.weight", a.kvWidth()})
		b.rotate(qkv, a)
		x = b.linear("o_proj", b.attention(qkv, a), projection{"attn_output.weight", d.hidden})
		b.addTo(x)

		x = b.norm("layernorm", residual, "ffn_norm.weight", d.eps, gmg.RowToken)
		x = b.linear("gate_up_proj", x, projection{"ffn_gate.weight", d.ffn[i]}, projection{"ffn_up.weight", d.ffn[i]})
		x = b.linear("down_proj", b.activate(x, gmg.SiLU), projection{"ffn_down.weight", d.hidden})
		b.addTo(x)
	}
	return layout{layer: layer, embedScale: 1, extra: []string{ropeFreqsTensor}}, h.err
}
