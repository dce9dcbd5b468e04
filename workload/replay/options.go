package replay

import (
	"errors"
	"fmt"

	"slicescheduler/planner"
)

// Errors of a run.
var (
	ErrOptions     = errors.New("invalid options of a replay")
	ErrPlacement   = errors.New("the tenants can't be placed")
	ErrInterrupted = errors.New("replay was interrupted")
)

// Part of a trace.
type Part string

// Parts of a scenario's trace.
const (
	Scored Part = "scored"
	Tuning Part = "tuning"
)

// RunOptions say how one policy is run on a setup. They are comparable when written as JSON: what has an influence on figures is listed there.
type RunOptions struct {
	Policy string        `json:"policy"`
	Knobs  planner.Knobs `json:"knobs,omitempty"`
	Load   float64       `json:"load"`
	Seed   uint64        `json:"seed"`
	Part   Part          `json:"part,omitempty"` // empty: scored
	// PlanCostNs is what each plan is taken to cost; 0: what it really takes by Clock, which makes runs irreproducible.
	PlanCostNs int64   `json:"planCostNs,omitempty"`
	Disturb    Disturb `json:"disturb,omitzero"`
	// StopAbovePct ends a run as soon as its violation rate can't stay at or below this; 0: never.
	StopAbovePct float64 `json:"stopAbovePct,omitempty"`

	Clock  func() int64 `json:"-"` // monotonic, ns
	Detail bool         `json:"-"` // keep decisions and series
	// Make makes the policy; nil: planner.New.
	Make func(name string, k planner.Knobs) (planner.Policy, error) `json:"-"`
	// Interrupted ends a run early with ErrInterrupted; nil: never.
	Interrupted func() bool `json:"-"`
}

// Disturb is what a run does to a planner in a test of robustness. The zero value is nothing.
type Disturb struct {
	WrongCosts bool    `json:"wrongCosts,omitempty"` // half of the operators are thought to take 30 % more or less
	StaleNs    int64   `json:"staleNs,omitempty"`    // how old the states are that it sees
	FailPct    float64 `json:"failPct,omitempty"`    // of its actions that are lost
}

// Validate says what is wrong with options.
func (o *RunOptions) Validate() error {
	switch {
	case o.Load <= 0 || o.Load > 1e6:
		return fmt.Errorf("%w: load %g, must be above 0", ErrOptions, o.Load)
	case o.PlanCostNs < 0 || o.PlanCostNs == 0 && o.Clock == nil:
		return fmt.Errorf("%w: the cost of a plan is %d ns and there is no clock to measure it", ErrOptions, o.PlanCostNs)
	case o.Disturb.StaleNs < 0 || o.Disturb.FailPct < 0 || o.Disturb.FailPct > 100:
		return fmt.Errorf("%w: states %d ns old and %g %% of actions failing; want 0 or more, and 0 to 100", ErrOptions, o.Disturb.StaleNs, o.Disturb.FailPct)
	case o.Part != "" && o.Part != Scored && o.Part != Tuning:
		return fmt.Errorf("%w: unknown part %q of the trace", ErrOptions, o.Part)
	}
	return nil
}
