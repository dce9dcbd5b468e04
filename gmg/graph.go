package gmg

// DType is the storage type of a tensor. Block-quantised types carry the names of the GGUF types they are read from.
type DType uint8

// Storage types. The zero value is invalid on purpose.
const (
	DTypeInvalid DType = iota
	F32
	F16
	BF16
	Q8_0
	Q4_0
	Q4_1
	Q5_0
	Q5_1
	Q4_K
	Q5_K
	Q6_K
)

// Term is Coef * T^PowT * S^PowS * C^PowC.
type Term struct {
	Coef             float64
	PowT, PowS, PowC uint8
}

// Expr is a polynomial in a step's tokens T, its sequences S and the mean context length C that a token attends to.
// It is how shapes, FLOPs and bytes are written before a step's size is known.
type Expr []Term

// Const, TimesT, TimesS and TimesTC build the expressions that transformer operators need.
func Const(v float64) Expr   { return Expr{{Coef: v}} }
func TimesT(v float64) Expr  { return Expr{{Coef: v, PowT: 1}} }
func TimesS(v float64) Expr  { return Expr{{Coef: v, PowS: 1}} }
func TimesTC(v float64) Expr { return Expr{{Coef: v, PowT: 1, PowC: 1}} }

// Plus returns the sum of two expressions.
func (e Expr) Plus(o Expr) Expr { return append(append(make(Expr, 0, len(e)+len(o)), e...), o...) }

// Eval returns the expression's value for a step of t tokens in s sequences with mean context c.
func (e Expr) Eval(t, s, c float64) float64 {
	var sum float64
	for _, m := range e {
		sum += m.Coef * power(t, m.PowT) * power(s, m.PowS) * power(c, m.PowC)
	}
	return sum
}

// power is a product, not math.Pow: forecasts evaluate expressions for every operator of every step.
func power(x float64, n uint8) float64 {
	p := 1.0
	for ; n > 0; n-- {
		p *= x
	}
	return p
}

// OpKind says what an operator computes; its exact meaning is fixed by Attrs.
type OpKind uint8

// Operator kinds.
const (
	OpInvalid    OpKind = iota
	OpEmbedding         // out[t] = weight[token[t]] * Attrs.Scale
	OpNorm              // RMSNorm over Width, or over each head when Attrs.HeadDim > 0 (qk_norm, weight per head dim)
	OpLinear            // out = in x each weight, outputs of several weights concatenated in order
	OpRoPE              // rotates the q and k parts of a qkv row
	OpAttention         // appends k, v to the KV pages, attends q over them
	OpActivation        // gate/up row of width 2n -> act(gate)*up of width n
	OpResidual          // out = in0 + in1
	OpRouter            // expert scores per token
	OpExperts           // mixture-of-experts feed-forward
	OpHead              // logits, only for the rows that ask for them
	OpSample            // one token per row of logits
)

// RoPEStyle says which elements of a head rotate together.
type RoPEStyle uint8

const (
	// RoPEInterleaved rotates (2i, 2i+1), as GGUF's llama family stores it.
	RoPEInterleaved RoPEStyle = iota
	// RoPEHalves rotates (i, i+dims/2), the NeoX form.
	RoPEHalves
)

// Activation is the function of a gated feed-forward.
type Activation uint8

const (
	// SiLU is x*sigmoid(x).
	SiLU Activation = iota
	// GELUTanh is the tanh approximation of GELU that Gemma uses.
	GELUTanh
)

// Attrs are an operator's parameters; each kind reads the ones its comment names.
type Attrs struct {
	Eps        float32    // OpNorm
	AddOne     bool       // OpNorm: weight is stored as w-1
	Scale      float32    // OpEmbedding: factor on the row; OpAttention: factor on q.k
	Heads      int        // OpRoPE, OpAttention, per-head OpNorm
	KVHeads    int        // OpRoPE, OpAttention, per-head OpNorm
	HeadDim    int        // OpRoPE, OpAttention, per-head OpNorm
	RoPEBase   float32    // OpRoPE
	RoPEDims   int        // OpRoPE: rotated elements of each head
	RoPEStyle  RoPEStyle  // OpRoPE
	RoPEScale  float32    // OpRoPE: linear position scale, 1 for none
	RoPEFactor []float32  // OpRoPE: per-frequency divisors (Llama 3.x), nil for none
	Window     int        // OpAttention: sliding window in tokens, 0 for the whole context
	SoftCap    float32    // OpAttention, OpHead: tanh soft cap, 0 for none
	Act        Activation // OpActivation
	Experts    int        // OpRouter, OpExperts
	TopK       int        // OpRouter, OpExperts: experts used per token
}

// RowKind says what one row of a tensor stands for.
type RowKind uint8

const (
	// RowToken is one row per token of the step.
	RowToken RowKind = iota
	// RowLogit is one row per row that asks for logits.
	RowLogit
)

// Tensor is an activation inside a block: Rows x Width.
type Tensor struct {
	Name  string
	Rows  RowKind
	Width int
	DType DType
}

// Shape returns the tensor's symbolic rows and its width.
func (t Tensor) Shape() (rows Expr, width int) {
	if t.Rows == RowLogit {
		return TimesS(1), t.Width
	}
	return TimesT(1), t.Width
}

// Weight is one weight matrix (Rows outputs x Cols inputs, row-major) or vector (Rows = 1). Name is the weight's name within a stage
// ("attn_q.weight"); Model.Weight of the model room finds its bytes by stage and name.
type Weight struct {
	Name       string
	Rows, Cols int
	DType      DType
	Bytes      int64
}

// Operator is a node of the graph. In and Out index Block.Tensors, Weights indexes Block.Weights. Name is the operator's name in cost tables
// (qkv_proj, attention, down_proj, ...). WeightBytes are read once per step; ReadBytes and WriteBytes are activations and KV.
type Operator struct {
	Kind        OpKind
	Name        string
	In, Out     []int
	Weights     []int
	Attrs       Attrs
	FLOPs       Expr
	ReadBytes   Expr
	WriteBytes  Expr
	WeightBytes int64
}

// Block is a list of operators in execution order that many stages of a graph share. Tensors[0] is the residual stream that enters and leaves
// the block (except that the first block of a graph only writes it and the last only reads it).
type Block struct {
	Name            string
	Tensors         []Tensor
	Weights         []Weight
	Operators       []Operator
	WeightBytes     int64
	KVBytesPerToken int64
}

// Graph is a model's operator graph. It is stored once per distinct model and shared by tenants. A stage is the unit between two points at
// which only the residual stream is live, so a graph may be cut between any two stages: stage 0 embeds, stages 1..Layers are layers, the
// last stage is the head. Layers repeat: Stages[i] indexes Blocks.
type Graph struct {
	ID            string // content hash of the model file's structure
	Name          string
	Family        string
	Blocks        []Block
	Stages        []uint16
	Layers        int
	Hidden        int // width of the residual stream
	Vocab         int
	ContextTokens int
	TiedHead      bool // the head reads the embedding's weight; a device that holds both holds it once
}

// Range is a run of stages [From, To).
type Range struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// Len returns the number of stages in the range.
func (r Range) Len() int { return r.To - r.From }

// Whole returns the range that covers the graph.
func (g *Graph) Whole() Range { return Range{0, len(g.Stages)} }

// Block returns the block of a stage.
func (g *Graph) Block(stage int) *Block { return &g.Blocks[g.Stages[stage]] }

// WeightBytes returns the bytes of all weights of the stages in r, counting a tied head's matrix once if r holds both ends.
func (g *Graph) WeightBytes(r Range) int64 {
	var n int64
	for i := r.From; i < r.To; i++ {
		n += g.Block(i).WeightBytes
	}
	if g.TiedHead && r.From == 0 && r.To == len(g.Stages) && r.Len() > 1 {
		head := g.Block(r.To - 1)
		for _, op := range head.Operators {
			if op.Kind == OpHead {
				n -= op.WeightBytes
			}
		}
	}
	return n
}

// KVBytesPerToken returns the bytes of keys and values that one token of context holds in the stages of r.
func (g *Graph) KVBytesPerToken(r Range) int64 {
	var n int64
	for i := r.From; i < r.To; i++ {
		n += g.Block(i).KVBytesPerToken
	}
	return n
}
