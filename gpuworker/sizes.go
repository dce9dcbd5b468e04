package gpuworker

import (
	"slicescheduler/gmg"
)

// SliceMemory is the bytes that a slice holds, by memory class.
type SliceMemory [gmg.NumMemoryClasses]int64

// Total returns the bytes of all classes.
func (m SliceMemory) Total() int64 {
	var n int64
	for _, b := range m {
		n += b
	}
	return n
}

// SliceBytes returns what LoadSlice would hold on a device for a configuration, without touching anything.
func SliceBytes(dev Device, c SliceConfig) SliceMemory {
	var m SliceMemory
	for stage := c.Stages.From; stage < c.Stages.To; stage++ {
		for _, w := range c.Graph.Block(stage).Weights {
			if !c.sharesEmbedding(stage, w.Name) {
				m[gmg.MemWeights] += dev.WeightBytes(w)
			}
		}
	}
	if c.attends() {
		m[gmg.MemKV] = int64(c.KVBlocks) * dev.KVBlockBytes(c.Graph, c.Stages)
	}
	m[gmg.MemWorkspace] = dev.WorkspaceBytes(c.Graph, c.Stages, c.MaxRows, c.MaxLogits)
	perSlot := int64(0)
	if !c.first() {
		perSlot += c.hiddenBytes()
	}
	if c.last() {
		perSlot += c.logitsBytes()
	} else {
		perSlot += c.hiddenBytes()
	}
	m[gmg.MemStaging] = int64(c.slots()) * perSlot
	return m
}

// MaxKVBlocks returns how many KV pages a slice could have within freeBytes, beside its weights, workspace and staging; c.KVBlocks is not read.
// It is negative when not even these fit, 0 when the slice doesn't attend.
func MaxKVBlocks(dev Device, c SliceConfig, freeBytes int64) int {
	c.KVBlocks = 0
	left := freeBytes - SliceBytes(dev, c).Total()
	if left < 0 {
		return -1
	}
	if !c.attends() {
		return 0
	}
	return int(left / dev.KVBlockBytes(c.Graph, c.Stages))
}

// StageSizes are what a graph's stages take on one device, each alone, so that a planner can add up any run of them.
type StageSizes struct {
	StageBytes []int64 // weights of each stage
	TiedBytes  int64   // saved by a slice that holds both ends of a graph with a tied head
	BlockBytes []int64 // one KV page, by stage
	FixedBytes int64   // workspace and staging of any slice, at most
}

// GraphSizes returns a graph's sizes on a device, for steps of up to maxRows tokens and maxLogits rows of logits, with slots steps in flight.
func GraphSizes(dev Device, g *gmg.Graph, maxRows, maxLogits, slots int) StageSizes {
	var s StageSizes
	for stage := range g.Stages {
		one := gmg.Range{From: stage, To: stage + 1}
		var weights int64
		for _, w := range g.Block(stage).Weights {
			weights += dev.WeightBytes(w)
		}
		block := int64(0)
		if g.KVBytesPerToken(one) > 0 {
			block = dev.KVBlockBytes(g, one)
		}
		s.StageBytes, s.BlockBytes = append(s.StageBytes, weights), append(s.BlockBytes, block)
	}
	c := SliceConfig{Graph: g, Stages: g.Whole(), MaxRows: maxRows, MaxLogits: maxLogits, Slots: slots}
	for _, w := range g.Block(c.Stages.To - 1).Weights {
		if c.sharesEmbedding(c.Stages.To-1, w.Name) {
			s.TiedBytes += dev.WeightBytes(w)
		}
	}
	s.FixedBytes = dev.WorkspaceBytes(g, c.Stages, maxRows, maxLogits) + int64(c.slots())*(2*c.hiddenBytes()+c.logitsBytes())
	return s
}

// sharesEmbedding says whether a stage's weight is the embedding that the same slice already holds for stage 0.
func (c SliceConfig) sharesEmbedding(stage int, name string) bool {
	if !c.Graph.TiedHead || !c.first() || !c.last() || stage != c.Stages.To-1 {
		return false
	}
	for _, w := range c.Graph.Block(0).Weights {
		if w.Name == name {
			return true
		}
	}
	return false
}
