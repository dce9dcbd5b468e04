package replay

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"slicescheduler/gmg"
	"slicescheduler/planner"
	"slicescheduler/whatif"
	"slicescheduler/workload"
	"slicescheduler/workload/costs"
)

// Setup is a scenario with its trace and costs, ready to be run. It isn't changed by runs, and may be used by several goroutines.
type Setup struct {
	Scenario *Scenario
	Tenants  []TenantSetup // by name
	Rejected int           // rows of the trace that can't be used
	costs    *costStore
	hardware whatif.Hardware
	scored   []piece // by tenant
	tuning   []piece // by tenant
	windowNs int64
	tuneNs   int64
	devices  []planner.Device
	links    []whatif.LinkSpec
	alone    []*aloneCurve // by tenant
}

// TenantSetup is a tenant of a scenario.
type TenantSetup struct {
	ID    string
	Rank  int // by demand, 0 has the most
	Model string
	Home  int // device
	graph *gmg.Graph
}

// piece are a tenant's arrivals within a part of the trace, counted from its start.
type piece []workload.Arrival

// Open reads a scenario's trace and cost tables. dataDir is where they lie (traces/.., profiles/..); empty is enough for a scenario that generates its
// trace, whose operators then cost what rooflines say.
func Open(s *Scenario, dataDir string) (*Setup, error) {
	h, err := whatif.FindHardware(s.Devices.Kind)
	if err != nil {
		return nil, err
	}
	trace, err := s.trace(dataDir)
	if err != nil {
		return nil, err
	}
	profiles := ""
	if s.Trace.Generate == nil && dataDir != "" {
		profiles = filepath.Join(dataDir, "profiles")
	}
	p := &Setup{Scenario: s, Rejected: len(trace.Rejected), costs: newCostStore(profiles), hardware: h}
	if err := p.cut(trace); err != nil {
		return nil, err
	}
	p.layCluster()
	for i := range p.Tenants {
		t := &p.Tenants[i]
		if t.graph, err = p.costs.graph(t.Model); err != nil {
			return nil, err
		}
		curve, err := p.costs.alone(h, t.Model, s.Tenants.MaxSequences)
		if err != nil {
			return nil, fmt.Errorf("tenant %s alone: %w", t.ID, err)
		}
		p.alone = append(p.alone, curve)
	}
	return p, nil
}

// trace reads or generates the scenario's trace.
func (s *Scenario) trace(dataDir string) (*workload.Trace, error) {
	if g := s.Trace.Generate; g != nil {
		length := max(s.WindowS, s.TuneToS)
		if s.TuneToS == 0 {
			length = 2 * s.WindowS
		}
		return g.workload(int64(length * 1e9)).Generate()
	}
	path := filepath.FromSlash(s.Trace.File)
	if !filepath.IsAbs(path) {
		path = filepath.Join(dataDir, path)
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("trace of %s: %w; set SLICER_DATA to the directory that holds traces and profiles, or replay synthetic-8, which needs neither", s.Name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("trace of %s: %w", s.Name, err)
	}
	defer f.Close()
	return workload.ReadTrace(f, path, workload.TraceLimits{})
}

// cut ranks the trace's tenants and cuts out the scored piece and the one for tuning.
func (p *Setup) cut(trace *workload.Trace) error {
	s := p.Scenario
	p.windowNs = int64(s.WindowS * 1e9)
	from, to := int64(s.TuneFromS*1e9), int64(s.TuneToS*1e9)
	if to == 0 {
		from, to = p.windowNs, 2*p.windowNs
	}
	names := trace.Tenants()
	index := make(map[string]int, len(names))
	for i, n := range names {
		index[n] = i
	}
	demand := make([]int64, len(names))
	p.Tenants, p.scored, p.tuning = make([]TenantSetup, len(names)), make([]piece, len(names)), make([]piece, len(names))
	tuned := false
	for _, a := range trace.Arrivals {
		i := index[a.Tenant]
		demand[i] += int64(a.PromptTokens + a.OutputTokens)
		if a.ArrivalNs < p.windowNs {
			p.scored[i] = append(p.scored[i], a)
		}
		if a.ArrivalNs >= from && a.ArrivalNs < to {
			a.ArrivalNs -= from
			p.tuning[i] = append(p.tuning[i], a)
			tuned = true
		}
	}
	p.tuneNs = to - from
	if !tuned { // a short trace: there is nothing else to learn from
		p.tuning, p.tuneNs = p.scored, p.windowNs
	}
	ranks := make([]int, len(names))
	for i := range ranks {
		ranks[i] = i
	}
	slices.SortStableFunc(ranks, func(a, b int) int { return cmp.Compare(demand[b], demand[a]) })
	for rank, i := range ranks {
		p.Tenants[i] = TenantSetup{ID: names[i], Rank: rank, Model: s.Tenants.modelOf(rank), Home: snake(rank, s.Devices.Count)}
		if p.Tenants[i].ID == "" {
			p.Tenants[i].ID = "tenant"
		}
	}
	return p.checkContexts()
}

// snake deals ranks to devices to and fro, so that who shares a device with a busy tenant is quiet.
func snake(rank, devices int) int {
	round, at := rank/devices, rank%devices
	if round%2 == 1 {
		return devices - 1 - at
	}
	return at
}

// checkContexts leaves out requests that a tenant's model can't hold.
func (p *Setup) checkContexts() error {
	left := 0
	for i := range p.Tenants {
		a, err := whatif.FindArchitecture(p.Tenants[i].Model)
		if err != nil {
			return err
		}
		for _, pieces := range [][]piece{p.scored, p.tuning} {
			before := len(pieces[i])
			pieces[i] = slices.DeleteFunc(slices.Clone(pieces[i]), func(r workload.Arrival) bool { return r.PromptTokens+r.OutputTokens > a.ContextTokens })
			p.Rejected += before - len(pieces[i])
			left += len(pieces[i])
		}
	}
	if left == 0 {
		return fmt.Errorf("%w: %s: its trace has no request within %g s that the models could serve", ErrScenario, p.Scenario.Name, p.Scenario.WindowS)
	}
	return nil
}

// layCluster lists devices, and a link for each ordered pair of them.
func (p *Setup) layCluster() {
	s := p.Scenario
	for d := range s.Devices.Count {
		p.devices = append(p.devices, planner.Device{
			ID: fmt.Sprintf("%s-%d", s.Devices.Kind, d), Kind: p.hardware.Name, Host: d / s.Devices.PerHost,
			MemoryBytes: costs.ServingBytes(p.hardware.MemoryBytes, costs.DefaultUtilization), LoadBytesPerS: s.Devices.LoadGBPerS * 1e9,
		})
	}
	const bits = 8
	for from := range p.devices {
		for to := range p.devices {
			if from == to {
				continue
			}
			l := whatif.LinkSpec{From: from, To: to, BandwidthBytesPerS: s.Links.PeerGBPerS * 1e9, LatencyNs: int64(s.Links.PeerLatencyUs * 1e3)}
			if p.devices[from].Host != p.devices[to].Host {
				l.BandwidthBytesPerS, l.LatencyNs = s.Links.BetweenGbitPerS*1e9/bits, int64(s.Links.BetweenLatencyUs*1e3)
			}
			p.links = append(p.links, l)
		}
	}
}

// FindData returns the directory of traces and cost tables: the one named, else ../shared seen from the working directory or one above it. It returns
// nothing where there is none.
func FindData(named string) (string, error) {
	if named != "" {
		if info, err := os.Stat(named); err != nil || !info.IsDir() {
			return "", fmt.Errorf("%w: SLICER_DATA is %s, which is no directory", ErrScenario, named)
		}
		return named, nil
	}
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		dir := filepath.Join(filepath.Dir(at), "shared")
		if info, err := os.Stat(filepath.Join(dir, "traces")); err == nil && info.IsDir() {
			return dir, nil
		}
		if at == filepath.Dir(at) {
			return "", nil
		}
		at = filepath.Dir(at)
	}
}
