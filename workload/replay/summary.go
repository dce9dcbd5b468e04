package replay

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"slicescheduler/workload/report"
)

// targets are what the subject's capacity over the baseline's was meant to reach.
func targets() map[string]float64 {
	return map[string]float64{"conv-8": 2.29, "large-8": 4, "reason-8": 3.5, "pack-64": 4}
}

// Report turns a sweep's outcome into what a page shows.
func (s *Sweep) Report(out []ScenarioOutcome, command string) *report.Report {
	r := &report.Report{Title: "Policies on replayed traces", Command: command, Seeds: s.Lab.Seeds, ViolationsPct: LimitPct}
	for _, name := range s.Policies {
		r.Policies = append(r.Policies, report.Policy{Name: name, Role: roleOf(name), What: whatIs(name)})
	}
	for i := range out {
		r.Scenarios = append(r.Scenarios, out[i].report())
	}
	return r
}

func roleOf(policy string) report.Role {
	switch policy {
	case subject:
		return report.Subject
	case baseline:
		return report.Baseline
	case bound, "oracle":
		return report.Bound
	}
	return report.Peer
}

// whatIs says in a few words what a policy does.
func whatIs(policy string) string {
	return map[string]string{
		"slice":     "this project's planner: lanes over slices of devices, copies, lenders, routing and migration by forecast",
		"static":    "one container for each tenant on its own devices",
		"mux":       "MuxServe: models placed together by demand, prefill and decode share the compute",
		"migrate":   "Llumnix: dispatch to the freest instance, live migration, instances added and removed",
		"switch":    "Aegaeon: pools for prefill and decode, models swapped at token boundaries",
		"attention": "Weaver: hot models' attention runs on cold devices",
		"replicas":  "whole extra copies of the hottest tenants, shortest queue",
		"spread":    "AlpaServe: layers in equal runs over groups of devices, pipelined",
		"pool":      "a bound: all weights everywhere for free, migration for free",
		"oracle":    "a looser bound: one device as fast as all, with all memory",
	}[policy]
}

func (s *ScenarioOutcome) report() report.Scenario {
	sc := s.Setup.Scenario
	models := map[string]int{}
	for _, t := range s.Setup.Tenants {
		models[t.Model]++
	}
	tenants := ""
	for _, m := range slices.Sorted(maps.Keys(models)) {
		if tenants != "" {
			tenants += ", "
		}
		tenants += fmt.Sprintf("%d x %s", models[m], m)
	}
	out := report.Scenario{
		Name: sc.Name, Cluster: fmt.Sprintf("%d %s, %d on a host", sc.Devices.Count, sc.Devices.Kind, sc.Devices.PerHost), Tenants: tenants,
		GoodLoad: s.GoodLoad, SaturatedLoad: s.SaturatedLoad, TargetRatio: targets()[sc.Name],
	}
	for i := range s.Policies {
		o := &s.Policies[i]
		if o.Problem != "" {
			out.Note += o.Problem + ". "
		}
		out.Results = append(out.Results, o.report(s.Setup))
	}
	return out
}

// Figures are what a table says of an outcome.
func (o *PolicyOutcome) Figures() report.Result {
	res := report.Result{
		Policy: o.Policy, LenderRisePoints: o.LenderRisePts,
		Figures: report.Figures{
			Capacity:            o.Capacity.Load,
			GoodTokensPerS:      mean(o.Good, func(r *Result) float64 { return r.GoodTokensPerS }),
			SaturatedTokensPerS: mean(o.Saturated, func(r *Result) float64 { return r.TokensPerS }),
			ViolationsPct:       mean(o.Good, func(r *Result) float64 { return r.ViolationsPct }),
		},
	}
	for _, r := range slices.Concat(o.Good, o.Saturated, o.Curve) {
		res.MemoryViolations += r.MemoryViolations
		res.PlanMsP99 = max(res.PlanMsP99, r.PlanMsP99)
	}
	return res
}

func (o *PolicyOutcome) report(p *Setup) report.Result {
	res := o.Figures()
	for _, runs := range [][]*Result{o.Good, o.Saturated, o.Curve} {
		for _, r := range runs {
			res.Curve = append(res.Curve, report.Point{
				Load: r.Load, Seed: r.Seed, Requests: r.Requests, Finished: r.Finished, ViolationsPct: r.ViolationsPct, TokensPerS: r.TokensPerS,
				GoodTokensPerS: r.GoodTokensPerS, MemoryViolations: r.MemoryViolations, PlanMsP99: r.PlanMsP99,
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Knobs)) {
		res.Knobs = append(res.Knobs, report.Knob{Name: name, Value: strconv.FormatFloat(o.Knobs[name], 'g', -1, 64)})
	}
	if o.Detail != nil && o.Detail.Detail != nil {
		res.Run = o.Detail.reportRun(p)
	}
	return res
}

// reportRun turns a run's detail into what a page shows of it.
func (r *Result) reportRun(p *Setup) *report.Run {
	d := r.Detail
	out := &report.Run{Load: r.Load, Seed: r.Seed, Tenants: make([]string, len(p.Tenants)), AtNs: d.AtNs, Quantiles: report.QuantilesOf(&d.TTFT, &d.TPOT)}
	rank := func(tenant int) int {
		if tenant < 0 || tenant >= len(p.Tenants) {
			return -1
		}
		return p.Tenants[tenant].Rank
	}
	for _, t := range p.Tenants {
		out.Tenants[t.Rank] = t.ID
	}
	for i := range d.On.Devices { // streams of a shared device come after all devices, and have no memory of their own
		s := report.DeviceSeries{ID: d.On.Devices[i].ID, CapacityBytes: d.On.Devices[i].MemoryBytes}
		for _, x := range d.Devices[i] {
			sample := report.DeviceSample{WeightsBytes: x.WeightBytes, KVBytes: x.KVBytes}
			for _, t := range x.Tenants {
				share := report.TenantTime{Tenant: rank(t.Tenant), Busy: t.Busy}
				if d.On.Tenants[t.Tenant].Home != i {
					share.Borrowed = t.Busy
				}
				sample.Time = append(sample.Time, share)
			}
			s.Samples = append(s.Samples, sample)
		}
		out.Devices = append(out.Devices, s)
	}
	for _, x := range d.Decisions {
		e := report.PlanEntry{
			AtNs: x.AtNs, Kind: x.Kind, Tenant: rank(x.Tenant), Reason: x.Reason, ForecastGoodTokens: x.ForecastGoodTokens, HorizonNs: x.HorizonNs,
			Applied: x.Applied, Refusal: x.Refusal,
		}
		if x.HorizonNs > 0 && x.Applied {
			more := float64(x.GoodTokens - x.GoodTokensBefore)
			e.OutcomeGoodTokens = &more
		}
		out.Plans = append(out.Plans, e)
	}
	return out
}
