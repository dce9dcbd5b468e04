package replay

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"sync"

	"slicescheduler/gmg"
	"slicescheduler/whatif"
	"slicescheduler/workload/costs"
)

// view says whose costs are meant.
type view uint8

const (
	asMeasured view = iota // by the tables: what planners are told
	asTrue                 // what a world's devices really take: each operator of each device is off by a seeded factor
	asMistaken             // what a planner is told in a test of robustness: half of the operators are off by 30 %
)

// Figures of the views.
const (
	trueSpread    = 0.1 // standard deviation of a true operator's factor
	trueLimit     = 0.3 // by which it is off at most
	mistakenBy    = 0.3
	teachAccuracy = 1e-12
)

// costStore compiles programs and keeps them. It is safe for concurrent use.
type costStore struct {
	profiles string
	mu       sync.Mutex
	models   map[string]*modelCosts
	engines  map[engineKey]*whatif.EngineKind
	sources  map[sourceKey]whatif.CostSource
	programs map[programKey]*whatif.Program
	curves   map[engineKey]*aloneCurve
}

type modelCosts struct {
	architecture whatif.Architecture
	graph        *gmg.Graph
}

type engineKey struct {
	hardware, model string // model is empty for an engine
	maxSequences    int
}

// sourceKey names an operator source; device is -1 where all of a kind are alike.
type sourceKey struct {
	hardware, model string
	maxSequences    int
	view            view
	seed            uint64
	device          int
}

type programKey struct {
	sourceKey
	stages gmg.Range
}

func newCostStore(profiles string) *costStore {
	return &costStore{
		profiles: profiles, models: map[string]*modelCosts{}, engines: map[engineKey]*whatif.EngineKind{}, sources: map[sourceKey]whatif.CostSource{},
		programs: map[programKey]*whatif.Program{}, curves: map[engineKey]*aloneCurve{},
	}
}

func (c *costStore) model(name string) (*modelCosts, error) {
	if m, ok := c.models[name]; ok {
		return m, nil
	}
	a, err := whatif.FindArchitecture(name)
	if err != nil {
		return nil, err
	}
	c.models[name] = &modelCosts{a, a.Graph(1)}
	return c.models[name], nil
}

// graph returns a model's graph, always the same one.
func (c *costStore) graph(model string) (*gmg.Graph, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, err := c.model(model)
	if err != nil {
		return nil, err
	}
	return m.graph, nil
}

// engine returns the engine kind of a hardware kind, always the same one.
func (c *costStore) engine(h whatif.Hardware, maxSequences int) *whatif.EngineKind {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.engineLocked(h, maxSequences)
}

func (c *costStore) engineLocked(h whatif.Hardware, maxSequences int) *whatif.EngineKind {
	k := engineKey{h.Name, "", maxSequences}
	if _, ok := c.engines[k]; !ok {
		c.engines[k] = whatif.VLLM(h, maxSequences)
	}
	return c.engines[k]
}

// program compiles stages of a model, or returns what was compiled before.
func (c *costStore) program(h whatif.Hardware, k programKey) (*whatif.Program, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.programs[k]; ok {
		return p, nil
	}
	m, err := c.model(k.model)
	if err != nil {
		return nil, err
	}
	source, err := c.source(h, m, k.sourceKey)
	if err != nil {
		return nil, err
	}
	p, err := whatif.Compile(m.graph, k.stages, source, whatif.Parallelism{})
	if err != nil {
		return nil, err
	}
	c.programs[k] = p
	return p, nil
}

func (c *costStore) source(h whatif.Hardware, m *modelCosts, k sourceKey) (whatif.CostSource, error) {
	if s, ok := c.sources[k]; ok {
		return s, nil
	}
	var s whatif.CostSource
	if k.view == asMeasured {
		tables, err := costs.Open(c.profiles, h.Name, m.architecture.Name, 1)
		if err != nil {
			return nil, err
		}
		s = costs.Source(tables, h, m.architecture, 1, c.engineLocked(h, k.maxSequences), whatif.ExpertGroup{})
	} else {
		measured, err := c.source(h, m, sourceKey{k.hardware, k.model, k.maxSequences, asMeasured, 0, -1})
		if err != nil {
			return nil, err
		}
		s = k.correction(m.graph).Source(measured)
	}
	c.sources[k] = s
	return s, nil
}

// correction holds the factors by which a view's operators are off.
func (k sourceKey) correction(g *gmg.Graph) *whatif.Correction {
	c := &whatif.Correction{}
	for i := range g.Blocks {
		for _, op := range g.Blocks[i].Operators {
			teach(c, op.Name, k.factor(op.Name))
		}
	}
	return c
}

// factor draws an operator's factor, the same for the same key and name.
func (k sourceKey) factor(operator string) float64 {
	r := seeded(k.seed, "factor", k.hardware, k.model, operator, string(rune('0'+k.view)), string(rune(k.device+1)))
	if k.view == asTrue {
		return 1 + min(trueLimit, max(-trueLimit, trueSpread*r.NormFloat64()))
	}
	switch r.IntN(4) {
	case 0:
		return 1 - mistakenBy
	case 1:
		return 1 + mistakenBy
	}
	return 1
}

// seeded returns a random stream of its own for a seed and some words.
func seeded(seed uint64, words ...string) *rand.Rand {
	h := fnv.New64a()
	for _, w := range words {
		_, _ = h.Write([]byte(w)) // a hash takes everything
		_, _ = h.Write([]byte{0})
	}
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// teach makes a correction believe in a factor. It learns slowly from one observation, so it is told more than the truth until it has arrived.
func teach(c *whatif.Correction, operator string, factor float64) {
	const slowness, boldest = 16, 4
	for range 64 {
		now := c.Factor(operator)
		if math.Abs(now-factor) < teachAccuracy {
			return
		}
		c.Observe(operator, 1, min(now*boldest, max(now/boldest, now+slowness*(factor-now))))
	}
}

// catalog is a store as one run sees it. Each goroutine has its own.
type catalog struct {
	setup *Setup
	view  view
	seed  uint64
	kept  map[catalogKey]*whatif.Program
}

type catalogKey struct {
	model  string
	device int
	stages gmg.Range
}

func (p *Setup) catalog(v view, seed uint64) *catalog {
	if v == asMeasured {
		seed = 0
	}
	return &catalog{setup: p, view: v, seed: seed, kept: map[catalogKey]*whatif.Program{}}
}

// Program implements whatif.Catalog.
func (c *catalog) Program(tenant, device int, stages gmg.Range) (*whatif.Program, error) {
	p := c.setup
	if tenant < 0 || tenant >= len(p.Tenants) || device < 0 || device >= len(p.devices) {
		return nil, whatif.ErrSpec
	}
	at := device
	if c.view != asTrue {
		at = -1
	}
	k := catalogKey{p.Tenants[tenant].Model, at, stages}
	if prog, ok := c.kept[k]; ok {
		return prog, nil
	}
	s := sourceKey{p.hardware.Name, k.model, p.Scenario.Tenants.MaxSequences, c.view, c.seed, at}
	prog, err := p.costs.program(p.hardware, programKey{s, stages})
	if err == nil {
		c.kept[k] = prog
	}
	return prog, err
}
