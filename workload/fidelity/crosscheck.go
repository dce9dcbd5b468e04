package fidelity

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"text/tabwriter"

	"slicescheduler/whatif"
)

// The figures that belong to an engine version or a hardware kind are few, and were fitted to recorded runs. A figure that holds for one run only would
// show when that run is left out of the fitting: CrossCheck does so for each in turn.

// figure is one fitted number: how to set it, what it is where no run tells, where a fit starts and how far it moves.
type figure struct {
	name                  string
	fallback, start, step float64
	set                   func(h *whatif.Hardware, v float64)
	hardware              string // of this kind only; empty: of the engine
}

func figures() []figure {
	return []figure{
		{"decode ns a token", 35.5, 35.5, 3, func(h *whatif.Hardware, v float64) { h.NsPerToken = v }, ""},
		{"mixed factor", 1.8, 1.8, 0.1, func(h *whatif.Hardware, v float64) { h.MixedFactor = v }, ""},
		{"RTX4090 table scale", 1, 1, 0.01, func(h *whatif.Hardware, v float64) { h.TableScale = v }, "RTX4090"},
		{"RTXPRO6000 decode step us", 0, 800, 200, func(h *whatif.Hardware, v float64) { h.Host.DecodeStepNs = int64(v * 1e3) }, "RTXPRO6000"},
		{"RTXPRO6000 prefill layer us", 0, 100, 40, func(h *whatif.Hardware, v float64) { h.Host.PrefillLayerNs = int64(v * 1e3) }, "RTXPRO6000"},
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
		h.Host, h.TableScale, h.NsPerToken, h.MixedFactor = whatif.HostFigure{}, 1, 0, 0
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

// fit moves one figure at a time, with steps that shrink when none helps. Figures that none of the runs depends on keep their
// fallback.
func fit(runs []prepared, fs []figure, rounds int) ([]float64, error) {
	values, steps := make([]float64, len(fs)), make([]float64, len(fs))
	active := make([]bool, len(fs))
	for i, f := range fs {
		values[i], steps[i] = f.fallback, f.step
		for k := range runs {
			active[i] = active[i] || f.hardware == "" || f.hardware == runs[k].base.Name
		}
		if active[i] {
			values[i] = f.start
		}
	}
	best, err := loss(runs, fs, values)
	if err != nil {
		return nil, err
	}
	for range rounds {
		improved := false
		for i := range fs {
			if !active[i] {
				continue
			}
			for _, sign := range []float64{1, -1} {
				was := values[i]
				values[i] = max(0, was+sign*steps[i])
				got, err := loss(runs, fs, values)
				if err != nil {
					return nil, err
				}
				if got < best {
					best, improved = got, true
					break
				}
				values[i] = was
			}
		}
		if !improved {
			for i := range steps {
				steps[i] /= 2
			}
		}
	}
	return values, nil
}

// CrossCheck fits all figures to all runs, then to all runs but one for each, and prints the figures and the errors of the means, of the run that was
// left out too. It takes minutes.
func CrossCheck(dirs []string, profilesDir string, rounds int, out io.Writer) error {
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
		values, err := fit(used, fs, rounds)
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
