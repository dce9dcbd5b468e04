package whatif

import (
	"fmt"

	"slicescheduler/gmg"
)

// Program is a run of a graph's stages compiled against one device's costs. It is immutable and shared by all lanes of the same kind.
type Program struct {
	blocks      []programBlock
	layers      int
	sequence    []opRef // every operator in order
	hiddenBytes int     // of one row of the residual stream
	weightBytes int64
	kvPerToken  int64
}

// programBlock is one distinct block, whose operators' times are computed once a step.
type programBlock struct {
	costs  []Cost
	kinds  []gmg.OpKind // OpInvalid: a collective
	shared []bool       // the same on all ranks: experts and collectives
	grows  []int        // operators whose time changes when only contexts grow
	first  int          // index of its first operator among all distinct ones
	repeat int64
	// Of one row: what goes into attention (q, k and v) and what comes out; both 0 in a block without attention.
	qkvBytes, attendedBytes int64
}

// opRef names a distinct operator.
type opRef uint16

// CostSource says what an operator takes on a device.
type CostSource func(op *gmg.Operator) (Cost, error)

// Parallelism says how one rank of a lane is spread. The zero value is a single device.
type Parallelism struct {
	Tensor Collective // all-reduce after o_proj and down_proj (or the experts)
	Expert Collective // gather before and scatter after the experts, over the ranks of the lane
}

// Compile resolves the costs of all operators of the stages in r.
func Compile(g *gmg.Graph, r gmg.Range, source CostSource, par Parallelism) (*Program, error) {
	if r.From < 0 || r.To > len(g.Stages) || r.Len() < 1 {
		return nil, fmt.Errorf("%w: stages %d to %d of %d", ErrSpec, r.From, r.To, len(g.Stages))
	}
	p := &Program{hiddenBytes: g.Hidden * activationBytes, weightBytes: g.WeightBytes(r), kvPerToken: g.KVBytesPerToken(r)}
	blockOf := map[uint16]int{}
	distinct := 0
	for i := r.From; i < r.To; i++ {
		id := g.Stages[i]
		at, ok := blockOf[id]
		if !ok {
			b, err := compileBlock(&g.Blocks[id], g, source, par)
			if err != nil {
				return nil, err
			}
			at = len(p.blocks)
			blockOf[id] = at
			b.first = distinct
			distinct += len(b.costs)
			p.blocks = append(p.blocks, b)
		}
		b := &p.blocks[at]
		b.repeat++
		if i > 0 && i < len(g.Stages)-1 {
			p.layers++
		}
		for k := range b.costs {
			p.sequence = append(p.sequence, opRef(b.first+k))
		}
	}
	return p, nil
}

func compileBlock(b *gmg.Block, g *gmg.Graph, source CostSource, par Parallelism) (programBlock, error) {
	var out programBlock
	add := func(c Cost, kind gmg.OpKind, shared bool) {
		if rows, ok := c.(rowsOnly); !ok || !rows.onlyRows() {
			out.grows = append(out.grows, len(out.costs))
		}
		out.costs, out.kinds, out.shared = append(out.costs, c), append(out.kinds, kind), append(out.shared, shared)
	}
	row := float64(g.Hidden * activationBytes)
	for i := range b.Operators {
		op := &b.Operators[i]
		c, err := source(op)
		if err != nil {
			return out, fmt.Errorf("operator %s: %w", op.Name, err)
		}
		experts := op.Kind == gmg.OpExperts
		if experts && par.Expert.Members > 1 {
			add(collectiveCost{par.Expert, row + float64(op.Attrs.Experts*activationBytes), 1, true}, gmg.OpInvalid, true)
		}
		add(c, op.Kind, experts)
		if op.Kind == gmg.OpAttention {
			out.attendedBytes = int64(op.Attrs.Heads * op.Attrs.HeadDim * activationBytes)
			out.qkvBytes = out.attendedBytes + int64(2*op.Attrs.KVHeads*op.Attrs.HeadDim*activationBytes)
		}
		if experts && par.Expert.Members > 1 {
			add(collectiveCost{par.Expert, row, 1, true}, gmg.OpInvalid, true)
		}
		if par.Tensor.Members > 1 && (experts || op.Name == "o_proj" || op.Name == "down_proj") {
			add(collectiveCost{par.Tensor, row, 2, false}, gmg.OpInvalid, false)
		}
	}
	return out, nil
}

// distinct is the number of distinct operators.
func (p *Program) distinct() int {
	last := &p.blocks[len(p.blocks)-1]
	return last.first + len(last.costs)
}

// Operators returns how many operators one run executes.
func (p *Program) Operators() int { return len(p.sequence) }

// WeightBytes returns the bytes of the weights that the run needs on its device.
func (p *Program) WeightBytes() int64 { return p.weightBytes }

// KVBytesPerToken returns the bytes of KV that a token of context holds on its device.
func (p *Program) KVBytesPerToken() int64 { return p.kvPerToken }

// times fills ns with the time of each distinct operator and returns the sum over the whole sequence. Ranks run in step: between two exchanges a block
// takes as long as on the slowest of them.
func (p *Program) times(shapes []Shape, ns []int64) int64 {
	var total int64
	for i := range p.blocks {
		b := &p.blocks[i]
		rank := 0
		if len(shapes) > 1 {
			rank = b.slowest(shapes)
		}
		var sum int64
		for k, c := range b.costs {
			t := c.Ns(&shapes[rank])
			if b.shared[k] {
				for r := range shapes {
					t = max(t, c.Ns(&shapes[r]))
				}
			}
			ns[b.first+k] = t
			sum += t
		}
		total += b.repeat * sum
	}
	return total
}

// rowsOnly is implemented by costs that may depend on nothing but numbers of rows.
type rowsOnly interface{ onlyRows() bool }

func (tokensCost) onlyRows() bool     { return true }
func (logitsCost) onlyRows() bool     { return true }
func (*expertsCost) onlyRows() bool   { return true }
func (collectiveCost) onlyRows() bool { return true }

func (r *rooflineCost) onlyRows() bool {
	for _, p := range [2]polynomial{r.flops, r.bytes} {
		for i := range p {
			if p[i].PowC > 0 {
				return false
			}
		}
	}
	return true
}

// again is times for shapes that differ from those of the last call by their contexts only, of which `total` was the result.
func (p *Program) again(shapes []Shape, ns []int64, total int64) int64 {
	if len(shapes) > 1 {
		return p.times(shapes, ns) // another rank may be the slowest now
	}
	for i := range p.blocks {
		b := &p.blocks[i]
		for _, k := range b.grows {
			t := b.costs[k].Ns(&shapes[0])
			total += b.repeat * (t - ns[b.first+k])
			ns[b.first+k] = t
		}
	}
	return total
}

// slowest is the rank whose own operators, those that don't involve others, take longest.
func (b *programBlock) slowest(shapes []Shape) int {
	best, at := int64(-1), 0
	for r := range shapes {
		var sum int64
		for k, c := range b.costs {
			if !b.shared[k] {
				sum += c.Ns(&shapes[r])
			}
		}
		if sum > best {
			best, at = sum, r
		}
	}
	return at
}
