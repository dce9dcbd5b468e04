package whatif

import (
	"slices"
	"strings"

	"slicescheduler/gmg"
)

// Correction learns how much longer a device's operators take than their costs say. Observations move a factor slowly and within bounds, so that a hiccup
// doesn't and a wrong table can't turn forecasts over. The zero value corrects nothing. Use one for each device.
type Correction struct {
	factors []correctionFactor // by name
}

type correctionFactor struct {
	name   string
	factor float64
}

// Bounds of a correction.
const (
	minCorrection     = 0.5
	maxCorrection     = 2
	correctionWeight  = 1.0 / 16 // of one observation
	correctionHiccups = 4        // a measurement this many times off counts as so many
)

// Observe takes in what an operator was forecast to take and what it took.
func (c *Correction) Observe(operator string, forecastNs, measuredNs float64) {
	if forecastNs <= 0 || measuredNs <= 0 {
		return
	}
	i, ok := c.find(operator)
	if !ok {
		c.factors = slices.Insert(c.factors, i, correctionFactor{operator, 1})
	}
	f := &c.factors[i].factor
	ratio := min(max(measuredNs/forecastNs, *f/correctionHiccups), *f*correctionHiccups)
	*f = min(max(*f+(ratio-*f)*correctionWeight, minCorrection), maxCorrection)
}

// Factor is what an operator's cost is to be multiplied by.
func (c *Correction) Factor(operator string) float64 {
	if i, ok := c.find(operator); ok {
		return c.factors[i].factor
	}
	return 1
}

func (c *Correction) find(operator string) (int, bool) {
	return slices.BinarySearchFunc(c.factors, operator, func(f correctionFactor, name string) int { return strings.Compare(f.name, name) })
}

// Source corrects another source's costs by what was learned so far; what is compiled keeps these factors.
func (c *Correction) Source(of CostSource) CostSource {
	return func(op *gmg.Operator) (Cost, error) {
		cost, err := of(op)
		if f := c.Factor(op.Name); err == nil && f != 1 {
			return correctedCost{cost, f}, nil
		}
		return cost, err
	}
}

// correctedCost multiplies a cost.
type correctedCost struct {
	cost   Cost
	factor float64
}

// Ns implements Cost.
func (c correctedCost) Ns(sh *Shape) int64 { return roundNs(float64(c.cost.Ns(sh)) * c.factor) }

func (c correctedCost) onlyRows() bool {
	r, ok := c.cost.(rowsOnly)
	return ok && r.onlyRows()
}
