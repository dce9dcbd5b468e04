package cpu

import (
	"slicescheduler/gmg"
	"slicescheduler/gpuworker/cpu/kernels"
)

// rowOp is an operator whose every row depends on the same row of its inputs alone. Consecutive ones are fused: a core takes its rows through all of them
// while they are in its cache, with one barrier at the end.
type rowOp interface {
	row(s *stepState, core, row int)
}

// rowCall runs row operators, split by rows.
type rowCall struct {
	logits bool // rows of logits instead of tokens
	ops    []rowOp
}

func (c *rowCall) run(s *stepState, core, cores int) {
	from, to := share(s.count(c.logits), 1, core, cores)
	for row := from; row < to; row++ {
		for _, op := range c.ops {
			op.row(s, core, row)
		}
	}
}

// rowsOf is float32 rows of one width.
type rowsOf struct {
	data  []float32
	width int
}

func (m rowsOf) at(row int) []float32 { return m.data[row*m.width : (row+1)*m.width] }

// embedOp looks up a token's row of the embedding.
type embedOp struct {
	out    rowsOf
	matrix *kernels.Matrix
	scale  float32
}

func (o *embedOp) row(s *stepState, _, row int) {
	o.matrix.Row(o.out.at(row), int(s.batch.Tokens[row]), o.scale)
}

// copyOp brings the rows of an earlier slice into the residual stream.
type copyOp struct {
	out, in rowsOf
}

func (o *copyOp) row(_ *stepState, _, row int) { copy(o.out.at(row), o.in.at(row)) }

// ropeTableOp computes the angles of a row's position.
type ropeTableOp struct {
	table rowsOf
	attrs gmg.Attrs
}

func (o *ropeTableOp) row(s *stepState, _, row int) {
	kernels.RoPETable(o.table.at(row), int(s.position[row]), o.attrs.RoPEDims, o.attrs.RoPEBase, o.attrs.RoPEScale, o.attrs.RoPEFactor)
}

// normOp is RMSNorm; gather reads the token row that a row of logits belongs to.
type normOp struct {
	out, in rowsOf
	weight  []float32
	eps     float32
	addOne  bool
	gather  bool
}

func (o *normOp) row(s *stepState, _, row int) {
	from := row
	if o.gather {
		from = int(s.batch.LogitRows[row])
	}
	s.kernels.RMSNorm(o.out.at(row), o.in.at(from), o.weight, o.eps, o.addOne)
}

// headNormOp is RMSNorm of each query head and each key head of a row, in place.
type headNormOp struct {
	qkv            rowsOf
	qWidth, kWidth int
	q, k           []float32
	eps            float32
	addOne         bool
}

func (o *headNormOp) row(s *stepState, _, row int) {
	x := o.qkv.at(row)
	q, k := x[:o.qWidth], x[o.qWidth:o.qWidth+o.kWidth]
	s.kernels.RMSNorm(q, q, o.q, o.eps, o.addOne)
	s.kernels.RMSNorm(k, k, o.k, o.eps, o.addOne)
}

// quantiseOp makes the quantised form of a row, for the matrices that it meets next.
type quantiseOp struct {
	input int
}

func (o *quantiseOp) row(s *stepState, _, row int) {
	s.kernels.Quantize(&s.inputs[o.input].rows, row, row+1)
}

// ropeOp rotates the query and key heads of a row, in place.
type ropeOp struct {
	qkv, table    rowsOf
	width         int // of the query and key heads together
	headDim, dims int
	style         gmg.RoPEStyle
}

func (o *ropeOp) row(s *stepState, _, row int) {
	s.kernels.RoPE(o.qkv.at(row)[:o.width], o.headDim, o.dims, o.style, o.table.at(row))
}

// appendOp puts a row's keys and values into its sequence's KV pages.
type appendOp struct {
	layer *attentionLayer
}

func (o *appendOp) row(s *stepState, core, row int) {
	l := o.layer
	pages := l.pages(s, core, int(s.sequence[row]))
	x := l.qkv.at(row)
	k, v := x[l.qWidth:l.qWidth+l.kvWidth], x[l.qWidth+l.kvWidth:]
	s.kernels.AppendKV(&l.shape, pages, int(s.position[row]), k, v)
}

// activateOp is the gated activation.
type activateOp struct {
	out, in rowsOf
	act     gmg.Activation
}

func (o *activateOp) row(s *stepState, _, row int) {
	x, n := o.in.at(row), o.out.width
	if o.act == gmg.GELUTanh {
		s.kernels.GELU(o.out.at(row), x[:n], x[n:])
		return
	}
	s.kernels.SiLU(o.out.at(row), x[:n], x[n:])
}

// addOp adds two rows.
type addOp struct {
	out, a, b rowsOf
}

func (o *addOp) row(s *stepState, _, row int) {
	s.kernels.Add(o.out.at(row), o.a.at(row), o.b.at(row))
}
