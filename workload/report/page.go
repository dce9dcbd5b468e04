package report

import (
	_ "embed" // the page
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"slicescheduler/workload/plot"
)

//go:embed assets/page.html
var pageTemplate string

//go:embed assets/page.css
var pageStyle string

// The page's scripts, in the order in which they run.
var (
	//go:embed assets/base.js
	baseScript string
	//go:embed assets/curves.js
	curvesScript string
	//go:embed assets/devices.js
	devicesScript string
	//go:embed assets/plans.js
	plansScript string
)

// pageView is what the template reads.
type pageView struct {
	Report                *Report
	Title, Headline       string
	Seeds                 string
	Tiles                 []tile
	Bars                  []barGroup
	Ablation, Robustness  matrix
	HasCurves, HasRuns    bool
	HasDevices, HasPlans  bool
	HasQuantiles, HasData bool
	Files                 []Link
	Data                  template.JS
	Style                 template.CSS
	Scripts               []template.JS
	Licence               string
	tables                []Table
}

// tile is a scenario's outcome in a few lines.
type tile struct {
	Scenario string
	Over     string // over the baseline
	Baseline string
	Lines    []string
	Note     string
}

// Table returns the table of that name, nil where it has no rows.
func (v *pageView) Table(name string) *Table {
	for i := range v.tables {
		if v.tables[i].Name == name {
			return &v.tables[i]
		}
	}
	return nil
}

// WriteHTML writes the report as one page that needs nothing but itself; its links lead to what Files names.
func WriteHTML(w io.Writer, r *Report) error {
	data, err := json.Marshal(r.pageData()) // escapes <, > and &, so that no name can end the script
	if err != nil {
		return fmt.Errorf("page of %s: %w", r.Title, err)
	}
	page, err := template.New("page").Funcs(template.FuncMap{"cell": cell, "begins": begins}).Parse(pageTemplate)
	if err != nil {
		return fmt.Errorf("page of %s: %w", r.Title, err)
	}
	if err := page.Execute(w, r.view(template.JS(data))); err != nil {
		return fmt.Errorf("page of %s: %w", r.Title, err)
	}
	return nil
}

func (r *Report) view(data template.JS) *pageView {
	v := &pageView{
		Report: r, Title: r.Title, Headline: r.Headline(), Tiles: r.tiles(), Bars: r.barGroups(), Ablation: r.ablationMatrix(), Robustness: r.robustnessMatrix(),
		Data: data, Style: template.CSS(plot.Style + pageStyle), Licence: plot.Licence, tables: Tables(r),
	}
	for _, s := range []string{plot.Script, baseScript, curvesScript, devicesScript, plansScript} {
		v.Scripts = append(v.Scripts, template.JS(s))
	}
	if v.Title == "" {
		v.Title = "Replay"
	}
	var seeds []string
	for _, s := range r.Seeds {
		seeds = append(seeds, integer(s))
	}
	v.Seeds = strings.Join(seeds, ", ")
	r.each(func(_ *Scenario, res *Result) {
		v.HasCurves = v.HasCurves || len(res.Curve) > 0
		if res.Run == nil {
			return
		}
		v.HasQuantiles = v.HasQuantiles || len(res.Run.Quantiles) > 0
		v.HasDevices = v.HasDevices || len(res.Run.Devices) > 0 && len(res.Run.AtNs) > 0
		v.HasPlans = v.HasPlans || len(res.Run.Plans) > 0
	})
	v.HasRuns = v.HasQuantiles || v.HasDevices || v.HasPlans
	v.HasData = v.HasRuns || v.HasCurves
	for _, f := range Files(r)[1:] {
		v.Files = append(v.Files, Link{f.Name, f.What})
	}
	v.Files = append(v.Files, r.Links...)
	return v
}

func (r *Report) tiles() []tile {
	var out []tile
	for i := range r.Scenarios {
		s := &r.Scenarios[i]
		subject := r.first(s, Subject)
		if subject == nil || subject.Capacity <= 0 {
			continue
		}
		t := tile{Scenario: s.Name, Note: s.Note}
		if over := ratio(subject, r.first(s, Baseline), capacityMetric); over > 0 {
			t.Over, t.Baseline = times(over)+"×", r.first(s, Baseline).Policy
			switch {
			case s.TargetRatio > over:
				t.Lines = append(t.Lines, "below the target of "+times(s.TargetRatio)+"×")
			case s.TargetRatio > 0:
				t.Lines = append(t.Lines, "reaches the target of "+times(s.TargetRatio)+"×")
			}
		}
		if best := r.best(s, capacityMetric); best != nil {
			t.Lines = append(t.Lines, times(ratio(subject, best, capacityMetric))+"× the best peer, "+best.Policy)
		}
		for _, res := range r.ordered(s) {
			if x := ratio(subject, res, capacityMetric); r.role(res.Policy) == Bound && x > 0 {
				t.Lines = append(t.Lines, times(x)+"× the bound "+res.Policy)
			}
		}
		out = append(out, t)
	}
	return out
}

// cell shows a table's cell as its column asks.
func cell(c Column, value string) string {
	if !c.Number {
		return value
	}
	if c.Decimals > 0 {
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			return grouped(v, c.Decimals)
		}
	}
	if _, err := strconv.ParseFloat(value, 64); err == nil {
		return groupDigits(value)
	}
	return value
}

// begins says whether a row begins a group: its first cell differs from that above.
func begins(rows [][]string, i int) bool {
	return i > 0 && len(rows[i]) > 0 && len(rows[i-1]) > 0 && rows[i][0] != rows[i-1][0]
}

// matrix shows variants by scenario.
type matrix struct {
	Scenarios []string
	Rows      []matrixRow
}

type matrixRow struct {
	Name  string
	Cells []matrixCell
}

// matrixCell is one variant on one scenario. Loss, 0 to 100, is how strongly it is shaded.
type matrixCell struct {
	Text string
	Loss float64
}

// variantMatrix lays variants out; show says what a cell holds.
func variantMatrix(variants []Variant, show func(*Variant) matrixCell) matrix {
	var m matrix
	for _, v := range variants {
		if !slices.Contains(m.Scenarios, v.Scenario) {
			m.Scenarios = append(m.Scenarios, v.Scenario)
		}
	}
	for i := range variants {
		v := &variants[i]
		at := slices.IndexFunc(m.Rows, func(r matrixRow) bool { return r.Name == v.Name })
		if at < 0 {
			at = len(m.Rows)
			m.Rows = append(m.Rows, matrixRow{v.Name, make([]matrixCell, len(m.Scenarios))})
		}
		m.Rows[at].Cells[slices.Index(m.Scenarios, v.Scenario)] = show(v)
	}
	return m
}

// ablationMatrix says by how much capacity falls without an action.
func (r *Report) ablationMatrix() matrix {
	const shadePerPct = 2.5
	return variantMatrix(r.Ablation, func(v *Variant) matrixCell {
		x := r.variantRatio(v, Subject)
		if x == 0 {
			return matrixCell{}
		}
		pct := math.Round(1000*(x-1)) / 10
		return matrixCell{Text: signed(pct) + " %", Loss: min(100, max(0, -pct*shadePerPct))}
	})
}

// robustnessMatrix says what is left of the ratio over the baseline.
func (r *Report) robustnessMatrix() matrix {
	return variantMatrix(r.Robustness, func(v *Variant) matrixCell {
		x := r.variantRatio(v, Baseline)
		if x == 0 {
			return matrixCell{}
		}
		return matrixCell{Text: times(x) + "×"}
	})
}

// variantRatio compares a variant's capacity with that of its scenario's first policy of a role, 0 where either is missing.
func (r *Report) variantRatio(v *Variant, role Role) float64 {
	s := r.scenario(v.Scenario)
	if s == nil {
		return 0
	}
	return ratio(&Result{Figures: v.Figures}, r.first(s, role), capacityMetric)
}

func signed(v float64) string {
	s := grouped(v, 1)
	if v > 0 {
		return "+" + s
	}
	return s
}
