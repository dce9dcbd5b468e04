package report

import (
	"fmt"
	"strconv"
	"strings"
)

// metric is one of the figures that policies are compared by.
type metric struct {
	Name, Title, Unit string
	of                func(Figures) float64
}

var (
	capacityMetric  = metric{"capacity", "Capacity", "load factor", func(f Figures) float64 { return f.Capacity }}
	goodMetric      = metric{"goodput", "Goodput", "tokens/s within SLA", func(f Figures) float64 { return f.GoodTokensPerS }}
	saturatedMetric = metric{"saturated", "Saturated throughput", "tokens/s", func(f Figures) float64 { return f.SaturatedTokensPerS }}
)

func metrics() []metric { return []metric{capacityMetric, goodMetric, saturatedMetric} }

// role returns a policy's role; a policy that the report doesn't list is a peer.
func (r *Report) role(policy string) Role {
	for _, p := range r.Policies {
		if p.Name == policy && p.Role != "" {
			return p.Role
		}
	}
	return Peer
}

// policies returns all policies in the order in which they are shown: as listed, then those that only results name.
func (r *Report) policies() []Policy {
	out := append([]Policy(nil), r.Policies...)
	seen := map[string]bool{}
	for _, p := range out {
		seen[p.Name] = true
	}
	for _, s := range r.Scenarios {
		for _, res := range s.Results {
			if !seen[res.Policy] {
				seen[res.Policy] = true
				out = append(out, Policy{Name: res.Policy, Role: Peer})
			}
		}
	}
	return out
}

// ordered returns a scenario's results in the order of the policies.
func (r *Report) ordered(s *Scenario) []*Result {
	var out []*Result
	for _, p := range r.policies() {
		for i := range s.Results {
			if s.Results[i].Policy == p.Name {
				out = append(out, &s.Results[i])
			}
		}
	}
	return out
}

// first returns the first result of a role, nil for none.
func (r *Report) first(s *Scenario, role Role) *Result {
	for _, res := range r.ordered(s) {
		if r.role(res.Policy) == role {
			return res
		}
	}
	return nil
}

// best returns the peer with the largest figure, nil where no peer has any.
func (r *Report) best(s *Scenario, m metric) *Result {
	var out *Result
	for _, res := range r.ordered(s) {
		if v := m.of(res.Figures); r.role(res.Policy) == Peer && v > 0 && (out == nil || v > m.of(out.Figures)) {
			out = res
		}
	}
	return out
}

// ratio returns how many times as large a's figure is as b's, 0 where either is missing.
func ratio(a, b *Result, m metric) float64 {
	if a == nil || b == nil || m.of(a.Figures) <= 0 || m.of(b.Figures) <= 0 {
		return 0
	}
	return m.of(a.Figures) / m.of(b.Figures)
}

// span is the range of some ratios, over how many scenarios.
type span struct {
	low, high float64
	count     int
}

func (s *span) add(v float64) {
	if v <= 0 {
		return
	}
	if s.count == 0 || v < s.low {
		s.low = v
	}
	if s.count == 0 || v > s.high {
		s.high = v
	}
	s.count++
}

// String is "2.40" or "2.40 to 16.3".
func (s span) String() string {
	if low, high := times(s.low), times(s.high); low != high {
		return low + " to " + high
	}
	return times(s.low)
}

// times shows a ratio with three digits at least.
func times(v float64) string {
	switch {
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// spanOf returns the range over the scenarios of the subject's figure over another's.
func (r *Report) spanOf(m metric, other func(*Scenario) *Result) span {
	var out span
	for i := range r.Scenarios {
		s := &r.Scenarios[i]
		out.add(ratio(r.first(s, Subject), other(s), m))
	}
	return out
}

// name returns the first policy of a role.
func (r *Report) name(role Role) string {
	for _, p := range r.Policies {
		if p.Role == role {
			return p.Name
		}
	}
	return ""
}

// Headline says in a sentence or two how the subject compares, in capacity, with the baseline and with the best peer; it says so where there is nothing to compare.
func (r *Report) Headline() string {
	subject, baseline := r.name(Subject), r.name(Baseline)
	overBaseline := r.spanOf(capacityMetric, func(s *Scenario) *Result { return r.first(s, Baseline) })
	overPeer := r.spanOf(capacityMetric, func(s *Scenario) *Result { return r.best(s, capacityMetric) })
	if overBaseline.count == 0 && overPeer.count == 0 {
		return "There are no capacities to compare."
	}
	var parts []string
	if overBaseline.count > 0 {
		parts = append(parts, fmt.Sprintf("%s times the load that %s carries", overBaseline, baseline))
	}
	if overPeer.count > 0 {
		parts = append(parts, fmt.Sprintf("%s times that of the best peer", overPeer))
	}
	within := ""
	if r.ViolationsPct > 0 {
		within = fmt.Sprintf(" with at most %g %% of requests outside their SLA", r.ViolationsPct)
	}
	out := fmt.Sprintf("On %s, %s carries %s%s.", count(max(overBaseline.count, overPeer.count), "scenario"), subject, strings.Join(parts, " and "), within)
	good := r.spanOf(goodMetric, func(s *Scenario) *Result { return r.best(s, goodMetric) })
	saturated := r.spanOf(saturatedMetric, func(s *Scenario) *Result { return r.best(s, saturatedMetric) })
	if good.count > 0 && saturated.count > 0 {
		out += fmt.Sprintf(" Over the best peer, its goodput is %s times and its saturated throughput %s times as high.", good, saturated)
	}
	return out
}

// count is "1 scenario" or "4 scenarios".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
