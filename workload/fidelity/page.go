package fidelity

import (
	_ "embed" // the page
	"encoding/json"
	"fmt"
	"html/template"
	"io"

	"slicescheduler/workload/plot"
)

//go:embed assets/page.html
var pageTemplate string

//go:embed assets/page.css
var pageStyle string

//go:embed assets/page.js
var pageScript string

// pageData is what a page plots: one value for each request that both reality and the simulation finished, by arrival.
type pageData struct {
	Run     string       `json:"run"`
	Request []int        `json:"request"` // row of the workload, from 0
	Metrics []pageMetric `json:"metrics"`
	Series  *pageSeries  `json:"series,omitempty"`
}

type pageMetric struct {
	Name string    `json:"name"`
	Real []float64 `json:"real"` // milliseconds
	Sim  []float64 `json:"sim"`
	Err  []float64 `json:"err"` // per cent
}

type pageSeries struct {
	AtS     []float64 `json:"atS"`
	Running pagePair  `json:"running"`
	Waiting pagePair  `json:"waiting"`
	KVPct   pagePair  `json:"kvPct"`
}

type pagePair struct {
	Real []float64 `json:"real"`
	Sim  []float64 `json:"sim"`
}

// pageView is what the template reads.
type pageView struct {
	Run       *Run
	Result    Result
	Published bool
	Departs   []string
	Data      template.JS
	Style     template.CSS
	Scripts   []template.JS
	Licence   string
}

// WritePage writes a page that overlays a recording and its simulated counterpart, as Load and Evaluate gave them. The page needs nothing but itself.
func WritePage(out io.Writer, r *Run, res Result) error {
	data, err := json.Marshal(r.pageData(res)) // escapes <, > and &, so that no name can end the script
	if err != nil {
		return fmt.Errorf("page of %s: %w", r.Name, err)
	}
	page, err := template.New("page").Parse(pageTemplate)
	if err != nil {
		return fmt.Errorf("page of %s: %w", r.Name, err)
	}
	view := pageView{
		Run: r, Result: res, Published: len(r.Published) > 0, Departs: res.Departures(), Data: template.JS(data),
		Style: template.CSS(plot.Style + pageStyle), Scripts: []template.JS{template.JS(plot.Script), template.JS(pageScript)}, Licence: plot.Licence,
	}
	if err := page.Execute(out, view); err != nil {
		return fmt.Errorf("page of %s: %w", r.Name, err)
	}
	return nil
}

func (r *Run) pageData(res Result) pageData {
	d := pageData{Run: r.Name, Request: []int{}}
	for _, name := range metricNames {
		d.Metrics = append(d.Metrics, pageMetric{Name: name})
	}
	for i := range res.Records {
		real, sim, ok := r.times(i, &res.Records[i])
		if !ok {
			continue
		}
		d.Request = append(d.Request, i)
		for k := range d.Metrics {
			d.Metrics[k].add(real[k], sim[k])
		}
	}
	if len(r.Series) == 0 || len(r.Series) != len(res.Series) {
		return d
	}
	d.Series = &pageSeries{}
	for i := range r.Series {
		re, si := &r.Series[i], &res.Series[i]
		d.Series.AtS = append(d.Series.AtS, re.AtS)
		d.Series.Running.add(float64(re.Running), float64(si.Running))
		d.Series.Waiting.add(float64(re.Waiting), float64(si.Waiting))
		d.Series.KVPct.add(re.KVPct, si.KVPct)
	}
	return d
}

func (m *pageMetric) add(real, sim float64) {
	m.Real, m.Sim, m.Err = append(m.Real, plot.Thousandth(real)), append(m.Sim, plot.Thousandth(sim)), append(m.Err, plot.Thousandth(errPct(sim, real)))
}

func (p *pagePair) add(real, sim float64) {
	p.Real, p.Sim = append(p.Real, plot.Thousandth(real)), append(p.Sim, plot.Thousandth(sim))
}

// Departures says for running, waiting and KV use when the simulated state first departed from the recorded series, one phrase each; nothing for
// what wasn't recorded.
func (r Result) Departures() []string {
	var out []string
	for _, k := range []struct{ key, name string }{{"running", "running"}, {"waiting", "waiting"}, {"kv", "KV"}} {
		at, recorded := r.DepartS[k.key]
		switch {
		case !recorded:
		case at < 0:
			out = append(out, k.name+" never")
		default:
			out = append(out, fmt.Sprintf("%s at %g s", k.name, at))
		}
	}
	return out
}
