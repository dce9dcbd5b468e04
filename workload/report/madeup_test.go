package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
)

// madeUpPolicies are the policies of the headline experiment, with what each might carry over static on three kinds of scenario.
var madeUpPolicies = []struct {
	Policy
	over [4]float64
}{
	{Policy{"slice", Subject, "operators move"}, [4]float64{2.41, 5.36, 4.1, 17.9}},
	{Policy{"static", Baseline, "a container each"}, [4]float64{1, 1, 1, 1}},
	{Policy{"mux", Peer, "MuxServe"}, [4]float64{1.21, 2.7, 1.9, 6.1}},
	{Policy{"migrate", Peer, "Llumnix"}, [4]float64{1.05, 3.9, 2.2, 9.4}},
	{Policy{"switch", Peer, "Aegaeon"}, [4]float64{0.71, 1.6, 0.9, 3.2}},
	{Policy{"attention", Peer, "Weaver"}, [4]float64{1.31, 2.1, 2.6, 4.4}},
	{Policy{"replicas", Peer, "whole copies"}, [4]float64{1, 4.86, 3.5, 14.2}},
	{Policy{"spread", Peer, "AlpaServe"}, [4]float64{2.12, 3.3, 2.4, 8.8}},
	{Policy{"pool", Bound, "weights everywhere for free"}, [4]float64{2.5, 5.7, 4.3, 19.2}},
	{Policy{"oracle", Bound, "one device N times as fast"}, [4]float64{3.5, 6.7, 5.9, 23}},
}

// madeUp is a report as the headline experiment might give it: ten policies, four scenarios, made up from a seed.
func madeUp() *Report {
	rng := rand.New(rand.NewPCG(7, 7))
	r := &Report{
		Title: "Operators against containers", Command: "slicer replay --sweep --out tests/results", Seeds: []uint64{1, 2, 3}, ViolationsPct: 9,
		Links: []Link{{"slice-conv-8.trace.json", "Perfetto trace of slice on conv-8"}},
		Extra: []Table{{Name: "budget", Title: "Tokens gained by planning budget", Columns: []Column{{Name: "budget ms", Number: true}, {Name: "good tokens/s", Number: true}},
			Rows: [][]string{{"0.5", "10100"}, {"1", "11250"}, {"2", "11800"}, {"4", "11820"}}}},
	}
	for _, p := range madeUpPolicies {
		r.Policies = append(r.Policies, p.Policy)
	}
	for i, s := range []struct {
		name, cluster, tenants string
		static, tokens, target float64
		devices, of            int
	}{
		{"conv-8", "8 RTX 4090 (24 GB), 2 hosts", "8 x Llama-3.1-8B, azure-skew-8", 1.14, 9800, 2.29, 8, 8},
		{"large-8", "8 RTX PRO 6000 (96 GB), 2 hosts", "8 x Llama-3.1-8B, servegen-large-8", 0.81, 31000, 4, 8, 8},
		{"reason-8", "8 RTX PRO 6000", "8B, 32B, A3B, 8B, 32B, 8B, 8B, A3B, servegen-reason-8", 0.22, 14200, 3.5, 8, 8},
		{"pack-64", "32 RTX PRO 6000, 8 hosts", "64 tenants, servegen-mixed-64", 0.094, 118000, 4, 32, 64},
	} {
		sc := Scenario{Name: s.name, Cluster: s.cluster, Tenants: s.tenants, TargetRatio: s.target, GoodLoad: 1.5 * s.static, SaturatedLoad: s.static * madeUpPolicies[8].over[i]}
		for _, p := range madeUpPolicies {
			sc.Results = append(sc.Results, madeUpResult(rng, p.Policy, s.static, p.over[i], s.tokens, s.devices, s.of))
		}
		if i == 1 {
			sc.Note = "Links bound what more lending could bring."
		}
		r.Scenarios = append(r.Scenarios, sc)
		for _, a := range []struct {
			name string
			loss float64
		}{{"replicate", .3}, {"spread", .22}, {"borrow-attention", .08}, {"borrow-rows", .04}, {"stream-prefill", .03}, {"migrate", .06}, {"route", .15}, {"throttle", .01}} {
			loss := a.loss * rng.Float64() * 2
			r.Ablation = append(r.Ablation, Variant{"without " + a.name, s.name, madeUpFigures(s.static*madeUpPolicies[0].over[i]*(1-loss), s.tokens*(1-loss/2)), 0})
		}
		for _, name := range []string{"costs wrong by 30 %", "snapshots 200 ms old", "5 % of actions fail"} {
			x := .75 + .2*rng.Float64()
			r.Robustness = append(r.Robustness, Variant{name, s.name, madeUpFigures(s.static*madeUpPolicies[0].over[i]*x, s.tokens*x), 0})
		}
	}
	return r
}

// madeUpPage is the page of madeUp, written once.
var madeUpPage = sync.OnceValue(func() string {
	var out strings.Builder
	if err := WriteHTML(&out, madeUp()); err != nil {
		panic(err)
	}
	return out.String()
})

func round(v float64, digits int) float64 {
	p := math.Pow10(digits)
	return math.Round(v*p) / p
}

func madeUpFigures(capacity, tokens float64) Figures {
	return Figures{Capacity: round(capacity, 3), GoodTokensPerS: round(tokens, 1), SaturatedTokensPerS: round(tokens*1.3, 1), ViolationsPct: 4.25}
}

func madeUpResult(rng *rand.Rand, p Policy, static, over, tokens float64, devices, tenants int) Result {
	capacity := static * over
	good := tokens * min(1.2, .6+.35*math.Log1p(over))
	res := Result{Policy: p.Name, Figures: madeUpFigures(capacity, good), Knobs: []Knob{{"budgetMs", "2"}, {"horizonS", "8"}}}
	res.ViolationsPct = round(9*math.Pow(1.5/over, 2.2), 2)
	if p.Role == Subject {
		res.PlanMsP99, res.ForecastErrPct, res.LenderRisePoints = 1.83, 7.2, 0.31
	}
	for _, f := range []float64{.4, .6, .8, .9, .97, 1.03, 1.1, 1.25, 1.5, 2} {
		for seed := uint64(1); seed <= 3; seed++ {
			pct := min(100, 9*math.Pow(f, 4+3*rng.Float64())+.4*rng.Float64())
			res.Curve = append(res.Curve, Point{
				Load: round(capacity*f, 3), Seed: seed, Requests: 5000 + rng.Int64N(9), Finished: 4990, ViolationsPct: round(pct, 2), TokensPerS: round(tokens*f, 1),
				GoodTokensPerS: round(tokens*f*(1-pct/100), 1), PlanMsP99: res.PlanMsP99,
			})
		}
	}
	res.Run = madeUpRun(rng, p, 1.5*static, over, devices, tenants)
	return res
}

func madeUpRun(rng *rand.Rand, p Policy, load, over float64, devices, tenants int) *Run {
	run := &Run{Load: load, Seed: 1}
	for t := range tenants {
		run.Tenants = append(run.Tenants, fmt.Sprintf("tenant-%02d", t))
	}
	speed := math.Pow(over, -.7)
	for _, q := range []float64{.01, .05, .1, .2, .3, .4, .5, .6, .7, .8, .9, .95, .98, .99, .995, .999, 1} {
		z := math.Log(q+.01) - math.Log(1.01-q)
		run.Quantiles = append(run.Quantiles, Quantile{q, int64(3e8 * speed * math.Exp(.8*z)), int64(3e7 * speed * math.Exp(.25*z))})
	}
	const samples = 300
	for i := range samples {
		run.AtNs = append(run.AtNs, int64(i+1)*5e9)
	}
	for d := range devices {
		run.Devices = append(run.Devices, madeUpDevice(rng, p, d, devices, tenants, samples))
	}
	if p.Role == Subject || p.Name == "migrate" {
		run.Plans = madeUpPlans(rng, tenants, 1800)
	}
	return run
}

func madeUpDevice(rng *rand.Rand, p Policy, d, devices, tenants, samples int) DeviceSeries {
	const capacity = 22 << 30
	s := DeviceSeries{ID: fmt.Sprintf("h%d/gpu%d", d/4, d%4), CapacityBytes: capacity}
	demand, kv := .95/math.Pow(float64(d%8+1), .8), .3
	for i := range samples {
		wave := .5 + .5*math.Sin(float64(i)/17+float64(d))
		own := min(1, demand*(.4+.6*wave)+.1*rng.Float64())
		sample := DeviceSample{WeightsBytes: 15 << 30, WorkspaceBytes: 600 << 20}
		sample.Time = append(sample.Time, TenantTime{Tenant: d * tenants / devices, Busy: round(own, 3)})
		if lends := p.Role == Subject || p.Name == "spread" || p.Name == "replicas"; lends && i > 12 {
			for k := range 3 {
				x := round((1-own)*.28*(.5+.5*math.Sin(float64(i)/29+float64(3*d+k))), 3)
				sample.Time = append(sample.Time, TenantTime{Tenant: (d + k*k + i/60) % min(tenants, 12), Busy: x, Borrowed: x})
			}
			sample.StagingBytes = int64(rng.IntN(500)) << 20
		}
		kv = min(.95, max(.05, kv+.06*(rng.Float64()-.5+.2*(own-kv))))
		sample.KVBytes = int64(kv * float64(capacity-sample.WeightsBytes-sample.WorkspaceBytes-sample.StagingBytes))
		s.Samples = append(s.Samples, sample)
	}
	return s
}

func madeUpPlans(rng *rand.Rand, tenants, n int) []PlanEntry {
	kinds := []string{"route", "migrate", "borrow-attention", "borrow-rows", "replicate", "spread", "evict", "throttle", "stream-prefill"}
	var out []PlanEntry
	for i := range n {
		forecast := round(2600*rng.ExpFloat64()*rng.Float64(), 1)
		e := PlanEntry{
			AtNs: int64(i) * 800_000_000, Kind: kinds[min(len(kinds)-1, int(rng.ExpFloat64()*2))], Tenant: rng.IntN(tenants), ForecastGoodTokens: forecast, HorizonNs: 8e9,
			Applied: rng.Float64() > .06,
		}
		e.Reason = fmt.Sprintf("tenant-%02d waits for %d ms at its home; h%d/gpu%d is idle for %d %% of the next 8 s and has %d MiB free", e.Tenant, 200+rng.IntN(900), rng.IntN(2), rng.IntN(4),
			20+rng.IntN(70), 400+rng.IntN(6000))
		if !e.Applied {
			e.Refusal = "memory of the lender was taken in the meantime"
		} else if rng.Float64() > .15 {
			outcome := round(forecast*(.75+.45*rng.Float64())+60*rng.NormFloat64(), 1)
			e.OutcomeGoodTokens = &outcome
		}
		out = append(out, e)
	}
	return out
}
