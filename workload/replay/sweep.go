package replay

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"slicescheduler/planner"
)

// Figures of a sweep.
const (
	baseline   = "static"
	bound      = "pool"
	subject    = "slice"
	goodFactor = 1.5 // of the baseline's capacity, where goodput is measured
)

// curveFactors are the loads of a curve, as multiples of the baseline's capacity.
func curveFactors() []float64 { return []float64{0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8} }

// Sweep compares policies on scenarios.
type Sweep struct {
	Setups   []*Setup
	Policies []string
	Lab      *Lab
	Workers  int        // runs at a time, at least 1
	Base     RunOptions // plan cost, clock, disturbances, interruption
	// Grid lists the settings of a policy's knobs; nil: planner.KnobGrid.
	Grid func(policy string) []planner.Knobs
	// Plan is told how many runs the sweep is thought to need in all. It may be nil.
	Plan func(runs int)
}

// PolicyOutcome is what one policy made of one scenario.
type PolicyOutcome struct {
	Policy        string
	Knobs         planner.Knobs
	Capacity      Capacity
	Good          []*Result // at GoodLoad, one a seed
	Saturated     []*Result // at SaturatedLoad, one a seed
	Curve         []*Result // one seed
	Detail        *Result   // at GoodLoad, with its detail
	LenderRisePts float64   // the most that a lender's own violation rate at GoodLoad lies above what the baseline has there
	Problem       string    // why there are no figures
}

// ScenarioOutcome is a scenario's share of a sweep.
type ScenarioOutcome struct {
	Setup         *Setup
	GoodLoad      float64 // 0 without the baseline
	SaturatedLoad float64 // 0 without the bound
	Policies      []PolicyOutcome
}

// Of returns a policy's outcome, or nil.
func (s *ScenarioOutcome) Of(policy string) *PolicyOutcome {
	for i := range s.Policies {
		if s.Policies[i].Policy == policy {
			return &s.Policies[i]
		}
	}
	return nil
}

// Run tunes every policy's knobs, finds its capacity, and takes its figures at loads that depend on the baseline's and the bound's capacity. What was done
// before and is in the lab's store isn't done again.
func (s *Sweep) Run() ([]ScenarioOutcome, error) {
	out := make([]ScenarioOutcome, len(s.Setups))
	var searches []func() error
	for i, p := range s.Setups {
		out[i] = ScenarioOutcome{Setup: p, Policies: make([]PolicyOutcome, len(s.Policies))}
		for k, policy := range s.Policies {
			o := &out[i].Policies[k]
			o.Policy = policy
			searches = append(searches, func() error { return s.search(p, o) })
		}
	}
	s.plan()
	if err := s.parallel(searches); err != nil {
		return out, err
	}
	var figures []func() error
	for i := range out {
		figures = append(figures, s.figures(&out[i])...)
	}
	if err := s.parallel(figures); err != nil {
		return out, err
	}
	for i := range out {
		out[i].compareLenders()
	}
	return out, nil
}

// Runs that a search and the figures of one policy on one scenario are thought to need.
const (
	runsOfSetting = 2
	runsOfSearch  = 18
)

func (s *Sweep) plan() {
	if s.Plan == nil {
		return
	}
	runs := 0
	for _, policy := range s.Policies {
		if n := len(s.grid(policy)); n > 1 {
			runs += n*runsOfSetting + runsOfSearch/2
		}
		runs += runsOfSearch + 2*len(s.Lab.Seeds) + len(curveFactors()) + 1
	}
	s.Plan(runs * len(s.Setups))
}

func (s *Sweep) grid(policy string) []planner.Knobs {
	if s.Grid != nil {
		return s.Grid(policy)
	}
	return planner.KnobGrid(policy)
}

// options are those of a run of a policy.
func (s *Sweep) options(o *PolicyOutcome) RunOptions {
	r := s.Base
	r.Policy, r.Knobs, r.Part = o.Policy, o.Knobs, ""
	return r
}

// search tunes a policy and finds its capacity. A policy that can't place the tenants has none; that is an outcome, not an error.
func (s *Sweep) search(p *Setup, o *PolicyOutcome) error {
	knobs, hint, err := s.Lab.Tune(p, s.options(o), s.grid(o.Policy), 1)
	if err == nil {
		o.Knobs = knobs
		o.Capacity, err = s.Lab.Capacity(p, s.options(o), hint)
	}
	if errors.Is(err, ErrPlacement) {
		o.Problem = err.Error()
		return nil
	}
	return err
}

// figures lists the runs that are left to do for a scenario.
func (s *Sweep) figures(out *ScenarioOutcome) []func() error {
	if b := out.Of(baseline); b != nil {
		out.GoodLoad = goodFactor * b.Capacity.Load
	}
	if b := out.Of(bound); b != nil {
		out.SaturatedLoad = b.Capacity.Load
	}
	var tasks []func() error
	run := func(o *PolicyOutcome, load float64, seed uint64, detail bool, to **Result) {
		r := s.options(o)
		r.Load, r.Seed, r.Detail = load, seed, detail
		tasks = append(tasks, func() (err error) {
			*to, err = s.Lab.run(out.Setup, r)
			return err
		})
	}
	for i := range out.Policies {
		o := &out.Policies[i]
		if o.Problem != "" {
			continue
		}
		if out.GoodLoad > 0 {
			o.Good = make([]*Result, len(s.Lab.Seeds))
			for k, seed := range s.Lab.Seeds {
				run(o, out.GoodLoad, seed, false, &o.Good[k])
			}
			o.Curve = make([]*Result, len(curveFactors()))
			for k, f := range curveFactors() {
				run(o, gridLoad(gridIndex(f*out.GoodLoad/goodFactor)), s.Lab.Seeds[0], false, &o.Curve[k])
			}
			run(o, out.GoodLoad, s.Lab.Seeds[0], true, &o.Detail)
		}
		if out.SaturatedLoad > 0 {
			o.Saturated = make([]*Result, len(s.Lab.Seeds))
			for k, seed := range s.Lab.Seeds {
				run(o, out.SaturatedLoad, seed, false, &o.Saturated[k])
			}
		}
	}
	return tasks
}

// compareLenders finds by how much lending raised a tenant's own violations.
func (s *ScenarioOutcome) compareLenders() {
	base := s.Of(baseline)
	if base == nil || len(base.Good) == 0 {
		return
	}
	for i := range s.Policies {
		o := &s.Policies[i]
		for t := range s.Setup.Tenants {
			rise, lent := 0.0, len(o.Good) > 0
			for k, r := range o.Good {
				lent = lent && r.Tenants[t].Lender
				rise += (r.Tenants[t].ViolationsPct - base.Good[k].Tenants[t].ViolationsPct) / float64(len(o.Good))
			}
			if lent {
				o.LenderRisePts = max(o.LenderRisePts, rise)
			}
		}
	}
}

// parallel does tasks on the sweep's workers and returns the first error, after which no more are begun.
func (s *Sweep) parallel(tasks []func() error) error {
	var mu sync.Mutex
	var first error
	next := 0
	take := func() func() error {
		mu.Lock()
		defer mu.Unlock()
		if first != nil || next == len(tasks) {
			return nil
		}
		next++
		return tasks[next-1]
	}
	var wait sync.WaitGroup
	for range max(1, s.Workers) {
		wait.Go(func() {
			for task := take(); task != nil; task = take() {
				if err := task(); err != nil {
					mu.Lock()
					if first == nil {
						first = err
					}
					mu.Unlock()
				}
			}
		})
	}
	wait.Wait()
	return first
}

// mean averages a figure over runs; 0 of none.
func mean(runs []*Result, of func(*Result) float64) float64 {
	sum := 0.0
	for _, r := range runs {
		sum += of(r) / float64(len(runs))
	}
	return sum
}

// Line sums an outcome up for a log.
func (o *PolicyOutcome) Line() string {
	if o.Problem != "" {
		return o.Policy + ": " + o.Problem
	}
	return fmt.Sprintf("%s: capacity %.3g, %.1f %% there", o.Policy, o.Capacity.Load, math.Round(10*o.Capacity.ViolationsPct)/10)
}
