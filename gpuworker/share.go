package gpuworker

import (
	"sync/atomic"

	"slicescheduler/gmg"
)

// heldBuffer is a buffer that a lane's old and new slices may hold together while it changes its shape.
type heldBuffer struct {
	buffer Buffer
	owners *atomic.Int32
}

// share makes somebody else an owner too, unless the slice is closed.
func (r *SliceRunner) share(find func() (heldBuffer, bool)) (heldBuffer, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, ok := find()
	if ok {
		h.owners.Add(1)
	}
	return h, ok
}

// sharesKV says whether a slice of a configuration could use this one's pages as they lie.
func (r *SliceRunner) sharesKV(dev Device, c SliceConfig) bool {
	return r.dev == dev && c.attends() && r.config.Graph == c.Graph && r.config.Stages == c.Stages && r.config.KVBlocks == c.KVBlocks
}

func (r *SliceRunner) findKV() (heldBuffer, bool) {
	for _, h := range r.held {
		if h.buffer == r.kv {
			return h, true
		}
	}
	return heldBuffer{}, false
}

// shareKV takes over the pages of a slice that the load may share with.
func (l *loader) shareKV() (Buffer, bool) {
	for _, from := range l.options.From {
		if !from.sharesKV(l.r.dev, l.r.config) {
			continue
		}
		if h, ok := from.share(from.findKV); ok {
			l.hold(h)
			return h.buffer, true
		}
	}
	return nil, false
}

// shareWeight takes over a weight of a slice that the load may share with.
func (l *loader) shareWeight(key WeightKey) (Buffer, bool) {
	for _, from := range l.options.From {
		if from.dev != l.r.dev || from.config.Graph != l.r.config.Graph {
			continue
		}
		h, ok := from.share(func() (heldBuffer, bool) { h, ok := from.weights[key]; return h, ok })
		if ok {
			l.hold(h)
			l.weights[key], l.r.weights[key] = h.buffer, h
			return h.buffer, true
		}
	}
	return nil, false
}

// SliceBytesFrom returns what a load with LoadOptions.From would take beside what it shares, as long as none of these slices is closed.
func SliceBytesFrom(dev Device, c SliceConfig, from []*SliceRunner) SliceMemory {
	m := SliceBytes(dev, c)
	for stage := c.Stages.From; stage < c.Stages.To; stage++ {
		for _, w := range c.Graph.Block(stage).Weights {
			if !c.sharesEmbedding(stage, w.Name) && anyHas(from, dev, c.Graph, WeightKey{stage, w.Name}) {
				m[gmg.MemWeights] -= dev.WeightBytes(w)
			}
		}
	}
	for _, r := range from {
		if r.sharesKV(dev, c) {
			m[gmg.MemKV] = 0
			break
		}
	}
	return m
}

func anyHas(from []*SliceRunner, dev Device, g *gmg.Graph, key WeightKey) bool {
	for _, r := range from {
		if r.dev != dev || r.config.Graph != g {
			continue
		}
		r.mu.Lock()
		_, ok := r.weights[key]
		r.mu.Unlock()
		if ok {
			return true
		}
	}
	return false
}
