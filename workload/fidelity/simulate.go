package fidelity

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"slicescheduler/batching"
	"slicescheduler/whatif"
)

// tables reads the cost tables of a run's hardware, model and tensor-parallel degree.
func (r *Run) tables(profilesDir string) (*whatif.Tables, error) {
	dir := filepath.Join(profilesDir, r.Engine.Hardware, filepath.FromSlash(r.Engine.Model), "bf16", fmt.Sprintf("tp%d", max(r.Engine.Kwargs.TensorParallel, 1)))
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("no cost tables for %s on %s: %w", r.Engine.Model, r.Engine.Hardware, err)
	}
	var files whatif.TableFiles
	var closers []io.Closer
	defer func() {
		for _, c := range closers {
			c.Close()
		}
	}()
	for name, to := range map[string]*io.Reader{
		"dense.csv": &files.Dense, "per_sequence.csv": &files.PerSequence, "attention.csv": &files.Attention, "moe.csv": &files.Experts, "skew_fit.csv": &files.Skew,
	} {
		f, err := os.Open(filepath.Join(dir, name))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		closers = append(closers, f)
		*to = f
	}
	t, err := whatif.ReadTables(files)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return t, nil
}

// spec describes the recorded server to the simulator.
func (r *Run) spec(t *whatif.Tables, h whatif.Hardware) (*whatif.Spec, error) {
	a, err := whatif.FindArchitecture(r.Engine.Model)
	if err != nil {
		return nil, err
	}
	e := &r.Engine
	tp, dp := max(e.Kwargs.TensorParallel, 1), max(e.Kwargs.DataParallel, 1)
	kind := whatif.VLLM(h, e.Kwargs.MaxSequences)
	peers := h.Peers
	if peers.BandwidthBytesPerS == 0 {
		peers = whatif.Collective{LatencyNs: e.LinkLatencyNs, BandwidthBytesPerS: e.LinkBandwidth}
	}
	var par whatif.Parallelism
	group := whatif.ExpertGroup{Experts: a.Experts, TopK: a.TopK, Members: 1}
	if tp > 1 {
		par.Tensor = peers
		par.Tensor.Members = tp
	}
	if e.Kwargs.ExpertParallel && a.Experts > 0 && dp > 1 {
		par.Expert = peers
		par.Expert.Members, group.Members = dp, dp
	}
	g := a.Graph(tp)
	source := whatif.Source(t.Scaled(h.TableScale).WithKernel(h.Kernel(a, tp, kind)), group, whatif.Roofline{FLOPS: h.FLOPS, BandwidthBytesPerS: h.BandwidthBytesPerS})
	program, err := whatif.Compile(g, g.Whole(), source, par)
	if err != nil {
		return nil, err
	}
	lane := whatif.LaneSpec{Engine: kind, ColdNs: h.Host.ColdNs, Batching: r.batching(a, h, tp, group.Members)}
	s := &whatif.Spec{KeepRecords: true, Tenants: []whatif.TenantSpec{{ID: r.Name, Requests: r.requests()}}}
	lockstep := group.Members > 1 // ranks that share no experts run each by itself
	for rank := range dp {
		slice := whatif.SliceSpec{Device: len(s.Devices), Program: program}
		for k := range tp {
			if k > 0 {
				slice.Gang = append(slice.Gang, len(s.Devices))
			}
			s.Devices = append(s.Devices, whatif.DeviceSpec{ID: fmt.Sprintf("%s:%d", e.Hardware, rank*tp+k)})
		}
		lane.Ranks = append(lane.Ranks, whatif.RankSpec{Slices: []whatif.SliceSpec{slice}})
		if !lockstep {
			s.Tenants[0].Lanes = append(s.Tenants[0].Lanes, lane)
			lane.Ranks = nil
		}
	}
	if lockstep {
		s.Tenants[0].Lanes = []whatif.LaneSpec{lane}
	}
	return s, nil
}

// batching is the server's scheduler.
func (r *Run) batching(a whatif.Architecture, h whatif.Hardware, tp, expertMembers int) batching.Config {
	e := &r.Engine
	c := batching.Config{
		BlockTokens: e.BlockTokens, MaxBatchTokens: e.Kwargs.MaxBatchTokens, MaxSequences: e.Kwargs.MaxSequences, MaxChunkTokens: e.MaxChunkTokens,
		Order: batching.OrderStrict, InFlight: 1, PrefixReuse: e.PrefixReuse, AdmitWhole: e.ReserveFull, MaxContext: a.ContextTokens,
	}
	if e.AsyncSchedule {
		c.InFlight, c.Overlap = 2, batching.OverlapAll
	}
	if e.Kwargs.MaxModelLength > 0 {
		c.MaxContext = e.Kwargs.MaxModelLength
	}
	blocks := e.KVBlocks
	if blocks == 0 {
		memory := e.MemoryBytes
		if memory == 0 {
			memory = h.MemoryBytes
		}
		g := a.Graph(tp)
		weights := g.WeightBytes(g.Whole())
		if expertMembers > 1 {
			expert := int64(6*a.Hidden*a.Intermediate) * int64(a.Experts) * int64(a.Layers)
			weights -= expert - expert/int64(expertMembers)
		}
		free := int64(float64(memory)*e.Utilization) - weights - activationBytes
		blocks = int(free / (g.KVBytesPerToken(g.Whole()) * batching.DefaultBlockTokens))
	}
	c.KVBlocks = blocks - 1 // vLLM keeps one as a null page
	return c
}

// activationBytes is set aside for activations and the CUDA context where a recording doesn't tell how many pages there were: what the RTX 4090 run's pages
// and weights leave of its 90 % of memory.
const activationBytes = 115 << 30 / 100

// requests are the workload's, arriving when the recorded client sent them.
func (r *Run) requests() []whatif.Request {
	out := make([]whatif.Request, len(r.Workload))
	first := r.Answers[0].ArrivalS
	for i, w := range r.Workload {
		out[i] = whatif.Request{ArrivalNs: w.ArrivalNs, PromptTokens: w.PromptTokens, OutputTokens: w.OutputTokens}
		if first > 0 {
			out[i].ArrivalNs = r.Workload[0].ArrivalNs + int64(math.Round((r.Answers[i].ArrivalS-first)*1e9))
		}
		if i > 0 {
			out[i].ArrivalNs = max(out[i].ArrivalNs, out[i-1].ArrivalNs)
		}
		out[i].Blocks = make([]batching.BlockHash, len(w.Blocks))
		for k, id := range w.Blocks {
			out[i].Blocks[k] = batching.BlockHash{uint64(id), 1}
		}
	}
	return out
}

// simulate runs a recorded workload and returns what became of each request, and the state at the times of the recorded series.
func (r *Run) simulate(t *whatif.Tables, h whatif.Hardware, mode whatif.Mode) ([]whatif.Record, whatif.Forecast, []Sample, error) {
	spec, err := r.spec(t, h)
	if err != nil {
		return nil, whatif.Forecast{}, nil, err
	}
	s, err := whatif.New(spec, mode)
	if err != nil {
		return nil, whatif.Forecast{}, nil, err
	}
	pages := 0
	for _, l := range spec.Tenants[0].Lanes {
		pages += l.Batching.KVBlocks * len(l.Ranks)
	}
	origin := spec.Tenants[0].Requests[0].ArrivalNs - int64(r.seriesOffsetS()*1e9)
	var series []Sample
	for _, row := range r.Series {
		s.Run(origin + int64(row.AtS*1e9))
		f := s.Forecast().Tenants[0]
		series = append(series, Sample{AtS: row.AtS, Running: f.Running, Waiting: f.Waiting, KVPct: 100 * float64(f.KVBlocksHeld) / float64(pages)})
	}
	s.Drain()
	return s.Records(0), s.Forecast(), series, nil
}
