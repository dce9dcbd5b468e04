package whatif

import (
	"fmt"
	"math"
	"slices"
)

// expertRow is one measurement of a mixture-of-experts block on one device.
type expertRow struct {
	rows, experts int
	ns            float64
}

// expertsCost is a mixture-of-experts block measured over rows and over the experts that they reach, linear in both.
type expertsCost struct {
	experts axis
	curves  [][]point // by experts, over rows
	group   ExpertGroup
}

// ExpertGroup says how a model's experts are spread over a data-parallel group of devices.
type ExpertGroup struct {
	Experts int // of the model
	TopK    int // experts of a token
	Members int // devices that hold Experts/Members each
}

func newExperts(rows []expertRow, g ExpertGroup) (*expertsCost, error) {
	if len(rows) == 0 {
		return nil, fmt.Errorf("%w: no measurements of experts", ErrTable)
	}
	byExperts := map[int][]point{}
	for _, r := range rows {
		byExperts[r.experts] = append(byExperts[r.experts], point{r.rows, r.ns})
	}
	c := &expertsCost{group: g}
	for e := range byExperts {
		c.experts = append(c.experts, e)
	}
	slices.Sort(c.experts)
	for _, e := range c.experts {
		p := byExperts[e]
		slices.SortFunc(p, func(a, b point) int { return a.at - b.at })
		c.curves = append(c.curves, p)
	}
	return c, nil
}

// Reached returns how many of a device's experts rows reach on average when each row picks TopK of all at random.
func (g ExpertGroup) Reached(rows int) float64 {
	local := float64(g.Experts) / float64(max(g.Members, 1))
	return local * (1 - math.Pow(1-float64(g.TopK)/float64(g.Experts), float64(rows)))
}

// Ns implements Cost.
func (c *expertsCost) Ns(sh *Shape) int64 {
	rows := max(sh.GroupRows, sh.Tokens, 1)
	return roundNs(c.at(float64(rows)/float64(max(c.group.Members, 1)), c.group.Reached(rows)))
}

func (c *expertsCost) at(rows, experts float64) float64 {
	i, t := c.experts.find(experts)
	a := lerp(c.curves[i], rows)
	if t == 0 {
		return a
	}
	return a + (lerp(c.curves[i+1], rows)-a)*t
}
