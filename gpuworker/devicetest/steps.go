package devicetest

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
	"slicescheduler/gpuworker/enginetest"
)

// logits returns a copy of the first row of logits of a slice.
func logits(t *testing.T, r *gpuworker.SliceRunner) []float32 {
	t.Helper()
	must(t, r.FetchLogits(gpuworker.QueueHome, 0, 1))
	return slices.Clone(r.Logits(0, 0))
}

func (s suite) programs(t *testing.T) {
	d, m := s.device(t, "t/dev0"), enginetest.Miniature(t, nil)
	r := load(t, d, m, m.Graph.Whole())
	if got, want := r.Memory(), gpuworker.SliceBytes(d, r.Config()); got != want || got != gpuworker.SliceMemory(d.Ledger().Held) {
		t.Errorf("holds %v, announced %v, ledger %v", got, want, d.Ledger().Held)
	}
	must(t, r.Run(gpuworker.QueueHome, 0, prompt(0, 40)))
	whole := logits(t, r)
	if slices.Max(whole) == slices.Min(whole) {
		t.Fatal("all logits are equal")
	}
	must(t, r.Run(gpuworker.QueueHome, 0, prompt(0, 17)))
	if slices.Equal(logits(t, r), whole) {
		t.Fatal("logits don't depend on the prompt")
	}
	must(t, r.Run(gpuworker.QueueBorrowed, 0, prompt(17, 22)))
	e := r.Run(gpuworker.QueueHome, 0, prompt(39, 1))
	must(t, e)
	if e.BusyNs() <= 0 {
		t.Errorf("a step took %d ns", e.BusyNs())
	}
	if !slices.Equal(logits(t, r), whole) {
		t.Error("logits depend on how the prompt was cut into steps")
	}
}

func (s suite) splitPrograms(t *testing.T) {
	m := enginetest.Miniature(t, nil)
	d, other := s.device(t, "t/dev0"), s.device(t, "t/dev1")
	whole := load(t, d, m, m.Graph.Whole())
	must(t, whole.Run(gpuworker.QueueHome, 0, prompt(0, 40)))
	want := logits(t, whole)
	for cut := 1; cut < len(m.Graph.Stages); cut++ {
		a, b := load(t, d, m, gmg.Range{From: 0, To: cut}), load(t, other, m, gmg.Range{From: cut, To: len(m.Graph.Stages)})
		for _, part := range [...][2]int{{0, 23}, {23, 17}} {
			batch := prompt(part[0], part[1])
			must(t, a.Run(gpuworker.QueueHome, 0, batch))
			must(t, a.PassTo(gpuworker.QueueCopy, 0, b, batch.Rows()))
			must(t, b.Run(gpuworker.QueueHome, 0, batch))
		}
		if !slices.Equal(logits(t, b), want) {
			t.Errorf("cut before stage %d: logits differ from those of one device", cut)
		}
	}
}

func (s suite) badPrograms(t *testing.T) {
	m := enginetest.Miniature(t, nil)
	d, other := s.device(t, "t/dev0"), s.device(t, "t/dev1")
	g, r := m.Graph, gmg.Range{From: 2, To: 3}
	weights := map[gpuworker.WeightKey]gpuworker.Buffer{}
	for _, w := range g.Block(2).Weights {
		_, host, err := m.Weight(2, w.Name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := d.LoadWeight(t.Context(), w, host)
		if err != nil {
			t.Fatal(err)
		}
		defer release(t, d, b)
		weights[gpuworker.WeightKey{Stage: 2, Name: w.Name}] = b
	}
	hidden := int64(8 * g.Hidden * 4)
	hold := func(d gpuworker.Device, c gmg.MemoryClass, bytes int64) gpuworker.Buffer {
		b := reserve(t, d, c, bytes)
		t.Cleanup(func() { release(t, d, b) })
		return b
	}
	good := gpuworker.ProgramSpec{Graph: g, Stages: r, Weights: weights, KV: hold(d, gmg.MemKV, 2*d.KVBlockBytes(g, r)), KVBlocks: 2,
		In: hold(d, gmg.MemStaging, hidden), Out: hold(d, gmg.MemStaging, hidden), MaxRows: 8, MaxLogits: 1,
		Workspace: hold(d, gmg.MemWorkspace, d.WorkspaceBytes(g, r, 8, 1))}
	if _, err := d.Compile(good); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*gpuworker.ProgramSpec){
		"no weights":        func(s *gpuworker.ProgramSpec) { s.Weights = nil },
		"no KV":             func(s *gpuworker.ProgramSpec) { s.KV = nil },
		"small KV":          func(s *gpuworker.ProgramSpec) { s.KVBlocks = 3 },
		"no input":          func(s *gpuworker.ProgramSpec) { s.In = nil },
		"no output":         func(s *gpuworker.ProgramSpec) { s.Out = nil },
		"small rows":        func(s *gpuworker.ProgramSpec) { s.MaxRows = 9 },
		"no workspace":      func(s *gpuworker.ProgramSpec) { s.Workspace = nil },
		"foreign input":     func(s *gpuworker.ProgramSpec) { s.In = hold(other, gmg.MemStaging, hidden) },
		"foreign workspace": func(s *gpuworker.ProgramSpec) { s.Workspace = hold(other, gmg.MemWorkspace, good.Workspace.Bytes()) },
	} {
		bad := good
		spoil(&bad)
		if _, err := d.Compile(bad); !errors.Is(err, gpuworker.ErrBadBuffer) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p, err := d.Compile(good)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Enqueue(gpuworker.QueueHome, p, prompt(0, 1)).Err(); !errors.Is(err, gpuworker.ErrBadBuffer) {
		t.Errorf("a program of another device: %v", err)
	}
}

func (s suite) badBatches(t *testing.T) {
	d, m := s.device(t, "t/dev0"), enginetest.Miniature(t, nil)
	r := load(t, d, m, m.Graph.Whole())
	for name, spoil := range map[string]func(*gpuworker.Batch){
		"no rows":            func(b *gpuworker.Batch) { b.Tokens, b.Sequences = nil, nil },
		"too many rows":      func(b *gpuworker.Batch) { *b = *prompt(0, maxRows+1) },
		"unknown token":      func(b *gpuworker.Batch) { b.Tokens[3] = int32(m.Graph.Vocab) },
		"negative token":     func(b *gpuworker.Batch) { b.Tokens[3] = -1 },
		"page beyond":        func(b *gpuworker.Batch) { b.Sequences[0].Blocks[0] = kvBlocks },
		"too few pages":      func(b *gpuworker.Batch) { b.Sequences[0].Blocks = b.Sequences[0].Blocks[:1] },
		"negative position":  func(b *gpuworker.Batch) { b.Sequences[0].Start = -1 },
		"beyond the context": func(b *gpuworker.Batch) { b.Sequences[0].Start = m.Graph.ContextTokens },
		"rows of no one":     func(b *gpuworker.Batch) { b.Sequences[0].Rows-- },
		"gap":                func(b *gpuworker.Batch) { b.Sequences[0].First++ },
		"logits beyond":      func(b *gpuworker.Batch) { b.LogitRows = []int32{40} },
		"logits twice":       func(b *gpuworker.Batch) { b.LogitRows = []int32{3, 3} },
		"too many logits":    func(b *gpuworker.Batch) { b.LogitRows = []int32{1, 2, 3, 4, 5} },
	} {
		b := prompt(0, 20)
		spoil(b)
		if err := r.Run(gpuworker.QueueHome, 0, b).Err(); !errors.Is(err, gpuworker.ErrBadBatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, r.Run(gpuworker.QueueHome, 0, prompt(0, 20)))
}

// priority queues many borrowed steps, then one home step of another slice: it must not wait for all of them.
func (s suite) priority(t *testing.T) {
	d, m := s.device(t, "t/dev0"), enginetest.Miniature(t, nil)
	lent, home := load(t, d, m, m.Graph.Whole()), load(t, d, m, m.Graph.Whole())
	must(t, lent.Run(gpuworker.QueueHome, 0, prompt(0, 60)))
	want := logits(t, lent)
	const n = 40
	var borrowed [n]gpuworker.Event
	for i := range n {
		borrowed[i] = lent.Run(gpuworker.QueueBorrowed, 0, prompt(0, 60))
	}
	must(t, home.Run(gpuworker.QueueHome, 0, prompt(0, 60)))
	select {
	case <-borrowed[n-1].Done():
		t.Error("the home step waited for all borrowed ones")
	default:
	}
	if !slices.Equal(logits(t, home), want) {
		t.Error("a home step between the operators of a borrowed one has other logits")
	}
	for _, e := range borrowed {
		must(t, e)
	}
	if !slices.Equal(logits(t, lent), want) {
		t.Error("a borrowed step that was interrupted has other logits")
	}
}

func (s suite) events(t *testing.T) {
	d, m := s.device(t, "t/dev0"), enginetest.Miniature(t, nil)
	r := load(t, d, m, m.Graph.Whole())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				e := r.Run(gpuworker.QueueHome, 0, prompt(0, 5))
				<-e.Done()
				<-e.Done()
				if e.Err() != nil {
					t.Error(e.Err())
				}
			}
		})
	}
	wg.Wait()
}

func (s suite) closePending(t *testing.T) {
	d, m := s.open(t, "t/dev0"), enginetest.Miniature(t, nil)
	r, err := gpuworker.LoadSlice(t.Context(), d, m, gpuworker.SliceConfig{Graph: m.Graph, Stages: m.Graph.Whole(), KVBlocks: kvBlocks, MaxRows: maxRows, MaxLogits: 4}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var events []gpuworker.Event
	for i := range 100 {
		events = append(events, r.Run(gpuworker.Queue(i%2), 0, prompt(0, 60)))
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	ended := 0
	for _, e := range events {
		select {
		case <-e.Done():
		default:
			t.Fatal("Close returned with an event that isn't done")
		}
		if err := e.Err(); errors.Is(err, gpuworker.ErrDeviceClosed) {
			ended++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if ended == 0 {
		t.Error("no step was pending; the test tests nothing")
	}
	if l := d.Ledger(); l.HeldBytes() != 0 {
		t.Errorf("a closed device holds %v", l.Held)
	}
	if err := r.Close(); err != nil {
		t.Errorf("releasing a slice after its device closed: %v", err)
	}
}

func (s suite) afterClose(t *testing.T) {
	d, m := s.open(t, "t/dev0"), enginetest.Miniature(t, nil)
	b := reserve(t, d, gmg.MemStaging, 100)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if _, err := d.Reserve(gmg.MemKV, 1); !errors.Is(err, gpuworker.ErrDeviceClosed) {
		t.Errorf("reserve: %v", err)
	}
	w, host, err := m.Weight(1, "attn_q.weight")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.LoadWeight(t.Context(), w, host); !errors.Is(err, gpuworker.ErrDeviceClosed) {
		t.Errorf("load: %v", err)
	}
	if err := d.Upload(gpuworker.QueueHome, b, 0, make([]byte, 8)).Err(); !errors.Is(err, gpuworker.ErrDeviceClosed) && !errors.Is(err, gpuworker.ErrBadBuffer) {
		t.Errorf("upload: %v", err)
	}
	if d.Describe().Healthy {
		t.Error("a closed device calls itself healthy")
	}
}
