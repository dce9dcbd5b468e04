package model

import (
	"fmt"

	"slicescheduler/gmg"
	"slicescheduler/model/gguf"
)

// ggufWeights finds the weights of a graph's stages in a GGUF file.
type ggufWeights struct {
	file  *gguf.File
	graph *gmg.Graph
}

func (w ggufWeights) weight(stage int, name string) (gmg.Weight, []byte, error) {
	if stage < 0 || stage >= len(w.graph.Stages) {
		return gmg.Weight{}, nil, fmt.Errorf("%s: no stage %d among %d", w.file.Path(), stage, len(w.graph.Stages))
	}
	for _, weight := range w.graph.Block(stage).Weights {
		if weight.Name != name {
			continue
		}
		full := name
		if stage > 0 && stage <= w.graph.Layers {
			full = layerPrefix(stage-1) + name
		}
		t, ok := w.file.Tensor(full)
		if !ok {
			return gmg.Weight{}, nil, fmt.Errorf("%s: %w: tensor %q is missing", w.file.Path(), ErrFormat, full)
		}
		return weight, w.file.Data(t), nil
	}
	return gmg.Weight{}, nil, fmt.Errorf("%s: stage %d has no weight %q", w.file.Path(), stage, name)
}

func (w ggufWeights) close() error { return w.file.Close() }
