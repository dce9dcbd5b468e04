package fidelity

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"slicescheduler/whatif"
)

// The figures that belong to an engine version or a hardware kind are few, and were fitted to recorded runs. A figure that holds for one run only would
// show when that run is left out of the fitting: CrossCheck does so for each in turn.

// figure is one fitted number: how to set it, what it is where no run tells, where a fit starts and how far it moves. One that is read off the first
// request of a run, not fitted, moves by 0.
type figure struct {
	name                  string
	fallback, start, step float64
	set                   func(h *whatif.Hardware, v float64)
	hardware              string // of this kind only; empty: of the engine
}

func figures() []figure {
	return []figure{
		{"decode ns a token", 32, 30, 3, func(h *whatif.Hardware, v float64) { h.NsPerToken = v }, ""},
		{"RTX4090 table scale", 1, 1, 0.01, func(h *whatif.Hardware, v float64) { h.TableScale = v }, "RTX4090"},
		{"RTXPRO6000 decode step us", 0, 800, 200, func(h *whatif.Hardware, v float64) { h.Host.DecodeStepNs = int64(v * 1e3) }, "RTXPRO6000"},
		{"RTXPRO6000 prefill layer us", 0, 100, 40, func(h *whatif.Hardware, v float64) { h.Host.PrefillLayerNs = int64(v * 1e3) }, "RTXPRO6000"},
		{"RTX4090 cold ms", 0, 387, 0, func(h *whatif.Hardware, v float64) { h.Host.ColdNs = int64(v * 1e6) }, "RTX4090"},
		{"RTXPRO6000 cold ms", 0, 80, 0, func(h *whatif.Hardware, v float64) { h.Host.ColdNs = int64(v * 1e6) }, "RTXPRO6000"},
	}
}

// prepared is a run with its tables.
type prepared struct {
	run    *Run
	tables *whatif.Tables
	base   whatif.Hardware // without fitted figures
}

func prepare(dirs []string, profilesDir string) ([]prepared, error) {
	var out []prepared
	for _, dir := range dirs {
		r, err := Load(dir)
		if err != nil {
			return nil, err
		}
		h, err := whatif.FindHardware(r.Engine.Hardware)
		if err != nil {
			return nil, err
		}
		t, err := r.tables(profilesDir)
		if err != nil {
			return nil, err
		}
		h.Host, h.TableScale, h.NsPerToken = whatif.HostFigure{}, 1, 0
		out = append(out, prepared{r, t, h})
	}
	return out, nil
}

// hardware is a run's hardware with figures set.
func (p *prepared) hardware(fs []figure, values []float64) whatif.Hardware {
	h := p.base
	for i, f := range fs {
		if f.hardware == "" || f.hardware == h.Name {
			f.set(&h, values[i])
		}
	}
	return h
}

// loss is what a fit makes small: errors of means and of single requests, in per cent.
func loss(runs []prepared, fs []figure, values []float64) (float64, error) {
	sum := 0.0
	for i := range runs {
		res, err := runs[i].run.compare(runs[i].tables, runs[i].hardware(fs, values), whatif.Fast)
		if err != nil {
			return 0, err
		}
		for k, m := range res.Metrics {
			sum += 0.3*math.Abs(m.ErrPct) + meanAbs(m.Statistics)*0.1
			if k > 0 {
				sum += m.PerRequestP50Pct
			}
		}
	}
	return sum, nil
}

func meanAbs(s []Statistic) float64 {
	sum := 0.0
	for i := range s {
		sum += math.Abs(s[i].ErrPct)
	}
	return sum / float64(max(len(s), 1))
}

// fit searches figures that make the loss small, from their start, by the simplex method (Nelder and Mead, 1965). Figures that none of the runs depends on
// keep their fallback.
func fit(runs []prepared, fs []figure, evaluations int) ([]float64, error) {
	values := make([]float64, len(fs))
	var active []int
	for i, f := range fs {
		values[i] = f.fallback
		for k := range runs {
			if f.hardware == "" || f.hardware == runs[k].base.Name {
				values[i] = f.start
				if f.step > 0 {
					active = append(active, i)
				}
				break
			}
		}
	}
	var failed error
	at := func(x []float64) []float64 {
		v := append([]float64(nil), values...)
		for k, i := range active {
			v[i] = max(0, values[i]+x[k]*fs[i].step)
		}
		return v
	}
	best := simplex(len(active), evaluations, func(x []float64) float64 {
		got, err := loss(runs, fs, at(x))
		if err != nil {
			failed = err
		}
		return got
	})
	return at(best), failed
}

// corner is one point of a simplex with its value.
type corner struct {
	x []float64
	f float64
}

// simplex minimises f from the origin with steps of one.
func simplex(n, evaluations int, f func([]float64) float64) []float64 {
	s := make([]corner, n+1)
	for i := range s {
		s[i].x = make([]float64, n)
		if i > 0 {
			s[i].x[i-1] = 1
		}
		s[i].f = f(s[i].x)
	}
	for used := n + 1; used < evaluations; {
		slices.SortStableFunc(s, func(a, b corner) int { return cmp.Compare(a.f, b.f) })
		middle := make([]float64, n)
		for _, c := range s[:n] {
			for k := range middle {
				middle[k] += c.x[k] / float64(n)
			}
		}
		worst := &s[n]
		try := func(t float64) corner {
			used++
			x := between(middle, worst.x, t)
			return corner{x, f(x)}
		}
		switch c := try(-1); {
		case c.f < s[0].f:
			if far := try(-2); far.f < c.f {
				c = far
			}
			*worst = c
		case c.f < s[n-1].f:
			*worst = c
		default:
			if c = try(0.5); c.f < worst.f {
				*worst = c
				continue
			}
			for i := 1; i <= n; i++ {
				s[i].x = between(s[0].x, s[i].x, 0.5)
				s[i].f = f(s[i].x)
				used++
			}
		}
	}
	return slices.MinFunc(s, func(a, b corner) int { return cmp.Compare(a.f, b.f) }).x
}

// between is a + t(b-a).
func between(a, b []float64, t float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] + t*(b[i]-a[i])
	}
	return out
}

// CrossCheck fits all figures to all runs, then to all runs but one for each, and prints the figures and the errors of the means, of the run that was
// left out too. It takes minutes.
func CrossCheck(dirs []string, profilesDir string, evaluations int, out io.Writer) error {
	runs, err := prepare(dirs, profilesDir)
	if err != nil {
		return err
	}
	fs := figures()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for left := -1; left < len(runs); left++ {
		var used []prepared
		name := "fitted to all"
		for i := range runs {
			if i != left {
				used = append(used, runs[i])
			} else {
				name = "without " + filepath.Base(dirs[i])
			}
		}
		values, err := fit(used, fs, evaluations)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s\t", name)
		for i, f := range fs {
			fmt.Fprintf(w, "%s %.4g; ", f.name, values[i])
		}
		fmt.Fprintln(w)
		for i := range runs {
			if left >= 0 && i != left {
				continue
			}
			res, err := runs[i].run.compare(runs[i].tables, runs[i].hardware(fs, values), whatif.Fast)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "  %s\t", res.Run)
			for _, m := range res.Metrics {
				fmt.Fprintf(w, "%s %+.2f%% (requests P50 %.2f%%, P95 %.2f%%)  ", m.Name, m.ErrPct, m.PerRequestP50Pct, m.PerRequestP95Pct)
			}
			fmt.Fprintln(w)
		}
	}
	return w.Flush()
}
