package fidelity

import (
	"fmt"
	"io/fs"
	"math"

	"slicescheduler/batching"
	"slicescheduler/whatif"
	"slicescheduler/workload/costs"
)

// tables reads the cost tables of a run's hardware, model and tensor-parallel degree.
func (r *Run) tables(profilesDir string) (*whatif.Tables, error) {
	tp := max(r.Engine.Kwargs.TensorParallel, 1)
	t, err := costs.Open(profilesDir, r.Engine.Hardware, r.Engine.Model, tp)
	if err == nil && t == nil {
		err = fmt.Errorf("no cost tables for %s on %s at tensor parallelism %d in %s: %w", r.Engine.Model, r.Engine.Hardware, tp, profilesDir, fs.ErrNotExist)
	}
	return t, err
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
	program, err := whatif.Compile(g, g.Whole(), costs.Source(t, h, a, tp, kind, group), par)
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
		free := costs.ServingBytes(memory, e.Utilization) - weights
		blocks = int(free / (g.KVBytesPerToken(g.Whole()) * batching.DefaultBlockTokens))
	}
	c.KVBlocks = blocks - 1 // vLLM keeps one as a null page
	return c
}

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
