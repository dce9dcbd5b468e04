package cpu

import (
	"fmt"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
	"slicescheduler/gpuworker/cpu/kernels"
	"slicescheduler/gpuworker/hostmem"
)

// compiler turns the operators of a run of stages into a list of bound calls.
type compiler struct {
	device    *Device
	spec      gpuworker.ProgramSpec
	layout    *layout
	kv        *hostmem.Buffer
	workspace []byte
	residual  rowsOf
	logits    rowsOf
	program   *program
	stage     int
	block     *gmg.Block
	kvOffset  int64        // of the next layer in a KV page
	quantised map[int]bool // tensors of the block whose quantised form is made
}

func (d *Device) compile(spec gpuworker.ProgramSpec) (*program, error) {
	c := &compiler{device: d, spec: spec, program: &program{device: d}}
	c.program.limits = gpuworker.SliceConfig{Graph: spec.Graph, Stages: spec.Stages, KVBlocks: spec.KVBlocks, MaxRows: spec.MaxRows, MaxLogits: spec.MaxLogits}
	if err := c.program.limits.Validate(); err != nil {
		return nil, err
	}
	c.layout = newLayout(spec.Graph, spec.Stages, spec.MaxRows, spec.MaxLogits)
	in, err := c.bind()
	if err != nil {
		return nil, err
	}
	s := &c.program.state
	s.kernels, s.cores = d.kernels, make([]coreState, d.config.Cores)
	s.sequence, s.position = make([]int32, spec.MaxRows), make([]int32, spec.MaxRows)
	if in.data != nil {
		c.addRow(false, &copyOp{c.residual, in})
	}
	for i := range c.layout.ropes {
		c.addRow(false, &ropeTableOp{c.ropeRows(i), c.layout.ropes[i].attrs})
	}
	for c.stage = spec.Stages.From; c.stage < spec.Stages.To; c.stage++ {
		if err := c.compileStage(); err != nil {
			return nil, err
		}
	}
	return c.program, nil
}

// bind checks the buffers of a spec and finds the memory that the calls work on. It returns the rows of an earlier slice, if there is one.
func (c *compiler) bind() (in rowsOf, err error) {
	g, spec := c.spec.Graph, &c.spec
	last := spec.Stages.To == len(g.Stages)
	hidden := int64(spec.MaxRows) * int64(g.Hidden) * floatBytes
	workspace, err := c.device.Held(spec.Workspace, c.layout.bytes)
	if err != nil {
		return in, fmt.Errorf("workspace: %w", err)
	}
	c.program.workspace, c.workspace = workspace, workspace.Host()
	c.residual = rowsOf{floatsAt(c.workspace, c.layout.residual, hidden), g.Hidden}
	if bytes := int64(spec.KVBlocks) * c.device.KVBlockBytes(g, spec.Stages); bytes > 0 {
		if c.kv, err = c.device.Held(spec.KV, bytes); err != nil {
			return in, fmt.Errorf("KV: %w", err)
		}
	}
	if spec.Stages.From > 0 {
		if in, err = c.hostRows(spec.In, hidden, g.Hidden); err != nil {
			return in, fmt.Errorf("input: %w", err)
		}
	}
	if !last {
		// The residual stream lives in the output from the first operator on, which saves a copy.
		if c.residual, err = c.hostRows(spec.Out, hidden, g.Hidden); err != nil {
			return in, fmt.Errorf("output: %w", err)
		}
	} else if c.logits, err = c.hostRows(spec.Logits, int64(spec.MaxLogits)*int64(g.Vocab)*floatBytes, g.Vocab); err != nil {
		return in, fmt.Errorf("logits: %w", err)
	}
	return in, nil
}

func (c *compiler) hostRows(b gpuworker.Buffer, bytes int64, width int) (rowsOf, error) {
	own, err := c.device.Held(b, bytes)
	if err != nil {
		return rowsOf{}, err
	}
	return rowsOf{floatsAt(own.Host(), 0, bytes), width}, nil
}

func (c *compiler) ropeRows(i int) rowsOf {
	t := &c.layout.ropes[i]
	return rowsOf{floatsAt(c.workspace, t.at, int64(c.spec.MaxRows)*int64(t.attrs.RoPEDims)*floatBytes), t.attrs.RoPEDims}
}

// addRow appends a row operator, to the last call if that is one of the same rows.
func (c *compiler) addRow(logits bool, op rowOp) {
	calls := c.program.calls
	if len(calls) > 0 {
		if last, ok := calls[len(calls)-1].(*rowCall); ok && last.logits == logits {
			last.ops = append(last.ops, op)
			return
		}
	}
	c.program.calls = append(calls, &rowCall{logits: logits, ops: []rowOp{op}})
}

func (c *compiler) add(call call) { c.program.calls = append(c.program.calls, call) }

// rows returns a tensor of the block.
func (c *compiler) rows(tensor int) rowsOf {
	t := c.block.Tensors[tensor]
	at := c.layout.blocks[c.spec.Graph.Stages[c.stage]].tensor[tensor]
	switch {
	case tensor == residual:
		return c.residual
	case at == nowhere:
		return c.logits
	}
	return rowsOf{floatsAt(c.workspace, at, int64(c.maxRows(tensor))*int64(t.Width)*floatBytes), t.Width}
}

func (c *compiler) isLogit(tensor int) bool { return c.block.Tensors[tensor].Rows == gmg.RowLogit }

func (c *compiler) maxRows(tensor int) int {
	if c.isLogit(tensor) {
		return c.spec.MaxLogits
	}
	return c.spec.MaxRows
}

// weight returns a loaded weight of the stage.
func (c *compiler) weight(index int) (*weight, error) {
	w := &c.block.Weights[index]
	b, err := c.device.Held(c.spec.Weights[gpuworker.WeightKey{Stage: c.stage, Name: w.Name}], c.device.WeightBytes(*w))
	if err != nil {
		return nil, fmt.Errorf("weight %s of stage %d: %w", w.Name, c.stage, err)
	}
	loaded, ok := b.Payload.(*weight)
	if !ok || w.Rows > 1 && (loaded.matrix.Rows != w.Rows || loaded.matrix.Cols != w.Cols) || w.Rows == 1 && len(loaded.vector) != w.Cols {
		return nil, fmt.Errorf("weight %s of stage %d is another one: %w", w.Name, c.stage, gpuworker.ErrBadBuffer)
	}
	return loaded, nil
}

func (c *compiler) compileStage() error {
	c.block = c.spec.Graph.Block(c.stage)
	c.quantised = make(map[int]bool)
	for i := range c.block.Operators {
		op := &c.block.Operators[i]
		if err := c.compileOperator(op); err != nil {
			return fmt.Errorf("operator %s (%v): %w", op.Name, op.Kind, err)
		}
		for _, t := range op.Out {
			delete(c.quantised, t)
		}
	}
	return nil
}

func (c *compiler) compileOperator(op *gmg.Operator) error {
	switch op.Kind {
	case gmg.OpEmbedding:
		w, err := c.weight(op.Weights[0])
		if err != nil {
			return err
		}
		c.addRow(false, &embedOp{c.rows(op.Out[0]), &w.matrix, op.Attrs.Scale})
	case gmg.OpNorm:
		return c.norm(op)
	case gmg.OpLinear, gmg.OpHead:
		return c.linear(op)
	case gmg.OpRoPE:
		a := &op.Attrs
		c.addRow(false, &ropeOp{c.rows(op.In[0]), c.ropeRows(c.layout.rope(a)), (a.Heads + a.KVHeads) * a.HeadDim, a.HeadDim, a.RoPEDims, a.RoPEStyle})
	case gmg.OpAttention:
		return c.attention(op)
	case gmg.OpActivation:
		c.addRow(false, &activateOp{c.rows(op.Out[0]), c.rows(op.In[0]), op.Attrs.Act})
	case gmg.OpResidual:
		c.addRow(false, &addOp{c.rows(op.Out[0]), c.rows(op.In[0]), c.rows(op.In[1])})
	case gmg.OpSample: // the host samples
	default:
		return gpuworker.ErrNotSupported
	}
	return nil
}

func (c *compiler) norm(op *gmg.Operator) error {
	var weights [2][]float32
	if len(op.Weights) < 1 || len(op.Weights) > len(weights) {
		return fmt.Errorf("%d weights: %w", len(op.Weights), gpuworker.ErrNotSupported)
	}
	for i, index := range op.Weights {
		w, err := c.weight(index)
		if err != nil {
			return err
		}
		weights[i] = w.vector
	}
	a, in, out := &op.Attrs, op.In[0], op.Out[0]
	switch {
	case a.HeadDim == 0:
		c.addRow(c.isLogit(out), &normOp{c.rows(out), c.rows(in), weights[0], a.Eps, a.AddOne, c.isLogit(out) && !c.isLogit(in)})
	case len(op.Weights) == 2 && in == out:
		c.addRow(false, &headNormOp{c.rows(in), a.Heads * a.HeadDim, a.KVHeads * a.HeadDim, weights[0], weights[1], a.Eps, a.AddOne})
	default:
		return fmt.Errorf("norm per head with %d weights: %w", len(op.Weights), gpuworker.ErrNotSupported)
	}
	return nil
}

func (c *compiler) linear(op *gmg.Operator) error {
	in := op.In[0]
	call := &linearCall{out: c.rows(op.Out[0]), softCap: 0}
	if op.Kind == gmg.OpHead {
		call.softCap = op.Attrs.SoftCap
	}
	needsQuant := false
	for _, index := range op.Weights {
		w, err := c.weight(index)
		if err != nil {
			return err
		}
		if w.vector != nil {
			return fmt.Errorf("bias %s: %w", c.block.Weights[index].Name, gpuworker.ErrNotSupported)
		}
		call.matrices = append(call.matrices, &w.matrix)
		needsQuant = needsQuant || w.matrix.Quantised()
	}
	call.input = c.input(in)
	if needsQuant && !c.quantised[in] {
		c.quantised[in] = true
		c.addRow(c.isLogit(in), &quantiseOp{call.input})
	}
	c.add(call)
	return nil
}

// input returns the index of a tensor among the step's inputs of matrices.
func (c *compiler) input(tensor int) int {
	s, r := &c.program.state, c.rows(tensor)
	in := input{float: r.data, cols: r.width, logits: c.isLogit(tensor)}
	if at := c.layout.blocks[c.spec.Graph.Stages[c.stage]].quant[tensor]; at != nowhere {
		bytes := kernels.QuantBytes(c.maxRows(tensor), r.width)
		in.quant = c.workspace[at : at+bytes]
	}
	for i := range s.inputs {
		if o := &s.inputs[i]; &o.float[0] == &in.float[0] && o.cols == in.cols && len(o.quant) == len(in.quant) &&
			(len(in.quant) == 0 || &o.quant[0] == &in.quant[0]) && o.logits == in.logits {
			return i
		}
	}
	s.inputs = append(s.inputs, in)
	return len(s.inputs) - 1
}

func (c *compiler) attention(op *gmg.Operator) error {
	l := &attentionLayer{shape: attentionShape(&op.Attrs), qkv: c.rows(op.In[0]), out: c.rows(op.Out[0])}
	if err := l.shape.Validate(); err != nil {
		return fmt.Errorf("%w: %w", gpuworker.ErrNotSupported, err)
	}
	l.qWidth, l.kvWidth = l.shape.Heads*l.shape.HeadDim, l.shape.KVHeads*l.shape.HeadDim
	l.memory, l.strideBytes = c.kv.Host(), int(c.device.KVBlockBytes(c.spec.Graph, c.spec.Stages))
	l.offsetBytes = int(c.kvOffset)
	c.kvOffset += l.shape.PageBytes()
	c.addRow(false, &appendOp{l})
	c.add(&attendCall{l})
	return nil
}
