package enginetest

import (
	"time"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
	"slicescheduler/transfer"
)

// copyLimit is how long one copy may take.
const copyLimit = time.Minute

// load loads the lane's slices as the configuration cuts them, using what slices on the same devices have.
func (e *Engine) load(from []*gpuworker.SliceRunner) (list []*gpuworker.SliceRunner) {
	e.t.Helper()
	c := &e.config
	first := 0
	for i, d := range c.Devices {
		to := len(e.graph.Stages)
		if i < len(c.Cuts) {
			to = c.Cuts[i]
		}
		s, err := gpuworker.LoadSliceWith(e.t.Context(), d, e.model, gpuworker.SliceConfig{Graph: e.graph, Stages: gmg.Range{From: first, To: to},
			KVBlocks: c.KVBlocks, MaxRows: c.MaxRows, MaxLogits: c.MaxLogits}, gpuworker.LoadOptions{From: from})
		if err != nil {
			e.t.Fatal(err)
		}
		list = append(list, s)
		first = to
	}
	return list
}

func (e *Engine) close(list []*gpuworker.SliceRunner) {
	for _, s := range list {
		if err := s.Close(); err != nil {
			e.t.Error(err)
		}
	}
}

// Reshape moves the lane onto other devices or cuts, its KV with it. Page ids stay.
func (e *Engine) Reshape(devices []gpuworker.Device, cuts []int) {
	e.t.Helper()
	e.config.Devices, e.config.Cuts = devices, cuts
	old := e.slices
	e.slices = e.load(old)
	var pages []gpuworker.PagePair
	for page, refs := range e.refs {
		if refs > 0 {
			pages = append(pages, gpuworker.PagePair{From: int32(page), To: int32(page)})
		}
	}
	e.copyPages(old, e.slices, pages)
	e.close(old)
}

// MigrateTo moves a sequence to another engine of the same model. Here it holds nothing afterwards.
func (e *Engine) MigrateTo(to *Engine, s *Sequence) {
	e.t.Helper()
	from := s.pages
	s.pages = nil
	to.grow(s, s.Computed)
	var pages []gpuworker.PagePair
	for i, page := range s.pages {
		pages = append(pages, gpuworker.PagePair{From: from[i], To: page})
	}
	e.copyPages(e.slices, to.slices, pages)
	e.release(from)
}

// copyPages copies pages between two lanes, however each is cut.
func (e *Engine) copyPages(from, to []*gpuworker.SliceRunner, pages []gpuworker.PagePair) {
	e.t.Helper()
	var links []gmg.Link
	for _, a := range from {
		for _, b := range to {
			if x, y := a.Device().Describe().ID, b.Device().Describe().ID; x != y {
				links = append(links, gmg.Link{From: x, To: y, Kind: gmg.LinkMemory})
			}
		}
	}
	topology, err := transfer.NewTopology(links)
	if err != nil {
		e.t.Fatal(err)
	}
	mover := transfer.NewMover(topology)
	for _, a := range from {
		for _, b := range to {
			moves, err := gpuworker.KVMoves(a, b, pages, transfer.PriorityMigration, copyLimit)
			if err != nil {
				e.t.Fatal(err)
			}
			for _, m := range moves {
				if err := mover.Move(e.t.Context(), m); err != nil {
					e.t.Fatal(err)
				}
			}
		}
	}
}
