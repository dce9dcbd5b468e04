package gpuworker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"slicescheduler/gmg"
)

// HostBuffer is a buffer whose memory the host reads and writes in place, on devices that share memory with it.
type HostBuffer interface {
	Buffer
	Host() []byte // aligned to 64 bytes
}

// loader builds a SliceRunner; all that it takes goes to r.held at once, so that closing r undoes any part of it.
type loader struct {
	r       *SliceRunner
	src     WeightSource
	options LoadOptions
	weights map[WeightKey]Buffer
}

// load takes what is small and can fail for want of memory first, so that a slice that doesn't fit fails before any weight is read.
func (l *loader) load(ctx context.Context) error {
	c := l.r.config
	var err error
	if shared, ok := l.shareKV(); ok {
		l.r.kv = shared
	} else if c.attends() {
		if l.r.kv, err = l.reserve(gmg.MemKV, int64(c.KVBlocks)*l.r.dev.KVBlockBytes(c.Graph, c.Stages)); err != nil {
			return err
		}
	}
	workspace, err := l.reserve(gmg.MemWorkspace, l.r.dev.WorkspaceBytes(c.Graph, c.Stages, c.MaxRows, c.MaxLogits))
	if err != nil {
		return err
	}
	for range c.slots() {
		if err := l.reserveSlot(); err != nil {
			return err
		}
	}
	if err := l.loadWeights(ctx); err != nil {
		return err
	}
	for i := range l.r.slots {
		if err := l.compile(&l.r.slots[i], workspace); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) reserve(class gmg.MemoryClass, bytes int64) (Buffer, error) {
	b, err := l.r.dev.Reserve(class, bytes)
	if err != nil {
		return nil, err
	}
	l.keep(b)
	return b, nil
}

// keep notes a buffer that was taken.
func (l *loader) keep(b Buffer) heldBuffer {
	h := heldBuffer{b, new(atomic.Int32)}
	h.owners.Add(1)
	if l.options.Taken != nil {
		l.options.Taken.Add(b.Bytes())
	}
	l.hold(h)
	return h
}

// hold notes a buffer of which this slice is an owner.
func (l *loader) hold(h heldBuffer) {
	l.r.held = append(l.r.held, h)
	l.r.memory[h.buffer.Class()] += h.buffer.Bytes()
}

func (l *loader) reserveSlot() (err error) {
	c := l.r.config
	var s slot
	if !c.first() {
		if s.in, err = l.reserve(gmg.MemStaging, c.hiddenBytes()); err != nil {
			return err
		}
	}
	if !c.last() {
		if s.out, err = l.reserve(gmg.MemStaging, c.hiddenBytes()); err != nil {
			return err
		}
	} else if s.logits, err = l.reserve(gmg.MemStaging, c.logitsBytes()); err != nil {
		return err
	} else if host, ok := s.logits.(HostBuffer); ok {
		s.logitRows = float32View(host.Host())
	} else {
		s.logitRows = make([]float32, c.logitsBytes()/float32Bytes)
		s.mirror = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s.logitRows))), c.logitsBytes())
	}
	l.r.slots = append(l.r.slots, s)
	return nil
}

// float32View reads bytes as floats, in place.
func float32View(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/float32Bytes)
}

func (l *loader) loadWeights(ctx context.Context) error {
	c := l.r.config
	l.weights = make(map[WeightKey]Buffer)
	total := SliceBytes(l.r.dev, c)[gmg.MemWeights]
	var done int64
	for stage := c.Stages.From; stage < c.Stages.To; stage++ {
		for _, w := range c.Graph.Block(stage).Weights {
			if err := ctx.Err(); err != nil {
				return err
			}
			b, err := l.loadWeight(ctx, stage, w)
			if err != nil {
				return err
			}
			if !c.sharesEmbedding(stage, w.Name) {
				done += b.Bytes()
			}
			if l.options.Progress != nil {
				l.options.Progress(done, total)
			}
		}
	}
	return nil
}

func (l *loader) loadWeight(ctx context.Context, stage int, w gmg.Weight) (Buffer, error) {
	key := WeightKey{stage, w.Name}
	if l.r.config.sharesEmbedding(stage, w.Name) {
		embedding := WeightKey{0, w.Name}
		l.weights[key], l.r.weights[key] = l.weights[embedding], l.r.weights[embedding]
		return l.weights[key], nil
	}
	if b, ok := l.shareWeight(key); ok {
		return b, nil
	}
	found, host, err := l.src.Weight(stage, w.Name)
	if err != nil {
		return nil, fmt.Errorf("weight %s of stage %d: %w", w.Name, stage, err)
	}
	if found != w || int64(len(host)) != w.Bytes {
		return nil, fmt.Errorf("%w: weight %s of stage %d is %+v of %d bytes, the graph says %+v", ErrSlice, w.Name, stage, found, len(host), w)
	}
	b, err := l.r.dev.LoadWeight(ctx, w, host)
	if err != nil {
		return nil, fmt.Errorf("weight %s of stage %d: %w", w.Name, stage, err)
	}
	l.weights[key], l.r.weights[key] = b, l.keep(b)
	return b, nil
}

func (l *loader) compile(s *slot, workspace Buffer) error {
	c := l.r.config
	spec := ProgramSpec{Graph: c.Graph, Stages: c.Stages, Weights: l.weights, KV: l.r.kv, KVBlocks: c.KVBlocks, In: s.in, Out: s.out,
		Logits: s.logits, Workspace: workspace, MaxRows: c.MaxRows, MaxLogits: c.MaxLogits}
	p, err := l.r.dev.Compile(spec)
	if err != nil {
		return err
	}
	if p.Stages() != c.Stages {
		return errors.New("the device compiled other stages than asked for")
	}
	s.program = p
	return nil
}
