package replay

import (
	"errors"
	"maps"

	"slicescheduler/planner"
	"slicescheduler/workload/report"
)

// Robustness tests of a sweep.
const (
	staleStateNs = 200_000_000
	failedPct    = 5
)

// variant is the subject with something taken from it or done to it.
type variant struct {
	name    string
	off     string // a switch
	disturb Disturb
}

func ablations() []variant {
	var out []variant
	for _, name := range planner.Switches(subject) {
		out = append(out, variant{name: "without " + name, off: name})
	}
	return out
}

func disturbances() []variant {
	return []variant{
		{name: "costs of half of the operators wrong by 30 %", disturb: Disturb{WrongCosts: true}},
		{name: "states 200 ms old", disturb: Disturb{StaleNs: staleStateNs}},
		{name: "5 % of actions fail", disturb: Disturb{FailPct: failedPct}},
		{name: "all three", disturb: Disturb{WrongCosts: true, StaleNs: staleStateNs, FailPct: failedPct}},
	}
}

// Variants finds the subject's capacity, and its figures at the load of the goodput, with each of its switches off and under each disturbance. out is what
// Run returned. One seed decides.
func (s *Sweep) Variants(out []ScenarioOutcome) (ablation, robustness []report.Variant, err error) {
	one := *s
	lab := *s.Lab
	lab.Seeds = lab.Seeds[:1]
	one.Lab = &lab
	var tasks []func() error
	table := func(variants []variant) []report.Variant {
		rows := make([]report.Variant, 0, (len(variants)+1)*len(out)) // never grown, as tasks point into it
		for i := range out {
			o := out[i].Of(subject)
			if o == nil || o.Problem != "" || out[i].GoodLoad == 0 {
				continue
			}
			for _, v := range append([]variant{{name: "as it is"}}, variants...) {
				rows = append(rows, report.Variant{Name: v.name, Scenario: out[i].Setup.Scenario.Name})
				row := &rows[len(rows)-1]
				tasks = append(tasks, func() error { return one.variant(&out[i], o, v, row) })
			}
		}
		return rows
	}
	ablation, robustness = table(ablations()), table(disturbances())
	return ablation, robustness, one.parallel(tasks)
}

func (s *Sweep) variant(sc *ScenarioOutcome, o *PolicyOutcome, v variant, row *report.Variant) error {
	r := s.options(o)
	r.Seed, r.Disturb = s.Lab.Seeds[0], v.disturb
	if v.off != "" {
		r.Knobs = maps.Clone(o.Knobs)
		if r.Knobs == nil {
			r.Knobs = planner.Knobs{}
		}
		r.Knobs[v.off] = 0
	}
	capacity, err := s.Lab.Capacity(sc.Setup, r, o.Capacity.Load)
	if errors.Is(err, ErrPlacement) {
		return nil // the row's zeroes say so
	}
	if err != nil {
		return err
	}
	r.Load = sc.GoodLoad
	good, err := s.Lab.run(sc.Setup, r)
	if err != nil {
		return err
	}
	row.Figures = report.Figures{Capacity: capacity.Load, GoodTokensPerS: good.GoodTokensPerS, ViolationsPct: good.ViolationsPct}
	row.MemoryViolations = good.MemoryViolations
	if sc.SaturatedLoad > 0 {
		r.Load = sc.SaturatedLoad
		full, err := s.Lab.run(sc.Setup, r)
		if err != nil {
			return err
		}
		row.SaturatedTokensPerS = full.TokensPerS
		row.MemoryViolations += full.MemoryViolations
	}
	return nil
}
