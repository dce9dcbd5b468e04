package cpu

import (
	"reflect"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker/cpu/kernels"
)

const (
	floatBytes = 4
	alignment  = 64 // of every piece of the workspace, in bytes
	nowhere    = -1
)

// layout says where in a program's workspace everything lies, as offsets in bytes. Blocks run one after the other, so they share the same memory; the residual
// stream and the RoPE tables live through the whole step.
type layout struct {
	bytes    int64
	residual int64
	ropes    []ropeTable
	blocks   map[uint16]*blockLayout
}

// ropeTable is the cosines and sines of a step's positions for one kind of rotation: [rows][RoPEDims].
type ropeTable struct {
	attrs gmg.Attrs // only the fields that the table depends on
	at    int64
}

// blockLayout gives the place of each tensor of a block and of its quantised form, nowhere for those that have none.
type blockLayout struct {
	tensor, quant []int64
}

func newLayout(g *gmg.Graph, r gmg.Range, maxRows, maxLogits int) *layout {
	l := &layout{blocks: make(map[uint16]*blockLayout)}
	l.residual = l.take(&l.bytes, int64(maxRows)*int64(g.Hidden)*floatBytes)
	for stage := r.From; stage < r.To; stage++ {
		for _, op := range g.Block(stage).Operators {
			if op.Kind == gmg.OpRoPE && l.rope(&op.Attrs) < 0 {
				at := l.take(&l.bytes, int64(maxRows)*int64(op.Attrs.RoPEDims)*floatBytes)
				l.ropes = append(l.ropes, ropeTable{ropeKey(&op.Attrs), at})
			}
		}
	}
	shared, most := l.bytes, l.bytes
	for stage := r.From; stage < r.To; stage++ {
		if l.blocks[g.Stages[stage]] != nil {
			continue
		}
		end := shared
		l.blocks[g.Stages[stage]] = l.block(g.Block(stage), &end, maxRows, maxLogits)
		most = max(most, end)
	}
	l.bytes = most
	return l
}

// take reserves aligned bytes at an end that grows.
func (l *layout) take(end *int64, bytes int64) int64 {
	at := *end
	*end += (bytes + alignment - 1) / alignment * alignment
	return at
}

func (l *layout) block(b *gmg.Block, end *int64, maxRows, maxLogits int) *blockLayout {
	out := &blockLayout{tensor: make([]int64, len(b.Tensors)), quant: make([]int64, len(b.Tensors))}
	quantised := quantisedInputs(b)
	for i, t := range b.Tensors {
		rows := maxRows
		if t.Rows == gmg.RowLogit {
			rows = maxLogits
		}
		out.tensor[i], out.quant[i] = nowhere, nowhere
		if i == residual {
			out.tensor[i] = l.residual
		} else if !isLogits(b, i) {
			out.tensor[i] = l.take(end, int64(rows)*int64(t.Width)*floatBytes)
		}
		if quantised[i] {
			out.quant[i] = l.take(end, kernels.QuantBytes(rows, t.Width))
		}
	}
	return out
}

// residual is the index of the residual stream among a block's tensors.
const residual = 0

// isLogits says whether a tensor is a block's logits, which lie in a buffer of their own.
func isLogits(b *gmg.Block, tensor int) bool {
	for _, op := range b.Operators {
		if op.Kind == gmg.OpHead && op.Out[0] == tensor {
			return true
		}
	}
	return false
}

// quantisedInputs says which tensors of a block are multiplied with a quantised matrix.
func quantisedInputs(b *gmg.Block) []bool {
	out := make([]bool, len(b.Tensors))
	for _, op := range b.Operators {
		if op.Kind != gmg.OpLinear && op.Kind != gmg.OpHead {
			continue
		}
		for _, w := range op.Weights {
			if b.Weights[w].DType.Quantised() {
				out[op.In[0]] = true
			}
		}
	}
	return out
}

// ropeKey keeps of an operator's attributes what its table depends on.
func ropeKey(a *gmg.Attrs) gmg.Attrs {
	return gmg.Attrs{RoPEBase: a.RoPEBase, RoPEDims: a.RoPEDims, RoPEScale: a.RoPEScale, RoPEFactor: a.RoPEFactor}
}

// rope returns the index of the table for a rotation, -1 when there is none yet.
func (l *layout) rope(a *gmg.Attrs) int {
	for i, t := range l.ropes {
		if reflect.DeepEqual(t.attrs, ropeKey(a)) {
			return i
		}
	}
	return nowhere
}
