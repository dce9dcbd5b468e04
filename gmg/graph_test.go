package gmg

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// smallGraph is a model of one layer with every operator of the llama family.
func smallGraph() *Graph {
	const hidden, heads, kvHeads, headDim, ffn, vocab = 64, 4, 2, 16, 96, 100
	const q, qkv = heads * headDim, (heads + 2*kvHeads) * headDim
	linear := func(name string, rows, cols int) Weight {
		return Weight{Name: name, Rows: rows, Cols: cols, DType: Q8_0, Bytes: int64(rows * cols / 32 * 34)}
	}
	vector := func(name string, n int) Weight {
		return Weight{Name: name, Rows: 1, Cols: n, DType: F32, Bytes: int64(4 * n)}
	}
	tensor := func(name string, width int) Tensor { return Tensor{Name: name, Width: width, DType: F32} }
	attrs := Attrs{Heads: heads, KVHeads: kvHeads, HeadDim: headDim, RoPEDims: headDim, RoPEBase: 10000}
	embed := Block{Name: "embedding", Tensors: []Tensor{tensor("residual", hidden)}, Weights: []Weight{linear("token_embd.weight", vocab, hidden)},
		Operators: []Operator{{Kind: OpEmbedding, Name: "embedding", Out: []int{0}, Weights: []int{0}}}}
	layer := Block{Name: "layer",
		Tensors: []Tensor{tensor("residual", hidden), tensor("norm", hidden), tensor("qkv", qkv), tensor("attention", q), tensor("out", hidden),
			tensor("gate_up", 2*ffn), tensor("act", ffn)},
		Weights: []Weight{vector("norm", hidden), linear("q", q, hidden), linear("k", kvHeads*headDim, hidden), linear("v", kvHeads*headDim, hidden),
			linear("o", hidden, q), linear("gate", ffn, hidden), linear("up", ffn, hidden), linear("down", hidden, ffn)},
		Operators: []Operator{
			{Kind: OpNorm, Name: "norm", In: []int{0}, Out: []int{1}, Weights: []int{0}},
			{Kind: OpLinear, Name: "qkv_proj", In: []int{1}, Out: []int{2}, Weights: []int{1, 2, 3}},
			{Kind: OpRoPE, Name: "rope", In: []int{2}, Out: []int{2}, Attrs: attrs},
			{Kind: OpAttention, Name: "attention", In: []int{2}, Out: []int{3}, Attrs: attrs},
			{Kind: OpLinear, Name: "o_proj", In: []int{3}, Out: []int{4}, Weights: []int{4}},
			{Kind: OpResidual, Name: "add", In: []int{0, 4}, Out: []int{0}},
			{Kind: OpLinear, Name: "gate_up_proj", In: []int{1}, Out: []int{5}, Weights: []int{5, 6}},
			{Kind: OpActivation, Name: "act", In: []int{5}, Out: []int{6}},
			{Kind: OpLinear, Name: "down_proj", In: []int{6}, Out: []int{4}, Weights: []int{7}},
			{Kind: OpResidual, Name: "add", In: []int{0, 4}, Out: []int{0}},
		}, KVBytesPerToken: 2 * 2 * kvHeads * headDim}
	head := Block{Name: "head", Tensors: []Tensor{tensor("residual", hidden), {Name: "logits", Rows: RowLogit, Width: vocab, DType: F32}},
		Weights:   []Weight{linear("token_embd.weight", vocab, hidden)},
		Operators: []Operator{{Kind: OpHead, Name: "lm_head", In: []int{0}, Out: []int{1}, Weights: []int{0}, WeightBytes: vocab * hidden / 32 * 34}}}
	g := &Graph{ID: "g", Name: "small", Family: "llama", Blocks: []Block{embed, layer, head}, Stages: []uint16{0, 1, 1, 2}, Layers: 2, Hidden: hidden,
		Vocab: vocab, ContextTokens: 128, TiedHead: true}
	for i := range g.Blocks {
		for _, w := range g.Blocks[i].Weights {
			g.Blocks[i].WeightBytes += w.Bytes
		}
	}
	return g
}

func TestGraphValidate(t *testing.T) {
	if err := smallGraph().Validate(); err != nil {
		t.Fatal(err)
	}
	layer := func(g *Graph) *Block { return &g.Blocks[1] }
	for _, c := range []struct {
		breaks string
		do     func(g *Graph)
		says   string
	}{
		{"id", func(g *Graph) { g.ID = "" }, "no id"},
		{"hidden", func(g *Graph) { g.Hidden = 65 }, "residual stream of width 65"},
		{"stage", func(g *Graph) { g.Stages[1] = 7 }, "stage 1 wants block 7 of 3"},
		{"layers", func(g *Graph) { g.Layers = 3 }, "4 stages for 3 layers"},
		{"tensor index", func(g *Graph) { layer(g).Operators[0].In[0] = 70 }, "input 70 of 7"},
		{"negative index", func(g *Graph) { layer(g).Operators[0].Out[0] = -1 }, "output -1"},
		{"weight index", func(g *Graph) { layer(g).Operators[1].Weights[0] = 8 }, "weight 8 of 8"},
		{"kind", func(g *Graph) { layer(g).Operators[0].Kind = 99 }, "unknown kind"},
		{"dtype", func(g *Graph) { layer(g).Weights[1].DType = 99 }, "dtype(99)"},
		{"partial block", func(g *Graph) { layer(g).Weights[1].Cols = 63 }, "63 columns of Q8_0"},
		{"weight bytes", func(g *Graph) { layer(g).Weights[1].Bytes++ }, "64 x 64 of Q8_0 are 4352"},
		{"block bytes", func(g *Graph) { layer(g).WeightBytes-- }, "weights add up to"},
		{"twice", func(g *Graph) { layer(g).Weights[2].Name = "q" }, "weight q is there twice"},
		{"tensor type", func(g *Graph) { layer(g).Tensors[1].DType = DTypeInvalid }, "type invalid"},
		{"linear inputs", func(g *Graph) { layer(g).Operators[4].In[0] = 2 }, "weight o has 64 columns, the input is 128 wide"},
		{"linear outputs", func(g *Graph) { layer(g).Operators[1].Weights = []int{1, 2} }, "weights give 96 outputs, the output is 128 wide"},
		{"norm", func(g *Graph) { layer(g).Operators[0].Out[0] = 2 }, "output is 128 wide, wants 64"},
		{"rope", func(g *Graph) { layer(g).Operators[2].Attrs.RoPEDims = 17 }, "rotates 17 of 16"},
		{"rope factors", func(g *Graph) { layer(g).Operators[2].Attrs.RoPEFactor = make([]float32, 3) }, "3 frequency factors"},
		{"heads", func(g *Graph) { layer(g).Operators[3].Attrs.KVHeads = 3 }, "4 heads, 3 KV heads"},
		{"attention", func(g *Graph) { layer(g).Operators[3].In[0] = 1 }, "row is 64 wide, wants 128"},
		{"activation", func(g *Graph) { layer(g).Operators[7].Out[0] = 4 }, "input is 192 wide, wants 128"},
		{"residual", func(g *Graph) { layer(g).Operators[5].In[1] = 2 }, "second input is 128 wide, wants 64"},
		{"arity", func(g *Graph) { layer(g).Operators[5].In = []int{0} }, "1 inputs and 1 outputs, wants 2 and 1"},
		{"logits", func(g *Graph) { g.Vocab = 101 }, "vocabulary of 101"},
		{"embedding", func(g *Graph) { g.Blocks[0].Operators[0].Weights = nil }, "one weight of 64 columns wanted"},
	} {
		g := smallGraph()
		c.do(g)
		err := g.Validate()
		if !errors.Is(err, ErrGraph) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, wants %q", c.breaks, err, c.says)
		}
	}
}

func TestGraphBytes(t *testing.T) {
	g := smallGraph()
	parts := g.WeightBytes(Range{0, 2}) + g.WeightBytes(Range{2, 4})
	if tied := int64(100 * 64 / 32 * 34); g.WeightBytes(g.Whole()) != parts-tied {
		t.Errorf("whole %d, parts %d: the tied matrix of %d bytes must count once", g.WeightBytes(g.Whole()), parts, tied)
	}
	if got := g.KVBytesPerToken(g.Whole()); got != 2*2*2*2*16 {
		t.Errorf("%d KV bytes a token", got)
	}
}

func TestDTypes(t *testing.T) {
	for d := F32; d.Valid(); d++ {
		if back, err := ParseDType(d.String()); err != nil || back != d {
			t.Errorf("%v: %v, %v", d, back, err)
		}
		if n, err := d.RowBytes(512); err != nil || n != int64(512/d.BlockSize()*d.BlockBytes()) {
			t.Errorf("%v: row of %d bytes, %v", d, n, err)
		}
	}
	for _, c := range []struct {
		d    DType
		cols int
		want int64
	}{{F32, 3, 12}, {BF16, 3, 6}, {Q8_0, 64, 68}, {Q4_0, 64, 36}, {Q4_1, 64, 40}, {Q5_0, 64, 44}, {Q5_1, 64, 48}, {Q4_K, 256, 144}, {Q5_K, 256, 176},
		{Q6_K, 512, 420}} {
		if got, err := c.d.RowBytes(c.cols); err != nil || got != c.want {
			t.Errorf("%d of %v: %d bytes, %v; wants %d", c.cols, c.d, got, err, c.want)
		}
	}
	for _, bad := range []struct {
		d    DType
		cols int
	}{{Q8_0, 33}, {Q4_K, 128}, {DTypeInvalid, 1}, {200, 1}, {F32, -1}} {
		if n, err := bad.d.RowBytes(bad.cols); !errors.Is(err, ErrDType) {
			t.Errorf("%d of %v: %d bytes, %v", bad.cols, bad.d, n, err)
		}
	}
}

func TestLaneValidate(t *testing.T) {
	g := smallGraph()
	rapid.Check(t, func(t *rapid.T) {
		lane := Lane{ID: "t#0", Tenant: "t"}
		for from := 0; from < len(g.Stages); {
			to := rapid.IntRange(from+1, len(g.Stages)).Draw(t, "to")
			lane.Slices = append(lane.Slices, Slice{Device: "a/cpu0", Stages: Range{from, to}})
			from = to
		}
		if err := lane.Validate(g); err != nil {
			t.Fatal(err)
		}
		i := rapid.IntRange(0, len(lane.Slices)-1).Draw(t, "slice")
		end := rapid.SampledFrom([]*int{&lane.Slices[i].Stages.From, &lane.Slices[i].Stages.To}).Draw(t, "end")
		*end += rapid.SampledFrom([]int{-2, -1, 1, 2}).Draw(t, "shift")
		if err := lane.Validate(g); !errors.Is(err, ErrLane) {
			t.Fatalf("%+v: %v", lane.Slices, err)
		}
	})
	whole := Slice{Device: "d", Stages: g.Whole()}
	for name, lane := range map[string]Lane{
		"no slices":  {ID: "t#0", Tenant: "t"},
		"no device":  {ID: "t#0", Tenant: "t", Slices: []Slice{{Stages: g.Whole()}}},
		"other name": {ID: "u#0", Tenant: "t", Slices: []Slice{whole}},
		"progress":   {ID: "t#0", Tenant: "t", Slices: []Slice{{Device: "d", Stages: g.Whole(), LoadedBytes: 1}}},
	} {
		if err := lane.Validate(g); !errors.Is(err, ErrLane) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTenantSpecValidate(t *testing.T) {
	for _, name := range []string{"a", "chat-7B_v1.2", "0"} {
		if err := (TenantSpec{ID: TenantID(name), Model: "m"}).Validate(); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "-a", ".", "a#1", "a/b", "a b", "ä", "a\n", strings.Repeat("a", 129)} {
		if err := (TenantSpec{ID: TenantID(name), Model: "m"}).Validate(); !errors.Is(err, ErrTenant) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for what, s := range map[string]TenantSpec{"model": {ID: "a"}, "ttft": {ID: "a", Model: "m", TTFTMs: -1}, "queue": {ID: "a", Model: "m", MaxQueue: -1},
		"context": {ID: "a", Model: "m", MaxContext: 1 << 30}} {
		if err := s.Validate(); !errors.Is(err, ErrTenant) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
