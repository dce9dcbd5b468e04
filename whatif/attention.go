package whatif

import (
	"fmt"
	"math"
	"slices"
)

// attentionRow is one measurement of attention over a chunk of prefill and a number of decodes of equal context.
type attentionRow struct {
	chunk, chunkContext, decodes, decodeContext int
	ns                                          float64
}

// axis is one dimension of a grid.
type axis []int

// find returns the grid cell of x and the position in it: 0 at the lower end, above 1 beyond the grid, never below 0.
func (a axis) find(x float64) (lo int, t float64) {
	if len(a) < 2 || x <= float64(a[0]) {
		return 0, 0
	}
	lo, hi := 0, len(a)-1
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; float64(a[mid]) <= x {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo, (x - float64(a[lo])) / float64(a[lo+1]-a[lo])
}

// attentionCost is attention measured over (prefill chunk, prefill context, decodes, decode context), linear in each between measurements: the kernels'
// time is linear in the keys they read, whatever the spacing of the grid. Decodes of unequal context cost more than as many of the mean context;
// how much more is a measured share (skew) of the way to all being as long as the longest.
type attentionCost struct {
	chunk, chunkContext, decodes, decodeContext axis
	ns                                          []float64 // [chunk][chunkContext][decodes][decodeContext]
	skew                                        *skewTable
	kernel                                      *DecodeKernel
}

// newAttention builds the full grid from measurements whose sub-grids may differ by (chunk, decodes).
func newAttention(rows []attentionRow, skew *skewTable) (*attentionCost, error) {
	if len(rows) == 0 {
		return nil, fmt.Errorf("%w: no measurements of attention", ErrTable)
	}
	c := &attentionCost{skew: skew}
	for _, r := range rows {
		c.chunk, c.chunkContext = append(c.chunk, r.chunk), append(c.chunkContext, r.chunkContext)
		c.decodes, c.decodeContext = append(c.decodes, r.decodes), append(c.decodeContext, r.decodeContext)
	}
	for _, a := range []*axis{&c.chunk, &c.chunkContext, &c.decodes, &c.decodeContext} {
		slices.Sort(*a)
		*a = slices.Compact(*a)
	}
	if c.chunk[0] != 0 {
		return nil, fmt.Errorf("%w: attention has no rows without a prefill chunk", ErrTable)
	}
	c.ns = make([]float64, len(c.chunk)*len(c.chunkContext)*len(c.decodes)*len(c.decodeContext))
	slicesOf := map[[2]int][]attentionRow{}
	for _, r := range rows {
		k := [2]int{r.chunk, r.decodes}
		slicesOf[k] = append(slicesOf[k], r)
	}
	filled := make([]bool, len(c.chunk)*len(c.decodes))
	for i, chunk := range c.chunk {
		for j, decodes := range c.decodes {
			if sub := slicesOf[[2]int{chunk, decodes}]; sub != nil {
				c.fillSlice(i, j, sub)
				filled[i*len(c.decodes)+j] = true
			}
		}
	}
	return c, c.extend(filled)
}

func (c *attentionCost) index(i, k, j, l int) int {
	return ((i*len(c.chunkContext)+k)*len(c.decodes)+j)*len(c.decodeContext) + l
}

// fillSlice resamples one (chunk, decodes) slice onto the common axes. These hold every point of the slice's own, so nothing changes in between.
func (c *attentionCost) fillSlice(i, j int, rows []attentionRow) {
	byContext := map[int][]point{}
	for _, r := range rows {
		byContext[r.chunkContext] = append(byContext[r.chunkContext], point{r.decodeContext, r.ns})
	}
	contexts := make([]int, 0, len(byContext))
	for k, p := range byContext {
		contexts = append(contexts, k)
		slices.SortFunc(p, func(a, b point) int { return a.at - b.at })
	}
	slices.Sort(contexts)
	for l, context := range c.decodeContext {
		column := make([]point, len(contexts))
		for n, k := range contexts {
			column[n] = point{k, lerp(byContext[k], float64(context))}
		}
		for k, at := range c.chunkContext {
			c.ns[c.index(i, k, j, l)] = lerp(column, float64(at))
		}
	}
}

// lerp interpolates in sorted points, extends above them and is constant below.
func lerp(p []point, x float64) float64 {
	if len(p) == 1 || x <= float64(p[0].at) {
		return p[0].ns
	}
	k := len(p) - 2
	for k > 0 && float64(p[k].at) > x {
		k--
	}
	a, b := p[k], p[k+1]
	return a.ns + (b.ns-a.ns)*(x-float64(a.at))/float64(b.at-a.at)
}

// extend fills slices that were not measured. No chunk and no decodes is the smallest chunk, since a launch is what it costs; more decodes beside a
// chunk than were measured go on as the last two did.
func (c *attentionCost) extend(filled []bool) error {
	nd := len(c.decodes)
	for i := len(c.chunk) - 1; i >= 0; i-- {
		for j := range nd {
			if filled[i*nd+j] {
				continue
			}
			switch {
			case i == 0 && j == 0 && c.decodes[0] == 0 && len(c.chunk) > 1 && filled[nd]:
				c.each(func(k, l int) { c.ns[c.index(0, k, 0, l)] = c.ns[c.index(1, k, 0, l)] })
			case j >= 2 && filled[i*nd+j-1] && filled[i*nd+j-2]:
				t := float64(c.decodes[j]-c.decodes[j-2]) / float64(c.decodes[j-1]-c.decodes[j-2])
				c.each(func(k, l int) {
					a, b := c.ns[c.index(i, k, j-2, l)], c.ns[c.index(i, k, j-1, l)]
					c.ns[c.index(i, k, j, l)] = a + (b-a)*t
				})
			default:
				return fmt.Errorf("%w: attention was not measured for a chunk of %d beside %d decodes", ErrTable, c.chunk[i], c.decodes[j])
			}
			filled[i*nd+j] = true
		}
	}
	return nil
}

func (c *attentionCost) each(f func(k, l int)) {
	for k := range c.chunkContext {
		for l := range c.decodeContext {
			f(k, l)
		}
	}
}

// Ns implements Cost.
func (c *attentionCost) Ns(sh *Shape) int64 {
	if sh.PrefillTokens == 0 && sh.Decodes == 0 {
		return 1
	}
	// Several prompts in one step attend to less than one prompt of their total length. The context that gives one chunk the same work may then be
	// negative, and the grid goes on linearly below zero.
	q, context := float64(sh.PrefillTokens), 0.0
	if sh.PrefillTokens > 0 {
		context = (float64(sh.PrefillWork)/q - q) / 2
	}
	mean := 0.0
	if sh.Decodes > 0 {
		mean = float64(sh.DecodeContext) / float64(sh.Decodes)
	}
	if c.kernel != nil {
		return roundNs(c.kernel.ns(c, sh, q, context, mean))
	}
	ns := c.at(q, context, float64(sh.Decodes), mean)
	if c.skew != nil && sh.Decodes > 1 && float64(sh.DecodeMax) > mean {
		rate := (mean - float64(sh.DecodeMin)) / float64(sh.DecodeMax-sh.DecodeMin)
		if alpha := c.skew.alpha(sh.PrefillTokens, sh.Decodes, rate, sh.DecodeMax, context); alpha != 0 {
			if longest := c.at(q, context, float64(sh.Decodes), float64(sh.DecodeMax)); longest > ns {
				ns += alpha * (longest - ns)
			}
		}
	}
	return roundNs(ns)
}

// at interpolates in all four dimensions.
func (c *attentionCost) at(chunk, chunkContext, decodes, decodeContext float64) float64 {
	i, ti := c.chunk.find(chunk)
	j, tj := c.decodes.find(decodes)
	l, tl := c.decodeContext.find(decodeContext)
	if ti == 0 {
		return c.overContext(i, chunk, chunkContext, j, tj, l, tl)
	}
	a := c.overContext(i, chunk, chunkContext, j, tj, l, tl)
	b := c.overContext(i+1, chunk, chunkContext, j, tj, l, tl)
	return a + (b-a)*ti
}

// overContext interpolates over the prefill's context within one chunk size.
func (c *attentionCost) overContext(i int, chunk, context float64, j int, tj float64, l int, tl float64) float64 {
	if c.chunk[i] == 0 || len(c.chunkContext) < 2 {
		return c.plane(i, 0, j, tj, l, tl)
	}
	if context < 0 {
		// The slope of the work below zero is the one measured up to a context as long as the chunk; next to zero it drowns in noise.
		k, _ := c.chunkContext.find(chunk)
		k = max(1, min(k+1, len(c.chunkContext)-1))
		a, b := c.plane(i, 0, j, tj, l, tl), c.plane(i, k, j, tj, l, tl)
		return math.Max(a+(b-a)*context/float64(c.chunkContext[k]), a/4)
	}
	k, tk := c.chunkContext.find(context)
	a := c.plane(i, k, j, tj, l, tl)
	if tk == 0 {
		return a
	}
	return a + (c.plane(i, k+1, j, tj, l, tl)-a)*tk
}

// plane interpolates over decodes and their context.
func (c *attentionCost) plane(i, k, j int, tj float64, l int, tl float64) float64 {
	base := c.index(i, k, j, l)
	a := c.ns[base]
	if tl != 0 {
		a += (c.ns[base+1] - a) * tl
	}
	if tj == 0 {
		return a
	}
	base += len(c.decodeContext)
	b := c.ns[base]
	if tl != 0 {
		b += (c.ns[base+1] - b) * tl
	}
	return a + (b-a)*tj
}
