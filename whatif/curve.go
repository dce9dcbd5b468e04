package whatif

import (
	"fmt"
	"math"
	"slices"
)

// point is one measurement of a one-dimensional table.
type point struct {
	at int
	ns float64
}

// curve is a measured time over one integer, linear between measurements, extended from the last two above them and constant below. It is tabulated up
// to its last measurement, so a look-up is an index.
type curve struct {
	table []int64 // ns at 0, 1, 2 ...
	slope float64 // ns for each one above the last
}

func newCurve(points []point) (curve, error) {
	if len(points) == 0 {
		return curve{}, fmt.Errorf("%w: no measurements", ErrTable)
	}
	slices.SortFunc(points, func(a, b point) int { return a.at - b.at })
	last := points[len(points)-1]
	if last.at > maxCurve {
		return curve{}, fmt.Errorf("%w: measured at %d, at most %d is supported", ErrTable, last.at, maxCurve)
	}
	c := curve{table: make([]int64, last.at+1)}
	k := 0
	for x := range c.table {
		for k+1 < len(points) && points[k+1].at <= x {
			k++
		}
		c.table[x] = roundNs(segment(points, k, x))
	}
	if n := len(points); n > 1 {
		c.slope = max(0, (points[n-1].ns-points[n-2].ns)/float64(points[n-1].at-points[n-2].at))
	}
	return c, nil
}

// maxCurve bounds the memory of a tabulated curve.
const maxCurve = 1 << 20

// segment interpolates on the segment that starts at point k.
func segment(p []point, k, x int) float64 {
	if x <= p[0].at || k+1 >= len(p) {
		return p[min(k, len(p)-1)].ns
	}
	a, b := p[k], p[k+1]
	return a.ns + (b.ns-a.ns)*float64(x-a.at)/float64(b.at-a.at)
}

func (c *curve) at(x int) int64 {
	if x < len(c.table) {
		return c.table[max(x, 0)]
	}
	last := len(c.table) - 1
	return c.table[last] + int64(math.Round(c.slope*float64(x-last)))
}

// roundNs turns a time into whole nanoseconds, at least 1.
func roundNs(ns float64) int64 { return max(1, int64(math.Round(ns))) }

// tokensCost is a weight operator: its time depends on the rows of the step.
type tokensCost struct{ curve }

// Ns implements Cost.
func (c tokensCost) Ns(sh *Shape) int64 { return c.at(sh.Tokens) }

// logitsCost is an operator of the head: one row for each item.
type logitsCost struct{ curve }

// Ns implements Cost.
func (c logitsCost) Ns(sh *Shape) int64 { return c.at(sh.Logits) }
