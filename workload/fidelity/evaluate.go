package fidelity

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"slicescheduler/whatif"
)

// Metric is one figure of a run: TTFT, TPOT or latency, in milliseconds. Times count from when the server queued a request, the only stamp that a
// recording has in the clock of its tokens.
type Metric struct {
	Name             string  `json:"-"`
	Real             float64 `json:"real"` // means over requests
	Sim              float64 `json:"sim"`
	ErrPct           float64 `json:"errPct"`
	PerRequestP50Pct float64 `json:"perRequestP50Pct"` // of the absolute error of single requests
	PerRequestP95Pct float64 `json:"perRequestP95Pct"`
	Statistics       []Statistic
}

// Statistic is a mean or percentile of reality, of ours and of the published simulator.
type Statistic struct {
	Name            string  `json:"name"` // Mean, Median, P90, P95, P99
	Real            float64 `json:"real"`
	Sim             float64 `json:"sim"`
	ErrPct          float64 `json:"errPct"`
	Published       float64 `json:"published,omitempty"` // 0: not known
	PublishedErrPct float64 `json:"publishedErrPct,omitempty"`
}

// Result compares one run.
type Result struct {
	Run      string
	Requests int
	Metrics  []Metric // TTFT, TPOT, Latency
	// DepartS is the first second of the recorded time series at which running, waiting or KV use is off by more than a tenth of its largest value;
	// -1 for never. Absent series have no entry.
	DepartS map[string]float64
	Series  []Sample // the simulated counterpart of the recorded time series
	Records []whatif.Record
	Totals  whatif.Forecast
}

// MarshalJSON writes {run, ttft: {real, sim, errPct, perRequestP50Pct, perRequestP95Pct, statistics}, tpot: .., latency: .., departS}.
func (r Result) MarshalJSON() ([]byte, error) {
	type metric struct {
		Metric
		Statistics []Statistic `json:"statistics"`
	}
	of := func(i int) metric { return metric{r.Metrics[i], r.Metrics[i].Statistics} }
	return json.Marshal(struct {
		Run      string             `json:"run"`
		Requests int                `json:"requests"`
		TTFT     metric             `json:"ttft"`
		TPOT     metric             `json:"tpot"`
		Latency  metric             `json:"latency"`
		DepartS  map[string]float64 `json:"departS,omitempty"`
	}{r.Run, r.Requests, of(0), of(1), of(2), r.DepartS})
}

// Evaluate replays the recording in dir with the cost tables under profilesDir.
func Evaluate(dir, profilesDir string) (Result, error) {
	r, t, h, err := open(dir, profilesDir)
	if err != nil {
		return Result{}, err
	}
	return r.compare(t, h, whatif.Fast)
}

// open reads a recording and finds what it ran on.
func open(dir, profilesDir string) (*Run, *whatif.Tables, whatif.Hardware, error) {
	r, err := Load(dir)
	if err != nil {
		return nil, nil, whatif.Hardware{}, err
	}
	h, err := whatif.FindHardware(r.Engine.Hardware)
	if err != nil {
		return nil, nil, h, fmt.Errorf("%s: %w", dir, err)
	}
	t, err := r.tables(profilesDir)
	if err != nil {
		return nil, nil, h, fmt.Errorf("%s: %w", dir, err)
	}
	return r, t, h, nil
}

func (r *Run) compare(t *whatif.Tables, h whatif.Hardware, mode whatif.Mode) (Result, error) {
	records, totals, series, err := r.simulate(t, h, mode)
	if err != nil {
		return Result{}, err
	}
	out := Result{Run: r.Name, Requests: len(records), Records: records, Totals: totals, Series: series, DepartS: r.depart(series)}
	var real, sim [3][]float64
	for i := range records {
		re, si, ok := r.times(i, &records[i])
		for k := range metricNames {
			if ok {
				real[k], sim[k] = append(real[k], re[k]), append(sim[k], si[k])
			}
		}
	}
	for k, name := range metricNames {
		out.Metrics = append(out.Metrics, r.metric(name, real[k], sim[k]))
	}
	return out, nil
}

// metricNames are the metrics in the order in which everything here keeps them.
var metricNames = [3]string{"TTFT", "TPOT", "Latency"}

// times returns one request's metrics in milliseconds, in reality and simulated; not ok when it has no last token in one of them.
func (r *Run) times(i int, s *whatif.Record) (real, sim [3]float64, ok bool) {
	a := &r.Answers[i]
	if s.LastNs == 0 || a.LastS == 0 {
		return real, sim, false
	}
	n := float64(max(1, r.Workload[i].OutputTokens-1))
	real = [3]float64{(a.FirstS - a.QueuedS) * 1e3, (a.LastS - a.FirstS) * 1e3 / n, (a.LastS - a.QueuedS) * 1e3}
	sim = [3]float64{float64(s.FirstNs-s.QueuedNs) / 1e6, float64(s.LastNs-s.FirstNs) / 1e6 / n, float64(s.LastNs-s.QueuedNs) / 1e6}
	return real, sim, true
}

func (r *Run) metric(name string, real, sim []float64) Metric {
	m := Metric{Name: name}
	errs := make([]float64, 0, len(real))
	for i := range real {
		if real[i] > 0 {
			errs = append(errs, math.Abs(sim[i]/real[i]-1)*100)
		}
	}
	m.PerRequestP50Pct, m.PerRequestP95Pct = percentile(errs, 0.5), percentile(errs, 0.95)
	for _, s := range []struct {
		name string
		of   func([]float64) float64
	}{
		{"Mean", mean},
		{"Median", func(v []float64) float64 { return percentile(v, 0.5) }},
		{"P90", func(v []float64) float64 { return percentile(v, 0.9) }},
		{"P95", func(v []float64) float64 { return percentile(v, 0.95) }},
		{"P99", func(v []float64) float64 { return percentile(v, 0.99) }},
	} {
		st := Statistic{Name: s.name, Real: s.of(real), Sim: s.of(sim), Published: r.Published[name+" "+s.name]}
		st.ErrPct = errPct(st.Sim, st.Real)
		if st.Published > 0 {
			st.PublishedErrPct = errPct(st.Published, st.Real)
		}
		m.Statistics = append(m.Statistics, st)
	}
	m.Real, m.Sim, m.ErrPct = m.Statistics[0].Real, m.Statistics[0].Sim, m.Statistics[0].ErrPct
	return m
}

func errPct(sim, real float64) float64 {
	if real == 0 {
		return 0
	}
	return (sim/real - 1) * 100
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(max(len(v), 1))
}

// percentile interpolates linearly between the two nearest values, as numpy does.
func percentile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Clone(v)
	slices.Sort(s)
	at := q * float64(len(s)-1)
	lo := int(at)
	if lo+1 == len(s) {
		return s[lo]
	}
	return s[lo] + (s[lo+1]-s[lo])*(at-float64(lo))
}
