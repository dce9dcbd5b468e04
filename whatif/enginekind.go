package whatif

import "slices"

// EngineKind holds what a serving engine adds to the time of its kernels, and how it forms steps. The figures belong to an engine version on a kind of
// host, never to one run.
type EngineKind struct {
	Name string
	// CaptureSizes are the batch sizes for which the engine recorded graphs, ascending: smaller batches are padded up to the next one. Empty: none.
	CaptureSizes []int
	// DecodeStepNs is what a step of decodes takes beyond its kernels, PrefillStepNs plus PrefillLayerNs for each layer what one with a prefill takes,
	// which runs outside the recorded graph.
	DecodeStepNs, PrefillStepNs, PrefillLayerNs int64
	// RouteNs is how often the router's view of the lanes' and ranks' queues is refreshed; 0: always.
	RouteNs int64
	// Eager admits requests when they arrive; otherwise the engine looks at its inbox only between steps.
	Eager bool
}

// pad returns the rows that a batch of n rows is padded to.
func (e *EngineKind) pad(n int) int {
	if k, _ := slices.BinarySearch(e.CaptureSizes, n); k < len(e.CaptureSizes) {
		return e.CaptureSizes[k]
	}
	return n
}

// maxCapture is the largest recorded batch.
func (e *EngineKind) maxCapture() int {
	if len(e.CaptureSizes) == 0 {
		return 0
	}
	return e.CaptureSizes[len(e.CaptureSizes)-1]
}

// prepare turns the shapes of a step's ranks into what their devices run: padded, and with the totals that collectives need.
func (e *EngineKind) prepare(shapes []Shape) {
	if len(shapes) == 1 {
		shapes[0].Tokens = e.pad(shapes[0].Tokens)
		return
	}
	largest, prefill, sum := 1, false, 0
	for i := range shapes {
		sh := &shapes[i]
		sh.Tokens, sh.Logits = e.pad(max(sh.Tokens, 1)), max(sh.Logits, 1) // an idle rank runs along with one row of nothing
		largest, prefill = max(largest, sh.Tokens), prefill || sh.PrefillTokens > 0
	}
	for i := range shapes {
		if !prefill || largest <= e.maxCapture() {
			shapes[i].Tokens = largest // a recorded graph has one size on all ranks
		}
		sum += shapes[i].Tokens
	}
	for i := range shapes {
		shapes[i].GroupRows, shapes[i].GroupMaxRows = sum, largest
	}
}

// overheadNs is what the engine adds to a step over a number of layers.
func (e *EngineKind) overheadNs(shapes []Shape, layers int) int64 {
	for i := range shapes {
		if shapes[i].PrefillTokens > 0 {
			return e.PrefillStepNs + e.PrefillLayerNs*int64(layers)
		}
	}
	return e.DecodeStepNs
}
