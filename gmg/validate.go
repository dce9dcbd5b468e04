package gmg

import (
	"errors"
	"fmt"
)

// ErrGraph is returned for a graph that contradicts itself.
var ErrGraph = errors.New("invalid graph")

// MaxBlocks is the number of distinct blocks that a stage's index can name.
const MaxBlocks = 1 << 16

// Validate checks everything about a graph that others rely on without looking: indices are in range, every stage has a block, widths fit where the
// operator's kind determines them, and weights' bytes follow from their shapes.
func (g *Graph) Validate() error {
	switch {
	case g.ID == "":
		return fmt.Errorf("%w: no id", ErrGraph)
	case g.Hidden <= 0 || g.Vocab <= 0 || g.ContextTokens <= 0:
		return fmt.Errorf("%w: %s: hidden %d, vocabulary %d, context %d must be positive", ErrGraph, g.ID, g.Hidden, g.Vocab, g.ContextTokens)
	case len(g.Blocks) == 0 || len(g.Blocks) > MaxBlocks:
		return fmt.Errorf("%w: %s: %d blocks", ErrGraph, g.ID, len(g.Blocks))
	case g.Layers < 0 || len(g.Stages) != g.Layers+2:
		return fmt.Errorf("%w: %s: %d stages for %d layers, embedding and head", ErrGraph, g.ID, len(g.Stages), g.Layers)
	}
	for i, b := range g.Stages {
		if int(b) >= len(g.Blocks) {
			return fmt.Errorf("%w: %s: stage %d wants block %d of %d", ErrGraph, g.ID, i, b, len(g.Blocks))
		}
	}
	for i := range g.Blocks {
		if err := g.validateBlock(&g.Blocks[i]); err != nil {
			return fmt.Errorf("%w: %s: block %d (%s): %w", ErrGraph, g.ID, i, g.Blocks[i].Name, err)
		}
	}
	return nil
}

func (g *Graph) validateBlock(b *Block) error {
	if len(b.Tensors) == 0 || b.Tensors[0].Width != g.Hidden || b.Tensors[0].Rows != RowToken {
		return fmt.Errorf("tensor 0 must be the residual stream of width %d", g.Hidden)
	}
	for i, t := range b.Tensors {
		if t.Width <= 0 || t.Rows > RowLogit || !t.DType.Valid() {
			return fmt.Errorf("tensor %d (%s): width %d, rows %d, type %v", i, t.Name, t.Width, t.Rows, t.DType)
		}
	}
	var weightBytes int64
	names := make(map[string]bool, len(b.Weights))
	for _, w := range b.Weights {
		if err := w.validate(); err != nil {
			return err
		}
		if names[w.Name] {
			return fmt.Errorf("weight %s is there twice", w.Name)
		}
		names[w.Name] = true
		weightBytes += w.Bytes
	}
	if b.WeightBytes != weightBytes || b.KVBytesPerToken < 0 {
		return fmt.Errorf("%d weight bytes, weights add up to %d; %d KV bytes a token", b.WeightBytes, weightBytes, b.KVBytesPerToken)
	}
	for i := range b.Operators {
		op := &b.Operators[i]
		if err := b.validateOperator(op, g.Vocab); err != nil {
			return fmt.Errorf("operator %d (%v %s): %w", i, op.Kind, op.Name, err)
		}
	}
	return nil
}

func (w *Weight) validate() error {
	if w.Name == "" || w.Rows <= 0 || w.Cols <= 0 {
		return fmt.Errorf("weight %q of %d x %d", w.Name, w.Rows, w.Cols)
	}
	row, err := w.DType.RowBytes(w.Cols)
	if err != nil {
		return fmt.Errorf("weight %s: %w", w.Name, err)
	}
	if row*int64(w.Rows) != w.Bytes {
		return fmt.Errorf("weight %s: %d bytes, %d x %d of %v are %d", w.Name, w.Bytes, w.Rows, w.Cols, w.DType, row*int64(w.Rows))
	}
	return nil
}

func (b *Block) validateOperator(op *Operator, vocab int) error {
	if op.Kind == OpInvalid || int(op.Kind) >= len(opKindNames) {
		return errors.New("unknown kind")
	}
	for _, list := range [...]struct {
		what    string
		indices []int
		n       int
	}{{"input", op.In, len(b.Tensors)}, {"output", op.Out, len(b.Tensors)}, {"weight", op.Weights, len(b.Weights)}} {
		for _, i := range list.indices {
			if i < 0 || i >= list.n {
				return fmt.Errorf("%s %d of %d", list.what, i, list.n)
			}
		}
	}
	if op.WeightBytes < 0 {
		return fmt.Errorf("%d weight bytes", op.WeightBytes)
	}
	for _, e := range [...]Expr{op.FLOPs, op.ReadBytes, op.WriteBytes} {
		for _, m := range e {
			if err := finite("factor of a cost", m.Coef); err != nil {
				return err
			}
		}
	}
	if in, out, ok := arity(op.Kind); ok && (len(op.In) != in || len(op.Out) != out) {
		return fmt.Errorf("%d inputs and %d outputs, wants %d and %d", len(op.In), len(op.Out), in, out)
	}
	if err := op.Attrs.validate(op.Kind); err != nil {
		return err
	}
	return b.validateWidths(op, vocab)
}

// arity returns the inputs and outputs of kinds that have a fixed number of them.
func arity(k OpKind) (in, out int, fixed bool) {
	switch k {
	case OpEmbedding:
		return 0, 1, true
	case OpResidual:
		return 2, 1, true
	case OpNorm, OpLinear, OpRoPE, OpAttention, OpActivation, OpRouter, OpHead:
		return 1, 1, true
	}
	return 0, 0, false
}

func (a *Attrs) validate(k OpKind) error {
	for _, v := range append([]float32{a.Eps, a.Scale, a.RoPEBase, a.RoPEScale, a.SoftCap}, a.RoPEFactor...) {
		if err := finite("attribute", float64(v)); err != nil {
			return err
		}
	}
	heads := k == OpRoPE || k == OpAttention || k == OpNorm && a.HeadDim > 0
	switch {
	case heads && (a.Heads <= 0 || a.KVHeads <= 0 || a.HeadDim <= 0 || a.Heads%a.KVHeads != 0):
		return fmt.Errorf("%d heads, %d KV heads of %d elements", a.Heads, a.KVHeads, a.HeadDim)
	case k == OpRoPE && (a.RoPEDims <= 0 || a.RoPEDims > a.HeadDim || a.RoPEDims%2 != 0):
		return fmt.Errorf("rotates %d of %d elements", a.RoPEDims, a.HeadDim)
	case k == OpRoPE && a.RoPEFactor != nil && len(a.RoPEFactor) != a.RoPEDims/2:
		return fmt.Errorf("%d frequency factors for %d rotated elements", len(a.RoPEFactor), a.RoPEDims)
	case k == OpAttention && a.Window < 0:
		return fmt.Errorf("window of %d tokens", a.Window)
	case (k == OpRouter || k == OpExperts) && (a.TopK <= 0 || a.TopK > a.Experts):
		return fmt.Errorf("%d of %d experts", a.TopK, a.Experts)
	}
	return nil
}

// validateWidths checks the widths that an operator's kind determines. Inputs, outputs and weights are in range and of the right number.
func (b *Block) validateWidths(op *Operator, vocab int) error {
	in := func(i int) int { return b.Tensors[op.In[i]].Width }
	out := func(i int) int { return b.Tensors[op.Out[i]].Width }
	a := &op.Attrs
	qkv := (a.Heads + 2*a.KVHeads) * a.HeadDim
	switch op.Kind {
	case OpEmbedding:
		if len(op.Weights) != 1 || b.Weights[op.Weights[0]].Cols != out(0) {
			return fmt.Errorf("one weight of %d columns wanted", out(0))
		}
	case OpNorm:
		return b.validateNorm(op, in(0), out(0))
	case OpLinear:
		return b.validateLinear(op, in(0), out(0))
	case OpRoPE:
		return sameWidths("row", in(0), qkv, "output", out(0), qkv)
	case OpAttention:
		return sameWidths("row", in(0), qkv, "output", out(0), a.Heads*a.HeadDim)
	case OpActivation:
		return sameWidths("input", in(0), 2*out(0), "output", out(0), out(0))
	case OpResidual:
		return sameWidths("first input", in(0), out(0), "second input", in(1), out(0))
	case OpRouter:
		return sameWidths("scores", out(0), a.Experts, "scores", out(0), a.Experts)
	case OpHead:
		if b.Tensors[op.Out[0]].Rows != RowLogit || out(0) != vocab {
			return fmt.Errorf("logits of width %d, vocabulary of %d", out(0), vocab)
		}
		return b.validateLinear(op, in(0), out(0))
	}
	return nil
}

func (b *Block) validateNorm(op *Operator, in, out int) error {
	want := in
	if op.Attrs.HeadDim > 0 {
		want = op.Attrs.HeadDim
	}
	for _, i := range op.Weights {
		if w := b.Weights[i]; w.Rows*w.Cols != want {
			return fmt.Errorf("weight %s has %d elements, wants %d", w.Name, w.Rows*w.Cols, want)
		}
	}
	return sameWidths("output", out, in, "output", out, in)
}

// validateLinear checks that weights read the input's width and that their outputs fill the output's. Vectors that don't are biases.
func (b *Block) validateLinear(op *Operator, in, out int) error {
	rows := 0
	for _, i := range op.Weights {
		w := b.Weights[i]
		if w.Rows == 1 && w.Cols != in {
			continue
		}
		if w.Cols != in {
			return fmt.Errorf("weight %s has %d columns, the input is %d wide", w.Name, w.Cols, in)
		}
		rows += w.Rows
	}
	if rows != out {
		return fmt.Errorf("weights give %d outputs, the output is %d wide", rows, out)
	}
	return nil
}

func sameWidths(nameA string, gotA, wantA int, nameB string, gotB, wantB int) error {
	if gotA != wantA {
		return fmt.Errorf("%s is %d wide, wants %d", nameA, gotA, wantA)
	}
	if gotB != wantB {
		return fmt.Errorf("%s is %d wide, wants %d", nameB, gotB, wantB)
	}
	return nil
}
