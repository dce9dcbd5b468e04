package sim

import (
	"encoding/binary"
	"fmt"
	"math"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
	"slicescheduler/gpuworker/dispatch"
	"slicescheduler/gpuworker/hostmem"
)

// A hidden row carries two numbers in its first bytes: the token's own hash and that of the sequence up to it, as the last slice that attends knows it.
const (
	hashBytes = 8
	rowBytes  = 2 * hashBytes
)

// minHidden is the narrowest residual stream that can carry them.
const minHidden = rowBytes / activationBytes

type program struct {
	device              *Device
	spec                gpuworker.ProgramSpec
	kv, in, out, logits *hostmem.Buffer
	workspace           *hostmem.Buffer
	blockBytes          int64
	stages              []int64 // where in a KV page each stage that attends has its part
}

// Stages implements gpuworker.Program.
func (p *program) Stages() gmg.Range { return p.spec.Stages }

func (p *program) limits() gpuworker.SliceConfig {
	return gpuworker.SliceConfig{Graph: p.spec.Graph, Stages: p.spec.Stages, KVBlocks: p.spec.KVBlocks, MaxRows: p.spec.MaxRows, MaxLogits: p.spec.MaxLogits}
}

func (d *Device) compile(spec gpuworker.ProgramSpec) (*program, error) {
	p := &program{device: d, spec: spec}
	c := p.limits()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	g := spec.Graph
	if g.Hidden < minHidden {
		return nil, fmt.Errorf("hidden rows of %d elements can't carry a hash, %d can: %w", g.Hidden, minHidden, gpuworker.ErrNotSupported)
	}
	if g.KVBytesPerToken(spec.Stages) > 0 {
		p.blockBytes = d.KVBlockBytes(g, spec.Stages)
		if err := p.findStages(); err != nil {
			return nil, err
		}
	}
	hidden := int64(spec.MaxRows) * int64(g.Hidden) * activationBytes
	for _, want := range []struct {
		to     **hostmem.Buffer
		from   gpuworker.Buffer
		bytes  int64
		needed bool
		what   string
	}{
		{&p.kv, spec.KV, int64(spec.KVBlocks) * p.blockBytes, p.blockBytes > 0, "KV"},
		{&p.in, spec.In, hidden, spec.Stages.From > 0, "input"},
		{&p.out, spec.Out, hidden, spec.Stages.To < len(g.Stages), "output"},
		{&p.logits, spec.Logits, int64(spec.MaxLogits) * int64(g.Vocab) * activationBytes, spec.Stages.To == len(g.Stages), "logits"},
		{&p.workspace, spec.Workspace, d.WorkspaceBytes(g, spec.Stages, spec.MaxRows, spec.MaxLogits), true, "workspace"},
	} {
		if !want.needed {
			continue
		}
		b, err := d.Held(want.from, want.bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", want.what, err)
		}
		*want.to = b
	}
	if err := p.checkWeights(); err != nil {
		return nil, err
	}
	return p, nil
}

// findStages notes where each stage's part of a KV page lies.
func (p *program) findStages() error {
	at := int64(0)
	for stage := p.spec.Stages.From; stage < p.spec.Stages.To; stage++ {
		one := gmg.Range{From: stage, To: stage + 1}
		if p.spec.Graph.KVBytesPerToken(one) == 0 {
			continue
		}
		bytes := p.device.KVBlockBytes(p.spec.Graph, one)
		if bytes < gpuworker.BlockTokens*hashBytes {
			return fmt.Errorf("a layer's KV pages of %d bytes can't hold a hash a token: %w", bytes, gpuworker.ErrNotSupported)
		}
		p.stages = append(p.stages, at)
		at += bytes
	}
	return nil
}

func (p *program) checkWeights() error {
	for stage := p.spec.Stages.From; stage < p.spec.Stages.To; stage++ {
		for _, w := range p.spec.Graph.Block(stage).Weights {
			b, err := p.device.Held(p.spec.Weights[gpuworker.WeightKey{Stage: stage, Name: w.Name}], w.Bytes)
			if err != nil {
				return fmt.Errorf("weight %s of stage %d: %w", w.Name, stage, err)
			}
			if _, isWeight := b.Payload.(gmg.Weight); !isWeight {
				return fmt.Errorf("weight %s of stage %d is no weight: %w", w.Name, stage, gpuworker.ErrBadBuffer)
			}
		}
	}
	return nil
}

// step is a program with one batch.
type step struct {
	*program
	batch *gpuworker.Batch
}

// Shares implements dispatch.Task.
func (s *step) Shares(other dispatch.Task) bool {
	o, ok := other.(*step)
	return ok && o.workspace == s.workspace
}

// Run implements dispatch.Task. A borrowed step sleeps operator by operator, so that home work can come between; a home step sleeps once.
func (s *step) Run(b *dispatch.Boundary) error {
	shape := ShapeOf(s.batch)
	var restNs int64
	for stage := s.spec.Stages.From; stage < s.spec.Stages.To; stage++ {
		block := s.spec.Graph.Block(stage)
		for i := range block.Operators {
			restNs += s.device.config.Cost.OperatorNs(&block.Operators[i], shape)
			if b.Queue() == gpuworker.QueueHome {
				continue
			}
			s.device.config.Clock.Sleep(s.device.alive, restNs)
			restNs = 0
			if err := b.Pass(); err != nil {
				return err
			}
		}
	}
	s.device.config.Clock.Sleep(s.device.alive, restNs)
	if err := b.Pass(); err != nil {
		return err
	}
	s.compute()
	return nil
}

func (s *step) compute() {
	logit := 0
	for i := range s.batch.Sequences {
		span := &s.batch.Sequences[i]
		for r := range span.Rows {
			row := span.First + r
			own, chain := s.input(row)
			if s.kv != nil {
				chain = s.extend(span, span.Start+r, own, chain)
			}
			if s.out != nil {
				s.leave(row, own, chain)
			}
			if s.logits != nil && logit < len(s.batch.LogitRows) && int(s.batch.LogitRows[logit]) == row {
				s.answer(logit, chain)
				logit++
			}
		}
	}
}

func (s *step) rowOffset(row int) int64 {
	return int64(row) * int64(s.spec.Graph.Hidden) * activationBytes
}

// input returns a row's own hash and that of its sequence up to it as far as an earlier slice knows it.
func (s *step) input(row int) (own, chain uint64) {
	if s.in == nil {
		return mix(uint64(s.batch.Tokens[row]) + 1), 0
	}
	at := s.in.Host()[s.rowOffset(row):]
	return binary.LittleEndian.Uint64(at), binary.LittleEndian.Uint64(at[hashBytes:])
}

func (s *step) leave(row int, own, chain uint64) {
	at := s.out.Host()[s.rowOffset(row):]
	binary.LittleEndian.PutUint64(at, own)
	binary.LittleEndian.PutUint64(at[hashBytes:], chain)
}

// extend hashes a token to what each layer's KV pages hold of its sequence, and puts the result there, where the token's keys and values would be. All
// layers of a lane come to the same hash; where one doesn't, because its pages hold something else, the answer is another one too.
func (s *step) extend(span *gpuworker.Span, position int, own, chain uint64) uint64 {
	var word [hashBytes]byte
	for _, stage := range s.stages {
		var before uint64
		if position > 0 {
			s.kv.ReadAt(s.kvOffset(span, position-1)+stage, word[:])
			before = binary.LittleEndian.Uint64(word[:])
		}
		next := mix(before ^ mix(own+uint64(position)))
		binary.LittleEndian.PutUint64(word[:], next)
		s.kv.WriteAt(s.kvOffset(span, position)+stage, word[:])
		switch {
		case chain == 0:
			chain = next
		case chain != next:
			chain = mix(chain ^ next)
		}
	}
	return chain
}

func (s *step) kvOffset(span *gpuworker.Span, position int) int64 {
	page := int64(span.Blocks[position/gpuworker.BlockTokens])
	return page*s.blockBytes + int64(position%gpuworker.BlockTokens)*hashBytes
}

// answer writes a row of logits in [0, 16): a function of the sequence's tokens alone.
func (s *step) answer(i int, chain uint64) {
	vocab := s.spec.Graph.Vocab
	at := s.logits.Host()[int64(i)*int64(vocab)*activationBytes:]
	x := chain | 1
	for t := range vocab {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		logit := float32(x>>40) / (1 << 20)
		binary.LittleEndian.PutUint32(at[t*activationBytes:], math.Float32bits(logit))
	}
}

// mix is the finaliser of splitmix64.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
