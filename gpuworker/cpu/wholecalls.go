package cpu

import (
	"slicescheduler/gmg"
	"slicescheduler/gpuworker/cpu/kernels"
)

// featureStep is the number of output features that kernels compute together; cores are given multiples of it.
const featureStep = 8

// linearCall multiplies rows with matrices whose outputs lie side by side, split by output features.
type linearCall struct {
	input    int
	out      rowsOf
	matrices []*kernels.Matrix
	softCap  float32
}

func (c *linearCall) run(s *stepState, core, cores int) {
	x := &s.inputs[c.input].rows
	if x.N == 0 {
		return
	}
	from, to := share(c.out.width, featureStep, core, cores)
	at := 0
	for _, m := range c.matrices {
		first, last := max(from-at, 0), min(to-at, m.Rows)
		if first < last {
			s.kernels.MatMul(c.out.data[at+first:(x.N-1)*c.out.width+at+last], c.out.width, m, x, first, last)
		}
		at += m.Rows
	}
	if c.softCap != 0 && from < to {
		for i := range x.N {
			s.kernels.SoftCap(c.out.at(i)[from:to], c.softCap)
		}
	}
}

// attentionLayer is one layer's attention: its shape and where its KV lies.
type attentionLayer struct {
	shape           kernels.AttentionShape
	qkv, out        rowsOf
	qWidth, kvWidth int
	memory          []byte
	strideBytes     int // of a KV page of the whole slice
	offsetBytes     int // of this layer in it
}

func attentionShape(a *gmg.Attrs) kernels.AttentionShape {
	return kernels.AttentionShape{Heads: a.Heads, KVHeads: a.KVHeads, HeadDim: a.HeadDim, Window: a.Window, Scale: a.Scale, SoftCap: a.SoftCap}
}

// pages returns a sequence's KV pages of the layer, in the core's own state.
func (l *attentionLayer) pages(s *stepState, core, sequence int) *kernels.Pages {
	p := &s.cores[core].pages
	p.Memory, p.Table, p.StrideBytes, p.OffsetBytes = l.memory, s.batch.Sequences[sequence].Blocks, l.strideBytes, l.offsetBytes
	return p
}

// attendCall attends over KV pages, split by heads and, where a sequence has many rows, by these.
type attendCall struct {
	layer *attentionLayer
}

func (c *attendCall) run(s *stepState, core, cores int) {
	l := c.layer
	for i := range s.batch.Sequences {
		span := &s.batch.Sequences[i]
		pages := l.pages(s, core, i)
		// One unit is one head of one row; a core's share is whole heads with a part of a head's rows at either end.
		from, to := share(span.Rows*l.shape.Heads, 1, core, cores)
		for from < to {
			head, row := from/span.Rows, from%span.Rows
			n := min(span.Rows-row, to-from)
			at := span.First + row
			s.kernels.Attention(l.out.data[at*l.out.width:], l.out.width, l.qkv.data[at*l.qkv.width:], l.qkv.width, n, span.Start+row, pages, &l.shape, head, head+1)
			from += n
		}
	}
}
