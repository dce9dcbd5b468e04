package model

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"slicescheduler/gmg"
	"slicescheduler/model/ggufwrite"
	"slicescheduler/model/miniature"
)

func openMiniature(t testing.TB, change func(*miniature.Spec)) *Model {
	t.Helper()
	spec := miniature.Default()
	if change != nil {
		change(&spec)
	}
	data, err := miniature.Make(spec)
	if err != nil {
		t.Fatal(err)
	}
	m, err := OpenBytes("miniature", data)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func operatorNames(b *gmg.Block) []string {
	var out []string
	for _, op := range b.Operators {
		out = append(out, op.Name)
	}
	return out
}

func TestGraphOfLlama(t *testing.T) {
	g := openMiniature(t, func(s *miniature.Spec) { s.Layers = 5; s.RoPEFactors = true }).Graph
	if len(g.Blocks) != 3 || !slices.Equal(g.Stages, []uint16{0, 1, 1, 1, 1, 1, 2}) || !g.TiedHead {
		t.Fatalf("%d blocks, stages %v, tied %v", len(g.Blocks), g.Stages, g.TiedHead)
	}
	want := []string{"layernorm", "qkv_proj", "rotary_emb", "attention", "o_proj", "residual", "layernorm", "gate_up_proj", "act_fn", "down_proj", "residual"}
	if got := operatorNames(g.Block(1)); !slices.Equal(got, want) {
		t.Errorf("layer: %v", got)
	}
	if got := operatorNames(g.Block(0)); !slices.Equal(got, []string{"embedding"}) {
		t.Errorf("first stage: %v", got)
	}
	if got := operatorNames(g.Block(6)); !slices.Equal(got, []string{"final_layernorm", "lm_head", "sampler"}) {
		t.Errorf("last stage: %v", got)
	}
	rope := g.Block(1).Operators[2].Attrs
	if rope.RoPEStyle != gmg.RoPEInterleaved || rope.RoPEDims != 16 || rope.RoPEBase != 10000 || rope.RoPEScale != 1 || len(rope.RoPEFactor) != 8 {
		t.Errorf("rope: %+v", rope)
	}
	if a := g.Block(1).Operators[3].Attrs; a.Scale != 0.25 || a.Heads != 4 || a.KVHeads != 2 || a.Window != 0 {
		t.Errorf("attention: %+v", a)
	}
}

func TestGraphOfGemma3(t *testing.T) {
	g := openMiniature(t, func(s *miniature.Spec) { s.Arch = "gemma3"; s.Layers = 12 }).Graph
	if want := []uint16{0, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1, 1, 2, 3}; !slices.Equal(g.Stages, want) {
		t.Fatalf("stages %v: five local layers, then a global one, are wanted", g.Stages)
	}
	want := []string{"layernorm", "qkv_proj", "qk_norm", "rotary_emb", "attention", "o_proj", "layernorm", "residual",
		"layernorm", "gate_up_proj", "act_fn", "down_proj", "layernorm", "residual"}
	if got := operatorNames(g.Block(1)); !slices.Equal(got, want) {
		t.Errorf("layer: %v", got)
	}
	for _, c := range []struct {
		stage, window int
		base          float32
	}{{1, 32, 10000}, {6, 0, 1000000}} {
		ops := g.Block(c.stage).Operators
		if ops[3].Attrs.RoPEBase != c.base || ops[3].Attrs.RoPEStyle != gmg.RoPEHalves || ops[4].Attrs.Window != c.window {
			t.Errorf("stage %d: rope %+v, window %d", c.stage, ops[3].Attrs, ops[4].Attrs.Window)
		}
	}
	if s := g.Block(0).Operators[0].Attrs.Scale; s != 8 {
		t.Errorf("embedding scale %g, the root of 64 is wanted", s)
	}
	if act := g.Block(1).Operators[10].Attrs.Act; act != gmg.GELUTanh {
		t.Errorf("activation %d", act)
	}
}

// TestCostsAreTrue compares expressions with counts by hand for one layer: hidden 64, ffn 128, 4 heads over 2, 16 elements each.
func TestCostsAreTrue(t *testing.T) {
	m := openMiniature(t, func(s *miniature.Spec) { s.DType = gmg.F16; s.Untied = true })
	b := m.Graph.Block(1)
	tokens, sequences, context := 10.0, 2.0, 7.0
	want := map[string]struct{ flops, read, write, weights float64 }{
		"qkv_proj":  {2 * 10 * 64 * 128, 10 * 64 * 4, 10 * 128 * 4, 64 * 128 * 2},
		"attention": {4 * 10 * 7 * 64, 10*128*4 + 2*7*(2*2*16*2), 10*64*4 + 10*(2*2*16*2), 0},
		"o_proj":    {2 * 10 * 64 * 64, 10 * 64 * 4, 10 * 64 * 4, 64 * 64 * 2},
		"down_proj": {2 * 10 * 128 * 64, 10 * 128 * 4, 10 * 64 * 4, 128 * 64 * 2},
	}
	for _, op := range b.Operators {
		w, ok := want[op.Name]
		if !ok {
			continue
		}
		got := [...]float64{op.FLOPs.Eval(tokens, sequences, context), op.ReadBytes.Eval(tokens, sequences, context), op.WriteBytes.Eval(tokens, sequences, context), float64(op.WeightBytes)}
		if got != [...]float64{w.flops, w.read, w.write, w.weights} {
			t.Errorf("%s: %v, want %v", op.Name, got, w)
		}
	}
	if b.KVBytesPerToken != 2*2*16*2 {
		t.Errorf("KV bytes of a token: %d", b.KVBytesPerToken)
	}
	embedding, head := m.Graph.Block(0), m.Graph.Block(3)
	if got := embedding.Operators[0].ReadBytes.Eval(tokens, 0, 0); got != 10*64*2 {
		t.Errorf("the embedding reads %g bytes for ten tokens", got)
	}
	if got := head.Operators[1].FLOPs.Eval(1000, 2, 0); got != 2*2*64*259 {
		t.Errorf("the head takes %g operations for two rows", got)
	}
}

func TestWeightBytesAddUp(t *testing.T) {
	for _, untied := range []bool{false, true} {
		m := openMiniature(t, func(s *miniature.Spec) { s.Untied = untied })
		seen := make(map[*byte]bool)
		var sum int64
		for stage := range m.Graph.Stages {
			for _, w := range m.Graph.Block(stage).Weights {
				_, data, err := m.Weight(stage, w.Name)
				if err != nil {
					t.Fatal(err)
				}
				if !seen[&data[0]] {
					sum += int64(len(data))
				}
				seen[&data[0]] = true
			}
		}
		if got := m.Graph.WeightBytes(m.Graph.Whole()); got != sum {
			t.Errorf("untied %v: the graph counts %d bytes of weights, the file has %d", untied, got, sum)
		}
	}
}

func TestGraphIDTellsModelsApart(t *testing.T) {
	ids := map[string]string{}
	for name, change := range map[string]func(*miniature.Spec){
		"default": nil, "seed": func(s *miniature.Spec) { s.Seed = 2 }, "layers": func(s *miniature.Spec) { s.Layers = 3 },
		"type": func(s *miniature.Spec) { s.DType = gmg.Q4_0 }, "head": func(s *miniature.Spec) { s.Untied = true },
	} {
		id := openMiniature(t, change).Graph.ID
		if other, twice := ids[id]; twice {
			t.Errorf("%s and %s have the same id", name, other)
		}
		ids[id] = name
		if again := openMiniature(t, change).Graph.ID; again != id {
			t.Errorf("%s: %s, then %s", name, id, again)
		}
	}
}

func TestHeadCountsPerLayer(t *testing.T) {
	plain := openMiniature(t, nil)
	array := openMiniature(t, func(s *miniature.Spec) { s.HeadCountPerLayer = true })
	if plain.Graph.ID != array.Graph.ID {
		t.Error("head counts as an array gave another graph")
	}
}

// spoiltModel is a miniature's metadata with one change.
func spoiltModel(t *testing.T, arch string, set map[string]any) error {
	t.Helper()
	base := map[string]any{
		"general.architecture": arch, "llama.block_count": uint32(1), "llama.embedding_length": uint32(4), "llama.context_length": uint32(8),
		"llama.attention.head_count": uint32(2), "llama.feed_forward_length": uint32(8),
		"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": []string{"a"}, "tokenizer.ggml.merges": []string{},
	}
	for k, v := range set {
		base[k] = v
	}
	var b ggufwrite.Builder
	for k, v := range base {
		if v != nil {
			b.Set(k, v)
		}
	}
	b.Tensor("token_embd.weight", gmg.F32, make([]byte, 16), 4, 1)
	data, err := b.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	_, err = OpenBytes("spoilt.gguf", data)
	return err
}

func TestSpoiltMetadataIsRefused(t *testing.T) {
	for key, values := range map[string][]any{
		"llama.block_count":                      {nil, uint32(0), uint32(1 << 30), "one", float32(1), int32(-1)},
		"llama.embedding_length":                 {nil, uint32(0), uint32(1 << 31)},
		"llama.context_length":                   {nil, uint32(0)},
		"llama.attention.head_count":             {nil, uint32(0), []int32{}, []int32{0}, []uint32{1 << 31}, "two"},
		"llama.attention.head_count_kv":          {uint32(3), uint32(0)},
		"llama.feed_forward_length":              {nil, uint32(0)},
		"llama.attention.key_length":             {uint32(0), uint32(1 << 31)},
		"llama.rope.dimension_count":             {uint32(1), uint32(64)},
		"llama.attention.layer_norm_rms_epsilon": {"small", float32(-1)},
	} {
		for _, v := range values {
			err := spoiltModel(t, "llama", map[string]any{key: v})
			if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "spoilt.gguf") {
				t.Errorf("%s = %v: %v", key, v, err)
			}
		}
	}
	for key, value := range map[string]any{"llama.rope.scaling.type": "yarn", "llama.attention.value_length": uint32(1)} {
		if err := spoiltModel(t, "llama", map[string]any{key: value}); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s = %v: %v", key, value, err)
		}
	}
	if err := spoiltModel(t, "mamba", nil); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "mamba") || !strings.Contains(err.Error(), "llama") {
		t.Errorf("another architecture: %v", err)
	}
	if err := spoiltModel(t, "llama", nil); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "blk.0.attn_norm.weight") {
		t.Errorf("a missing tensor: %v", err)
	}
}
