package cpu

import (
	"unsafe"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
	"slicescheduler/gpuworker/cpu/kernels"
	"slicescheduler/gpuworker/dispatch"
	"slicescheduler/gpuworker/hostmem"
)

// program is a compiled run of stages. It holds the state of the step that it runs, since it never runs two at a time.
type program struct {
	device    *Device
	limits    gpuworker.SliceConfig
	workspace *hostmem.Buffer
	calls     []call
	state     stepState
}

// Stages implements gpuworker.Program.
func (p *program) Stages() gmg.Range { return p.limits.Stages }

// stepState is what the calls of a running step see.
type stepState struct {
	kernels  *kernels.Set
	batch    *gpuworker.Batch
	rows     int
	sequence []int32 // of each row
	position []int32 // of each row
	inputs   []input
	cores    []coreState
}

// input is a tensor that matrices are multiplied with.
type input struct {
	float  []float32 // all rows that there can be
	quant  []byte
	cols   int
	logits bool         // one row for each row of logits instead of each token
	rows   kernels.Rows // of this step
}

// coreState is what one core needs for itself; it lives here so that kernels, which take it by reference, cause no allocation.
type coreState struct {
	pages kernels.Pages
	_     [alignment]byte // keep neighbours' cache lines apart
}

// begin prepares the state for a step.
func (s *stepState) begin(b *gpuworker.Batch) {
	s.batch, s.rows = b, b.Rows()
	for i := range b.Sequences {
		span := &b.Sequences[i]
		for r := range span.Rows {
			s.sequence[span.First+r] = int32(i)
			s.position[span.First+r] = int32(span.Start + r)
		}
	}
	for i := range s.inputs {
		in := &s.inputs[i]
		in.rows = kernels.MakeRows(s.count(in.logits), in.cols, in.float, in.quant)
	}
}

// count is the number of rows of a kind in this step.
func (s *stepState) count(logits bool) int {
	if logits {
		return len(s.batch.LogitRows)
	}
	return s.rows
}

// step is a program with one batch.
type step struct {
	program *program
	batch   *gpuworker.Batch
}

// Shares implements dispatch.Task: programs of one slice share its workspace.
func (s *step) Shares(other dispatch.Task) bool {
	o, ok := other.(*step)
	return ok && o.program.workspace == s.program.workspace
}

// Run implements dispatch.Task.
func (s *step) Run(b *dispatch.Boundary) error {
	p := s.program
	p.state.begin(s.batch)
	for _, c := range p.calls {
		p.device.pool.run(c, &p.state)
		if err := b.Pass(); err != nil {
			return err
		}
	}
	p.state.batch = nil
	return nil
}

// floatsAt reads bytes of a buffer as float32, in place.
func floatsAt(b []byte, at, bytes int64) []float32 {
	if bytes == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[at])), bytes/floatBytes)
}
