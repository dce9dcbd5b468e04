package report

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
)

const (
	nsPerS      = 1e9
	nsPerMs     = 1e6
	bytesPerGiB = 1 << 30
)

// text, whole and decimal make columns.
func text(name string) Column  { return Column{Name: name} }
func whole(name string) Column { return Column{Name: name, Number: true} }
func decimal(name string, decimals int) Column {
	return Column{Name: name, Number: true, Decimals: decimals}
}

// number writes a number in full.
func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// known is number, but empty for 0: a figure that wasn't taken.
func known(v float64) string {
	if v == 0 {
		return ""
	}
	return number(v)
}

func integer[T int | int64 | uint64](v T) string { return fmt.Sprint(v) }

// Tables returns everything in a report as tables, those without rows left out. Ratios and sums that the page shows are among them.
func Tables(r *Report) []Table {
	all := []Table{
		r.ratioTable(), r.figureTable(), r.scenarioTable(), r.knobTable(), r.curveTable(), r.quantileTable(), r.deviceTable(), r.sampleTable(),
		r.planKindTable(), r.planTable(), r.ablationTable(), r.robustnessTable(),
	}
	return slices.DeleteFunc(append(all, r.Extra...), func(t Table) bool { return len(t.Rows) == 0 })
}

// WriteCSV writes a table with its columns' names in the first line, numbers in full.
func WriteCSV(w io.Writer, t Table) error {
	out := csv.NewWriter(w)
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.Name
	}
	if err := out.Write(names); err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	if err := out.WriteAll(t.Rows); err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	return nil
}

// ratioTable compares the subject with the baseline, the best peer and the bounds, by scenario and metric.
func (r *Report) ratioTable() Table {
	t := Table{Name: "ratios", Title: "Ratios", Note: "How many times as large the subject's figure is as another's.", Columns: []Column{
		text("scenario"), text("figure"), decimal("over baseline", 2), decimal("target", 2), decimal("over best peer", 2), text("best peer"),
	}}
	var bounds []string
	for _, p := range r.policies() {
		if p.Role == Bound {
			bounds = append(bounds, p.Name)
			t.Columns = append(t.Columns, decimal("share of "+p.Name, 2))
		}
	}
	for i := range r.Scenarios {
		s := &r.Scenarios[i]
		subject := r.first(s, Subject)
		for _, m := range metrics() {
			if subject == nil || m.of(subject.Figures) == 0 {
				continue
			}
			row := []string{s.Name, m.Title, known(ratio(subject, r.first(s, Baseline), m)), "", "", ""}
			if m.Name == capacityMetric.Name {
				row[3] = known(s.TargetRatio)
			}
			if best := r.best(s, m); best != nil {
				row[4], row[5] = known(ratio(subject, best, m)), best.Policy
			}
			for _, b := range bounds {
				row = append(row, known(ratio(subject, resultOf(s, b), m)))
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

func resultOf(s *Scenario, policy string) *Result {
	for i := range s.Results {
		if s.Results[i].Policy == policy {
			return &s.Results[i]
		}
	}
	return nil
}

func (r *Report) figureTable() Table {
	t := Table{Name: "figures", Title: "Figures of every policy", Columns: []Column{
		text("scenario"), text("policy"), text("role"), decimal("capacity", 3), decimal("over baseline", 2), decimal("good tokens/s", 1), decimal("saturated tokens/s", 1),
		decimal("violations %", 2), whole("memory violations"), decimal("lender's rise, points", 2), decimal("planning P99 ms", 3), decimal("TTFT forecast error %", 1),
	}}
	for i := range r.Scenarios {
		s := &r.Scenarios[i]
		for _, res := range r.ordered(s) {
			t.Rows = append(t.Rows, []string{
				s.Name, res.Policy, string(r.role(res.Policy)), known(res.Capacity), known(ratio(res, r.first(s, Baseline), capacityMetric)), known(res.GoodTokensPerS),
				known(res.SaturatedTokensPerS), number(res.ViolationsPct), integer(res.MemoryViolations), number(res.LenderRisePoints), known(res.PlanMsP99), known(res.ForecastErrPct),
			})
		}
	}
	return t
}

func (r *Report) scenarioTable() Table {
	t := Table{Name: "scenarios", Title: "Scenarios", Columns: []Column{
		text("scenario"), text("cluster"), text("tenants"), decimal("goodput taken at load", 3), decimal("throughput taken at load", 3), text("note"),
	}}
	for _, s := range r.Scenarios {
		t.Rows = append(t.Rows, []string{s.Name, s.Cluster, s.Tenants, known(s.GoodLoad), known(s.SaturatedLoad), s.Note})
	}
	return t
}

// each calls f for every result, by scenario and then in the order of the policies.
func (r *Report) each(f func(s *Scenario, res *Result)) {
	for i := range r.Scenarios {
		for _, res := range r.ordered(&r.Scenarios[i]) {
			f(&r.Scenarios[i], res)
		}
	}
}

func (r *Report) knobTable() Table {
	t := Table{Name: "knobs", Title: "Knobs as the sweep chose them", Columns: []Column{text("scenario"), text("policy"), text("knob"), text("value")}}
	r.each(func(s *Scenario, res *Result) {
		for _, k := range res.Knobs {
			t.Rows = append(t.Rows, []string{s.Name, res.Policy, k.Name, k.Value})
		}
	})
	return t
}

func (r *Report) curveTable() Table {
	t := Table{Name: "curves", Title: "Every run", Columns: []Column{
		text("scenario"), text("policy"), decimal("load", 3), text("seed"), whole("requests"), whole("finished"), decimal("violations %", 2),
		decimal("tokens/s", 1), decimal("good tokens/s", 1), whole("memory violations"), decimal("planning P99 ms", 3),
	}}
	r.each(func(s *Scenario, res *Result) {
		points := slices.Clone(res.Curve)
		slices.SortStableFunc(points, func(a, b Point) int { return cmp.Or(cmp.Compare(a.Load, b.Load), cmp.Compare(a.Seed, b.Seed)) })
		for _, p := range points {
			t.Rows = append(t.Rows, []string{
				s.Name, res.Policy, number(p.Load), integer(p.Seed), integer(p.Requests), integer(p.Finished), number(p.ViolationsPct),
				number(p.TokensPerS), number(p.GoodTokensPerS), integer(p.MemoryViolations), known(p.PlanMsP99),
			})
		}
	})
	return t
}

func (r *Report) quantileTable() Table {
	t := Table{Name: "quantiles", Title: "TTFT and TPOT by share of requests", Columns: []Column{
		text("scenario"), text("policy"), decimal("load", 3), text("seed"), decimal("share of requests %", 1), decimal("TTFT ms", 1), decimal("TPOT ms", 2),
	}}
	r.each(func(s *Scenario, res *Result) {
		if res.Run == nil {
			return
		}
		for _, q := range res.Run.Quantiles {
			t.Rows = append(t.Rows, []string{
				s.Name, res.Policy, number(res.Run.Load), integer(res.Run.Seed), percent(q.Share), number(float64(q.TTFTNs) / nsPerMs), number(float64(q.TPOTNs) / nsPerMs),
			})
		}
	})
	return t
}

// percent writes a share as a percentage, without the noise that a product in floating point leaves.
func percent(share float64) string {
	const finest = 1e10
	return number(math.Round(share*100*finest) / finest)
}
