// Package sim is a device that computes nothing: it takes the time that a cost function says on a clock that is given to it, and answers with logits that
// are a hash of the sequence's tokens. It keeps the same ledger, queues and pages as a real device, so that everything above it can be tried at any
// size and speed.
package sim

import (
	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
)

// Shape is what an operator's cost depends on.
type Shape struct {
	Tokens        float64 // rows of the step
	Sequences     float64 // sequences in it
	Logits        float64 // rows that ask for logits
	ContextTokens float64 // mean context that a row attends to, before any window
}

// ShapeOf sums a step up.
func ShapeOf(b *gpuworker.Batch) Shape {
	s := Shape{Tokens: float64(b.Rows()), Sequences: float64(len(b.Sequences)), Logits: float64(len(b.LogitRows))}
	for _, q := range b.Sequences {
		// Rows at positions Start, Start+1, ... attend to Start+1, Start+2, ... tokens.
		s.ContextTokens += float64(q.Rows) * (float64(q.Start) + float64(q.Rows+1)/2)
	}
	s.ContextTokens /= s.Tokens
	return s
}

// Cost says how long an operator takes on a device, in nanoseconds. Implementations are pure.
type Cost interface {
	OperatorNs(op *gmg.Operator, s Shape) int64
}

// Roofline is the cost that a device's own figures give: the larger of computing and moving, plus a launch.
type Roofline struct {
	Device   gmg.Device
	Weights  gmg.DType // the type whose peak counts; the graph's operators don't name one
	LaunchNs int64
}

// OperatorNs implements Cost.
func (r Roofline) OperatorNs(op *gmg.Operator, s Shape) int64 {
	context := s.ContextTokens
	if w := float64(op.Attrs.Window); w > 0 {
		context = min(context, w)
	}
	sequences := s.Sequences
	if op.Kind == gmg.OpHead || op.Kind == gmg.OpSample {
		sequences = s.Logits
	}
	flops := op.FLOPs.Eval(s.Tokens, sequences, context)
	bytes := op.ReadBytes.Eval(s.Tokens, sequences, context) + op.WriteBytes.Eval(s.Tokens, sequences, context) + float64(op.WeightBytes)
	seconds := 0.0
	if peak := r.Device.PeakFLOPS[r.Weights]; peak > 0 {
		seconds = flops / peak
	}
	if bandwidth := r.Device.BandwidthBytesPerS; bandwidth > 0 {
		seconds = max(seconds, bytes/bandwidth)
	}
	return r.LaunchNs + int64(seconds*1e9)
}
