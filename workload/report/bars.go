package report

import (
	"math"
	"strconv"
	"strings"
)

// barGroup is one metric over all scenarios.
type barGroup struct {
	ID, Title, Unit, Note string
	Cards                 []barCard
}

// barCard is one metric on one scenario.
type barCard struct {
	Scenario, Note string
	Bars           []bar
	Bounds         []barBound
}

// bar is one policy. Width is in per cent of the card's scale.
type bar struct {
	Policy, Class, Value, Ratio string
	Width                       float64
}

// barBound is a line across all bars.
type barBound struct {
	Policy, Class, Value string
	At                   float64
	Left                 bool // its label stands left of the line, where there would be no room on its right
}

// barGroups lays out the bars, bounds as lines over them.
func (r *Report) barGroups() []barGroup {
	notes := map[string]string{
		capacityMetric.Name:  "The largest load factor that is carried" + r.within() + ". Load 1 is the trace as recorded.",
		goodMetric.Name:      "Prompt and answer tokens of requests within SLA, all policies under the same load.",
		saturatedMetric.Name: "All tokens under a load that saturates most policies.",
	}
	var out []barGroup
	for _, m := range metrics() {
		g := barGroup{ID: m.Name, Title: m.Title, Unit: m.Unit, Note: notes[m.Name]}
		for i := range r.Scenarios {
			if c := r.barCard(&r.Scenarios[i], m); len(c.Bars) > 0 {
				g.Cards = append(g.Cards, c)
			}
		}
		if len(g.Cards) > 0 {
			out = append(out, g)
		}
	}
	return out
}

// decimalsFor returns how many decimals a card shows: three significant digits of its largest value, at least.
func decimalsFor(scale float64) int {
	switch {
	case scale >= 100:
		return 0
	case scale >= 10:
		return 1
	case scale >= 2.5:
		return 2
	}
	return 3
}

func (r *Report) within() string {
	if r.ViolationsPct == 0 {
		return ""
	}
	return " with at most " + number(r.ViolationsPct) + " % SLA violations"
}

func (r *Report) barCard(s *Scenario, m metric) barCard {
	c := barCard{Scenario: s.Name}
	switch {
	case m.Name == goodMetric.Name && s.GoodLoad > 0:
		c.Note = "load " + times(s.GoodLoad)
	case m.Name == saturatedMetric.Name && s.SaturatedLoad > 0:
		c.Note = "load " + times(s.SaturatedLoad)
	}
	results := r.ordered(s)
	scale := 0.0
	for _, res := range results {
		scale = max(scale, m.of(res.Figures))
	}
	if scale <= 0 || math.IsInf(scale, 0) {
		return c
	}
	decimals := decimalsFor(scale)
	best, baseline := r.best(s, m), r.first(s, Baseline)
	for _, res := range results {
		v := m.of(res.Figures)
		role := r.role(res.Policy)
		if v <= 0 {
			continue
		}
		at := 100 * v / scale
		if role == Bound {
			c.Bounds = append(c.Bounds, barBound{Policy: res.Policy, Class: r.class(res.Policy), Value: grouped(v, decimals), At: at, Left: at > 50})
			continue
		}
		b := bar{Policy: res.Policy, Class: string(role), Value: grouped(v, decimals), Width: at}
		if res == best {
			b.Class = "peer best"
		}
		if x := ratio(res, baseline, m); x > 0 && res != baseline {
			b.Ratio = times(x) + "×"
		}
		c.Bars = append(c.Bars, b)
	}
	return c
}

// styles is how many lines of a role the style sheet tells apart.
var styles = map[Role]int{Peer: 8, Bound: 2}

// class returns the style class of a policy's lines: its role, and for peers and bounds their number among their like.
func (r *Report) class(policy string) string {
	seen := map[Role]int{}
	for _, p := range r.policies() {
		role := r.role(p.Name)
		seen[role]++
		if p.Name != policy {
			continue
		}
		if role == Subject || role == Baseline {
			return string(role)
		}
		return string(role) + strconv.Itoa((seen[role]-1)%styles[role]+1)
	}
	return string(Peer)
}

// narrowSpace separates groups of digits and doesn't break.
const narrowSpace = "\u202f"

// grouped shows a number with that many decimals, from 10,000 up in groups of three digits.
func grouped(v float64, decimals int) string {
	return groupDigits(strconv.FormatFloat(v, 'f', decimals, 64))
}

func groupDigits(s string) string {
	body, sign := strings.CutPrefix(s, "-")
	whole, fraction, _ := strings.Cut(body, ".")
	const ungrouped, group = 4, 3
	if len(whole) > ungrouped {
		var b strings.Builder
		for i, d := range whole {
			if i > 0 && (len(whole)-i)%group == 0 {
				b.WriteString(narrowSpace)
			}
			b.WriteRune(d)
		}
		whole = b.String()
	}
	if fraction != "" {
		whole += "." + fraction
	}
	if sign {
		return "−" + whole
	}
	return whole
}
