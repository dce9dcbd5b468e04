package replay

import (
	"errors"
	"fmt"
	"math"

	"slicescheduler/planner"
)

// LimitPct is the violation rate up to which a load counts as carried.
const LimitPct = 9

// Loads are tried on a grid of 3 % steps around 1, so that what was run once serves all searches.
const (
	gridStep  = 1.03
	lowestK   = -170 // about 1/150
	highestK  = 235  // about 1000
	firstLeap = 8
)

func gridLoad(k int) float64 { return math.Pow(gridStep, float64(k)) }

func gridIndex(load float64) int {
	return min(max(int(math.Floor(math.Log(load)/math.Log(gridStep)+1e-9)), lowestK), highestK)
}

// Lab does runs, remembering them, and searches with them. Several goroutines may use one.
type Lab struct {
	Store *Store
	// Done is told of each run that was wanted; known says that it had been done before. It may be nil, and is called from any goroutine.
	Done func(r *Result, known bool)
	// Seeds of the world's noise; violation rates are means over them.
	Seeds []uint64
}

// run does one run, unless it is known.
func (l *Lab) run(p *Setup, o RunOptions) (*Result, error) {
	key, err := p.key(&o)
	if err != nil {
		return nil, err
	}
	if !o.Detail {
		if r := l.Store.get(key, o.StopAbovePct); r != nil {
			l.tell(r, true)
			return r, nil
		}
	}
	r, err := p.Run(o)
	if err != nil {
		return nil, err
	}
	l.tell(r, false)
	return r, l.Store.put(key, r)
}

func (l *Lab) tell(r *Result, known bool) {
	if l.Done != nil {
		l.Done(r, known)
	}
}

// carries says whether the mean violation rate over some seeds stays within the limit, and what it is where it does.
func (l *Lab) carries(p *Setup, o RunOptions, seeds []uint64) (bool, float64, error) {
	sum, most := 0.0, LimitPct*float64(len(seeds))
	for _, seed := range seeds {
		o.Seed, o.StopAbovePct = seed, most-sum
		if o.StopAbovePct <= 0 {
			o.StopAbovePct = math.SmallestNonzeroFloat64
		}
		r, err := l.run(p, o)
		if err != nil {
			return false, 0, err
		}
		if sum += r.ViolationsPct; sum > most {
			return false, sum / float64(len(seeds)), nil
		}
	}
	return true, sum / float64(len(seeds)), nil
}

// Capacity is the largest load that a policy carries.
type Capacity struct {
	Load          float64 // 0: not even the smallest
	ViolationsPct float64 // there
}

// Capacity finds the largest load on the grid of 3 % that the policy in o carries, beginning near a hint: first by one seed, then by the mean over all.
func (l *Lab) Capacity(p *Setup, o RunOptions, hint float64) (Capacity, error) {
	k, _, err := l.climb(p, o, l.Seeds[:1], gridIndex(hint), firstLeap)
	if err == nil && len(l.Seeds) > 1 && k >= lowestK {
		k, _, err = l.climb(p, o, l.Seeds, k, 1)
	}
	if err != nil || k < lowestK {
		return Capacity{}, err
	}
	o.Load = gridLoad(k)
	_, pct, err := l.carries(p, o, l.Seeds)
	return Capacity{o.Load, pct}, err
}

// climb finds the largest grid index that is carried, in leaps that double from a start and then halve; below lowestK means none.
func (l *Lab) climb(p *Setup, o RunOptions, seeds []uint64, start, leap int) (int, float64, error) {
	best := math.NaN()
	at := func(k int) (bool, error) {
		o.Load = gridLoad(k)
		ok, pct, err := l.carries(p, o, seeds)
		if ok {
			best = pct
		}
		return ok, err
	}
	low, high := start, start
	ok, err := at(start)
	for err == nil && ok && high == low && low < highestK {
		next := min(low+leap, highestK)
		if ok, err = at(next); ok {
			low, high = next, next
		} else {
			high = next
		}
		leap *= 2
	}
	if err == nil && !ok && high == low {
		for low >= lowestK {
			high, low = low, low-leap
			leap *= 2
			if low < lowestK {
				low = lowestK - 1
				break
			}
			if ok, err = at(low); ok || err != nil {
				break
			}
		}
	}
	for err == nil && high-low > 1 {
		mid := (low + high) / 2
		if ok, err = at(mid); ok {
			low = mid
		} else {
			high = mid
		}
	}
	return low, best, err
}

// Tune returns the knobs, out of a policy's grid, that carry the largest load on the piece of the trace that isn't scored, and that load. One seed
// decides. A setting that doesn't carry more than the best so far is soon found out, since lost runs end early.
func (l *Lab) Tune(p *Setup, o RunOptions, grid []planner.Knobs, hint float64) (planner.Knobs, float64, error) {
	if len(grid) < 2 {
		return firstKnobs(grid), hint, nil
	}
	o.Part = Tuning
	best, bestK, bestPct := firstKnobs(grid), lowestK-1, math.Inf(1)
	var failed error
	for i, knobs := range grid {
		o.Knobs = knobs
		start, leap := max(bestK, lowestK), 1
		if i == 0 {
			start, leap = gridIndex(hint), firstLeap
		} else {
			// Not even as good as the best so far: the search downwards would be wasted.
			o.Load = gridLoad(start)
			ok, pct, err := l.carries(p, o, l.Seeds[:1])
			if err != nil && !errors.Is(err, ErrInterrupted) {
				failed = err
				continue
			}
			if err != nil {
				return nil, 0, err
			}
			if !ok {
				continue
			}
			if pct < bestPct {
				best, bestPct = knobs, pct
			}
		}
		k, pct, err := l.climb(p, o, l.Seeds[:1], start, leap)
		if errors.Is(err, ErrInterrupted) {
			return nil, 0, err
		}
		if err != nil {
			failed = err
			continue
		}
		if k > bestK {
			best, bestK, bestPct = knobs, k, pct
		}
	}
	if bestK < lowestK {
		if failed != nil {
			return nil, 0, fmt.Errorf("no setting of %s's knobs can be run: %w", o.Policy, failed)
		}
		return best, hint, nil
	}
	return best, gridLoad(bestK), nil
}

func firstKnobs(grid []planner.Knobs) planner.Knobs {
	if len(grid) == 0 {
		return nil
	}
	return grid[0]
}
