package whatif

import (
	"fmt"

	"slicescheduler/gmg"
)

// Architecture describes a decoder-only transformer well enough to simulate it without its file: Llama's family, with per-head norms of q and k (Qwen3)
// and experts instead of a dense feed-forward (Qwen3-MoE) as options. Weights and KV are 16 bits wide.
type Architecture struct {
	Name              string
	Layers            int
	Hidden            int
	Heads, KVHeads    int
	HeadDim           int
	Intermediate      int // of one expert where there are experts
	Vocab             int
	ContextTokens     int
	QKNorm            bool
	TiedHead          bool
	Experts, TopK     int
	QuantBitsPerParam float64 // 0: 16
}

// Architectures that measured tables and replay scenarios name.
func Architectures() []Architecture {
	return []Architecture{
		{Name: "Llama-3.1-8B", Layers: 32, Hidden: 4096, Heads: 32, KVHeads: 8, HeadDim: 128, Intermediate: 14336, Vocab: 128256, ContextTokens: 131072},
		{Name: "Qwen3-32B", Layers: 64, Hidden: 5120, Heads: 64, KVHeads: 8, HeadDim: 128, Intermediate: 25600, Vocab: 151936, ContextTokens: 40960, QKNorm: true},
		{Name: "Qwen3-30B-A3B-Instruct-2507", Layers: 48, Hidden: 2048, Heads: 32, KVHeads: 4, HeadDim: 128, Intermediate: 768, Vocab: 151936,
			ContextTokens: 262144, QKNorm: true, Experts: 128, TopK: 8},
		{Name: "Llama-3.1-70B", Layers: 80, Hidden: 8192, Heads: 64, KVHeads: 8, HeadDim: 128, Intermediate: 28672, Vocab: 128256, ContextTokens: 131072},
		{Name: "Llama-2-7b-hf", Layers: 32, Hidden: 4096, Heads: 32, KVHeads: 32, HeadDim: 128, Intermediate: 11008, Vocab: 32000, ContextTokens: 4096},
		{Name: "Llama-2-70b-hf", Layers: 80, Hidden: 8192, Heads: 64, KVHeads: 8, HeadDim: 128, Intermediate: 28672, Vocab: 32000, ContextTokens: 4096},
		{Name: "Meta-Llama-3-8B", Layers: 32, Hidden: 4096, Heads: 32, KVHeads: 8, HeadDim: 128, Intermediate: 14336, Vocab: 128256, ContextTokens: 8192},
	}
}

// FindArchitecture returns the architecture of a model by name; an owner before a slash doesn't matter.
func FindArchitecture(name string) (Architecture, error) {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '/' {
			name = name[i+1:]
			break
		}
	}
	for _, a := range Architectures() {
		if a.Name == name {
			return a, nil
		}
	}
	return Architecture{}, fmt.Errorf("%w: unknown model %q; describe it as an Architecture", ErrSpec, name)
}

// Graph returns the operator graph, with operators named as in cost tables. tp divides the widths as tensor parallelism does.
func (a Architecture) Graph(tp int) *gmg.Graph {
	b := archBuilder{a: a, tp: max(tp, 1), bytes: 2}
	if a.QuantBitsPerParam > 0 {
		b.bytes = a.QuantBitsPerParam / 8
	}
	g := &gmg.Graph{
		ID: fmt.Sprintf("arch:%s/tp%d/%g", a.Name, b.tp, b.bytes), Name: a.Name, Family: "architecture",
		Blocks: []gmg.Block{b.embedding(), b.layer(), b.head()},
		Layers: a.Layers, Hidden: a.Hidden, Vocab: a.Vocab, ContextTokens: a.ContextTokens, TiedHead: a.TiedHead,
	}
	g.Stages = make([]uint16, a.Layers+2)
	for i := 1; i <= a.Layers; i++ {
		g.Stages[i] = 1
	}
	g.Stages[a.Layers+1] = 2
	return g
}

type archBuilder struct {
	a     Architecture
	tp    int
	bytes float64 // of one weight
}

// activationBytes is the width of activations and KV.
const activationBytes = 2

// linear is a weight operator of in x out for each token.
func (b archBuilder) linear(name string, in, out int) gmg.Operator {
	return gmg.Operator{
		Kind: gmg.OpLinear, Name: name, FLOPs: gmg.TimesT(2 * float64(in) * float64(out)),
		ReadBytes: gmg.TimesT(float64(in) * activationBytes), WriteBytes: gmg.TimesT(float64(out) * activationBytes),
		WeightBytes: int64(float64(in) * float64(out) * b.bytes),
	}
}

// pointwise reads and writes rows of a width.
func (b archBuilder) pointwise(kind gmg.OpKind, name string, in, out int) gmg.Operator {
	return gmg.Operator{Kind: kind, Name: name, FLOPs: gmg.TimesT(4 * float64(in)),
		ReadBytes: gmg.TimesT(float64(in) * activationBytes), WriteBytes: gmg.TimesT(float64(out) * activationBytes)}
}

func (b archBuilder) embedding() gmg.Block {
	op := b.pointwise(gmg.OpEmbedding, "embedding", b.a.Hidden, b.a.Hidden)
	return gmg.Block{Name: "embedding", Operators: []gmg.Operator{op}, WeightBytes: int64(float64(b.a.Vocab*b.a.Hidden/b.tp) * b.bytes)}
}

func (b archBuilder) layer() gmg.Block {
	a, tp := b.a, b.tp
	heads, kvHeads := a.Heads/tp, max(a.KVHeads/tp, 1)
	qkv, kv := (heads+2*kvHeads)*a.HeadDim, 2*kvHeads*a.HeadDim
	ops := []gmg.Operator{b.pointwise(gmg.OpNorm, "layernorm", a.Hidden, a.Hidden), b.linear("qkv_proj", a.Hidden, qkv)}
	if a.QKNorm {
		ops = append(ops, b.pointwise(gmg.OpNorm, "qk_norm", (heads+kvHeads)*a.HeadDim, (heads+kvHeads)*a.HeadDim))
	}
	ops = append(ops,
		b.pointwise(gmg.OpRoPE, "rotary_emb", (heads+kvHeads)*a.HeadDim, (heads+kvHeads)*a.HeadDim),
		gmg.Operator{
			Kind: gmg.OpAttention, Name: "attention", Attrs: gmg.Attrs{Heads: heads, KVHeads: kvHeads, HeadDim: a.HeadDim},
			FLOPs:      gmg.TimesTC(4 * float64(heads*a.HeadDim)),
			ReadBytes:  gmg.Expr{{Coef: float64(kv) * activationBytes, PowS: 1, PowC: 1}, {Coef: float64(qkv) * activationBytes, PowT: 1}},
			WriteBytes: gmg.TimesT(float64(heads*a.HeadDim+kv) * activationBytes),
		},
		b.linear("o_proj", heads*a.HeadDim, a.Hidden),
		b.pointwise(gmg.OpNorm, "layernorm", a.Hidden, a.Hidden))
	if a.Experts > 0 {
		ops = append(ops, b.experts())
	} else {
		n := a.Intermediate / tp
		ops = append(ops, b.linear("gate_up_proj", a.Hidden, 2*n), b.pointwise(gmg.OpActivation, "act_fn", 2*n, n), b.linear("down_proj", n, a.Hidden))
	}
	block := gmg.Block{Name: "layer", Operators: ops, KVBytesPerToken: int64(kv * activationBytes)}
	for _, op := range ops {
		block.WeightBytes += op.WeightBytes
	}
	return block
}

func (b archBuilder) experts() gmg.Operator {
	a := b.a
	one := 3 * float64(a.Hidden) * float64(a.Intermediate)
	return gmg.Operator{
		Kind: gmg.OpExperts, Name: "moe", Attrs: gmg.Attrs{Experts: a.Experts, TopK: a.TopK},
		FLOPs:     gmg.TimesT(2 * one * float64(a.TopK)),
		ReadBytes: gmg.TimesT(float64(a.Hidden) * activationBytes), WriteBytes: gmg.TimesT(float64(a.Hidden) * activationBytes),
		WeightBytes: int64(one*b.bytes)*int64(a.Experts) + int64(float64(a.Hidden*a.Experts)*b.bytes),
	}
}

func (b archBuilder) head() gmg.Block {
	a := b.a
	head := gmg.Operator{
		Kind: gmg.OpHead, Name: "lm_head", FLOPs: gmg.TimesS(2 * float64(a.Hidden) * float64(a.Vocab) / float64(b.tp)),
		ReadBytes: gmg.TimesS(float64(a.Hidden) * activationBytes), WriteBytes: gmg.TimesS(float64(a.Vocab) * 4),
		WeightBytes: int64(float64(a.Hidden) * float64(a.Vocab/b.tp) * b.bytes),
	}
	sample := gmg.Operator{Kind: gmg.OpSample, Name: "sampler", FLOPs: gmg.TimesS(4 * float64(a.Vocab)), ReadBytes: gmg.TimesS(4 * float64(a.Vocab)), WriteBytes: gmg.TimesS(4)}
	ops := []gmg.Operator{b.pointwise(gmg.OpNorm, "final_layernorm", a.Hidden, a.Hidden), head, sample}
	return gmg.Block{Name: "head", Operators: ops, WeightBytes: head.WeightBytes}
}
