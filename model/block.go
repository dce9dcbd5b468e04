package model

import (
	"fmt"

	"slicescheduler/gmg"
	"slicescheduler/model/gguf"
)

// Bytes of one element of an activation and of the KV cache as operators' costs count them.
const (
	activationBytes = 4
	kvElementBytes  = 2
)

// residual is the index of the residual stream among a block's tensors.
const residual = 0

// blockBuilder collects the operators of one stage. Its methods add an operator, look its weights up in the file, and return the index of the tensor that
// the operator writes. Rotation, per-head norms and residual sums work in place, as the graph's description of a block allows.
type blockBuilder struct {
	file   *gguf.File
	prefix string // of weights' names in the file
	block  gmg.Block
	used   map[string]bool // names in the file that a stage reads
	err    error
}

func newBlock(f *gguf.File, used map[string]bool, name, prefix string, hidden int) *blockBuilder {
	b := &blockBuilder{file: f, prefix: prefix, used: used}
	b.block.Name = name
	b.tensor("residual", gmg.RowToken, hidden)
	return b
}

func (b *blockBuilder) tensor(name string, rows gmg.RowKind, width int) int {
	b.block.Tensors = append(b.block.Tensors, gmg.Tensor{Name: name, Rows: rows, Width: width, DType: gmg.F32})
	return len(b.block.Tensors) - 1
}

func (b *blockBuilder) width(tensor int) int { return b.block.Tensors[tensor].Width }

// rows is the number of rows of a tensor as an expression times n.
func (b *blockBuilder) rows(tensor int, n float64) gmg.Expr {
	if b.block.Tensors[tensor].Rows == gmg.RowLogit {
		return gmg.TimesS(n)
	}
	return gmg.TimesT(n)
}

// weight finds a weight of rows x cols (cols elements when it is a vector) in the file and adds it to the block.
func (b *blockBuilder) weight(name string, rows, cols int) int {
	full := b.prefix + name
	t, ok := b.file.Tensor(full)
	switch {
	case !ok:
		b.fail("%w: tensor %q is missing", ErrFormat, full)
	case t.Dims[0] != int64(cols) || t.Rows() != int64(rows):
		b.fail("%w: tensor %q has dimensions %v, [%d %d] are needed", ErrFormat, full, t.Dims, cols, rows)
	}
	b.used[full] = true
	b.block.Weights = append(b.block.Weights, gmg.Weight{Name: name, Rows: rows, Cols: cols, DType: t.Type.DType(), Bytes: t.Bytes})
	b.block.WeightBytes += t.Bytes
	return len(b.block.Weights) - 1
}

func (b *blockBuilder) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf("%s: "+format, append([]any{b.file.Path()}, args...)...)
	}
}

// add completes an operator's bytes from its tensors and weights and appends it.
func (b *blockBuilder) add(op gmg.Operator) {
	for _, t := range op.In {
		op.ReadBytes = op.ReadBytes.Plus(b.rows(t, float64(b.width(t)*activationBytes)))
	}
	for _, t := range op.Out {
		op.WriteBytes = op.WriteBytes.Plus(b.rows(t, float64(b.width(t)*activationBytes)))
	}
	for _, w := range op.Weights {
		op.WeightBytes += b.block.Weights[w].Bytes
	}
	b.block.Operators = append(b.block.Operators, op)
}

// embed looks token rows up and scales them. A step reads one row of the table per token, not the table, so the operator counts its rows among
// ReadBytes and has no WeightBytes.
func (b *blockBuilder) embed(weight string, vocab int, scale float32) {
	w := b.weight(weight, vocab, b.width(residual))
	rowBytes := float64(b.block.Weights[w].Bytes) / float64(vocab)
	b.add(gmg.Operator{Kind: gmg.OpEmbedding, Name: "embedding", Out: []int{residual}, Weights: []int{w}, Attrs: gmg.Attrs{Scale: scale},
		FLOPs: gmg.TimesT(float64(b.width(residual))), ReadBytes: gmg.TimesT(rowBytes)})
	b.block.Operators[len(b.block.Operators)-1].WeightBytes = 0
}

// norm is RMSNorm over whole rows.
func (b *blockBuilder) norm(name string, in int, weight string, eps float32, rows gmg.RowKind) int {
	width := b.width(in)
	w := b.weight(weight, 1, width)
	out := b.tensor(name, rows, width)
	b.add(gmg.Operator{Kind: gmg.OpNorm, Name: name, In: []int{in}, Out: []int{out}, Weights: []int{w}, Attrs: gmg.Attrs{Eps: eps},
		FLOPs: b.rows(out, float64(4*width))})
	return out
}

// projection is one weight of a linear operator: its name and outputs.
type projection struct {
	weight string
	rows   int
}

// linear multiplies a row with several weights and lays their outputs side by side.
func (b *blockBuilder) linear(name string, in int, parts ...projection) int {
	op := gmg.Operator{Kind: gmg.OpLinear, Name: name, In: []int{in}}
	width := 0
	for _, p := range parts {
		op.Weights = append(op.Weights, b.weight(p.weight, p.rows, b.width(in)))
		width += p.rows
	}
	out := b.tensor(name, gmg.RowToken, width)
	op.Out = []int{out}
	op.FLOPs = gmg.TimesT(2 * float64(width) * float64(b.width(in)))
	b.add(op)
	return out
}

// attend describes the attention of one layer.
type attend struct {
	heads, kvHeads, headDim int
	rope                    gmg.Attrs // the RoPE fields
	window                  int
	scale, softCap          float32
}

func (a attend) qWidth() int  { return a.heads * a.headDim }
func (a attend) kvWidth() int { return a.kvHeads * a.headDim }

// headNorm is RMSNorm over each query head with one weight and each key head with another, in place.
func (b *blockBuilder) headNorm(qkv int, a attend, qWeight, kWeight string, eps float32) {
	w := []int{b.weight(qWeight, 1, a.headDim), b.weight(kWeight, 1, a.headDim)}
	b.add(gmg.Operator{Kind: gmg.OpNorm, Name: "qk_norm", In: []int{qkv}, Out: []int{qkv}, Weights: w,
		Attrs: gmg.Attrs{Eps: eps, Heads: a.heads, KVHeads: a.kvHeads, HeadDim: a.headDim},
		FLOPs: gmg.TimesT(4 * float64(a.qWidth()+a.kvWidth()))})
}

// rotate is RoPE on the query and key heads, in place.
func (b *blockBuilder) rotate(qkv int, a attend) {
	attrs := a.rope
	attrs.Heads, attrs.KVHeads, attrs.HeadDim = a.heads, a.kvHeads, a.headDim
	b.add(gmg.Operator{Kind: gmg.OpRoPE, Name: "rotary_emb", In: []int{qkv}, Out: []int{qkv}, Attrs: attrs,
		FLOPs: gmg.TimesT(3 * float64((a.heads+a.kvHeads)*attrs.RoPEDims))})
}

// attention appends the keys and values of a qkv row to the KV pages and attends over them. C counts the whole context; where there is a window, who
// evaluates the costs bounds C by it.
func (b *blockBuilder) attention(qkv int, a attend) int {
	out := b.tensor("attention", gmg.RowToken, a.qWidth())
	kvBytes := float64(2 * a.kvWidth() * kvElementBytes)
	b.block.KVBytesPerToken += int64(kvBytes)
	b.add(gmg.Operator{Kind: gmg.OpAttention, Name: "attention", In: []int{qkv}, Out: []int{out},
		Attrs:      gmg.Attrs{Heads: a.heads, KVHeads: a.kvHeads, HeadDim: a.headDim, Window: a.window, Scale: a.scale, SoftCap: a.softCap},
		FLOPs:      gmg.TimesTC(4 * float64(a.qWidth())),
		ReadBytes:  gmg.Expr{{Coef: kvBytes, PowS: 1, PowC: 1}},
		WriteBytes: gmg.TimesT(kvBytes)})
	return out
}

// activate is the gated activation: the first half of a row goes through act, the second is multiplied with it.
func (b *blockBuilder) activate(in int, act gmg.Activation) int {
	width := b.width(in) / 2
	out := b.tensor("act_fn", gmg.RowToken, width)
	b.add(gmg.Operator{Kind: gmg.OpActivation, Name: "act_fn", In: []int{in}, Out: []int{out}, Attrs: gmg.Attrs{Act: act},
		FLOPs: gmg.TimesT(6 * float64(width))})
	return out
}

// addTo adds a row to the residual stream, in place.
func (b *blockBuilder) addTo(in int) {
	b.add(gmg.Operator{Kind: gmg.OpResidual, Name: "residual", In: []int{residual, in}, Out: []int{residual},
		FLOPs: gmg.TimesT(float64(b.width(residual)))})
}

// head ends the graph: the final norm on the rows that ask for logits, the logits, and one token for each.
func (b *blockBuilder) head(norm, weight string, vocab int, eps, softCap float32) {
	hidden := b.width(residual)
	x := b.norm("final_layernorm", residual, norm, eps, gmg.RowLogit)
	w := b.weight(weight, vocab, hidden)
	logits := b.tensor("logits", gmg.RowLogit, vocab)
	b.add(gmg.Operator{Kind: gmg.OpHead, Name: "lm_head", In: []int{x}, Out: []int{logits}, Weights: []int{w}, Attrs: gmg.Attrs{SoftCap: softCap},
		FLOPs: gmg.TimesS(2 * float64(hidden) * float64(vocab))})
	b.add(gmg.Operator{Kind: gmg.OpSample, Name: "sampler", In: []int{logits}, FLOPs: gmg.TimesS(4 * float64(vocab))})
}
