package report

import (
	"cmp"
	"slices"
	"strconv"
)

// tenant names a tenant of a run, the empty string for none.
func (run *Run) tenant(i int) string {
	if i < 0 || i >= len(run.Tenants) {
		return ""
	}
	return run.Tenants[i]
}

// sampleNs returns how long a sample took.
func (run *Run) sampleNs(i int) int64 {
	if i == 0 {
		return run.AtNs[0]
	}
	return run.AtNs[i] - run.AtNs[i-1]
}

// samples returns how many samples of a device can be placed in time.
func (run *Run) samples(d *DeviceSeries) int { return min(len(run.AtNs), len(d.Samples)) }

// work returns the share of a sample that the device worked for tenants whose own it is, and for others.
func (s *DeviceSample) work() (own, borrowed float64) {
	for _, t := range s.Time {
		own += t.Busy - t.Borrowed
		borrowed += t.Borrowed
	}
	return own, borrowed
}

// freeBytes returns what of a device's memory is free at a sample's end; it is negative where memory was overcommitted.
func (d *DeviceSeries) freeBytes(i int) int64 {
	s := &d.Samples[i]
	return d.CapacityBytes - s.WeightsBytes - s.KVBytes - s.WorkspaceBytes - s.StagingBytes
}

func gib(bytes int64) string { return strconv.FormatFloat(float64(bytes)/bytesPerGiB, 'f', -1, 64) }

// deviceTable sums up the devices of the runs that are shown.
func (r *Report) deviceTable() Table {
	t := Table{Name: "devices", Title: "Devices in the runs shown", Note: "Shares of the run's time; memory at its fullest sample.", Columns: []Column{
		text("scenario"), text("policy"), decimal("load", 3), text("seed"), text("device"), decimal("own work %", 1), decimal("borrowed %", 1), decimal("idle %", 1),
		decimal("capacity GiB", 2), decimal("weights GiB", 2), decimal("KV GiB", 2), decimal("workspace GiB", 2), decimal("staging GiB", 2), decimal("least free GiB", 2),
	}}
	r.each(func(s *Scenario, res *Result) {
		for i := 0; res.Run != nil && i < len(res.Run.Devices); i++ {
			run, d := res.Run, &res.Run.Devices[i]
			n := run.samples(d)
			if n == 0 {
				continue
			}
			var own, borrowed float64
			fullest := 0
			for k := range n {
				o, b := d.Samples[k].work()
				own, borrowed = own+o*float64(run.sampleNs(k)), borrowed+b*float64(run.sampleNs(k))
				if d.freeBytes(k) < d.freeBytes(fullest) {
					fullest = k
				}
			}
			total := float64(max(1, run.AtNs[n-1]))
			m := &d.Samples[fullest]
			t.Rows = append(t.Rows, []string{
				s.Name, res.Policy, number(run.Load), integer(run.Seed), d.ID, percent(own / total), percent(borrowed / total), percent(max(0, 1-(own+borrowed)/total)),
				gib(d.CapacityBytes), gib(m.WeightsBytes), gib(m.KVBytes), gib(m.WorkspaceBytes), gib(m.StagingBytes), gib(d.freeBytes(fullest)),
			})
		}
	})
	return t
}

// sampleTable holds every sample: a row for each device, sample and tenant that had time in it, or one without a tenant where the device was idle.
func (r *Report) sampleTable() Table {
	t := Table{Name: "samples", Title: "Devices over time", Columns: []Column{
		text("scenario"), text("policy"), text("device"), decimal("until s", 3), text("tenant"), decimal("busy %", 1), decimal("of which borrowed %", 1),
		decimal("capacity GiB", 2), decimal("weights GiB", 2), decimal("KV GiB", 2), decimal("workspace GiB", 2), decimal("staging GiB", 2), decimal("free GiB", 2),
	}}
	r.each(func(s *Scenario, res *Result) {
		for i := 0; res.Run != nil && i < len(res.Run.Devices); i++ {
			run, d := res.Run, &res.Run.Devices[i]
			for k := range run.samples(d) {
				m := &d.Samples[k]
				row := func(tenant string, busy, borrowed float64) {
					t.Rows = append(t.Rows, []string{
						s.Name, res.Policy, d.ID, number(float64(run.AtNs[k]) / nsPerS), tenant, percent(busy), percent(borrowed),
						gib(d.CapacityBytes), gib(m.WeightsBytes), gib(m.KVBytes), gib(m.WorkspaceBytes), gib(m.StagingBytes), gib(d.freeBytes(k)),
					})
				}
				for _, w := range m.Time {
					row(run.tenant(w.Tenant), w.Busy, w.Borrowed)
				}
				if len(m.Time) == 0 {
					row("", 0, 0)
				}
			}
		}
	})
	return t
}

// planTable holds every decision of the runs that are shown.
func (r *Report) planTable() Table {
	t := Table{Name: "plans", Title: "Plan log", Columns: []Column{
		text("scenario"), text("policy"), decimal("at s", 3), text("kind"), text("tenant"), decimal("forecast good tokens", 1), decimal("until s later", 3),
		decimal("outcome good tokens", 1), text("state"), text("reason"), text("refused because"),
	}}
	r.each(func(s *Scenario, res *Result) {
		for i := 0; res.Run != nil && i < len(res.Run.Plans); i++ {
			p := &res.Run.Plans[i]
			forecast, outcome, state := "", "", "refused"
			if p.HorizonNs != 0 {
				forecast = number(p.ForecastGoodTokens)
			}
			if p.OutcomeGoodTokens != nil {
				outcome = number(*p.OutcomeGoodTokens)
			}
			if p.Applied {
				state = "applied"
			}
			t.Rows = append(t.Rows, []string{
				s.Name, res.Policy, number(float64(p.AtNs) / nsPerS), p.Kind, res.Run.tenant(p.Tenant), forecast, known(float64(p.HorizonNs) / nsPerS), outcome, state,
				p.Reason, p.Refusal,
			})
		}
	})
	return t
}

// kindSum is what decisions of one kind came to.
type kindSum struct {
	kind              string
	decided, applied  int
	scored            int // applied with both a forecast and an outcome
	forecast, outcome float64
	errs              []float64 // |outcome - forecast| of those scored
}

// kindSums sums up a run's decisions by kind, kinds by name.
func (run *Run) kindSums() []*kindSum {
	var out []*kindSum
	for i := range run.Plans {
		p := &run.Plans[i]
		at, found := slices.BinarySearchFunc(out, p.Kind, func(s *kindSum, kind string) int { return cmp.Compare(s.kind, kind) })
		if !found {
			out = slices.Insert(out, at, &kindSum{kind: p.Kind})
		}
		k := out[at]
		k.decided++
		if !p.Applied {
			continue
		}
		k.applied++
		if p.HorizonNs == 0 || p.OutcomeGoodTokens == nil {
			continue
		}
		k.scored++
		k.forecast += p.ForecastGoodTokens
		k.outcome += *p.OutcomeGoodTokens
		k.errs = append(k.errs, max(*p.OutcomeGoodTokens-p.ForecastGoodTokens, p.ForecastGoodTokens-*p.OutcomeGoodTokens))
	}
	return out
}

// planKindTable sums up the decisions by kind.
func (r *Report) planKindTable() Table {
	t := Table{Name: "plan-kinds", Title: "Decisions by kind", Note: "Forecast and outcome are good tokens of applied decisions that have both.", Columns: []Column{
		text("scenario"), text("policy"), text("kind"), whole("decisions"), whole("applied"), whole("refused"), whole("with outcome"), decimal("forecast", 1), decimal("outcome", 1),
		decimal("median error of one", 1),
	}}
	r.each(func(s *Scenario, res *Result) {
		if res.Run == nil {
			return
		}
		for _, k := range res.Run.kindSums() {
			row := []string{s.Name, res.Policy, k.kind, integer(k.decided), integer(k.applied), integer(k.decided - k.applied), integer(k.scored), "", "", ""}
			if k.scored > 0 {
				slices.Sort(k.errs)
				row[7], row[8], row[9] = number(k.forecast), number(k.outcome), number(k.errs[(len(k.errs)-1)/2])
			}
			t.Rows = append(t.Rows, row)
		}
	})
	return t
}

// scenario returns the scenario of that name, nil for none.
func (r *Report) scenario(name string) *Scenario {
	for i := range r.Scenarios {
		if r.Scenarios[i].Name == name {
			return &r.Scenarios[i]
		}
	}
	return nil
}

// variantTable shows the subject's variants; over is what their capacities are compared with.
func (r *Report) variantTable(t Table, variants []Variant, over Role, ratioName string) Table {
	t.Columns = []Column{
		text("variant"), text("scenario"), decimal("capacity", 3), decimal(ratioName, 2), decimal("good tokens/s", 1), decimal("saturated tokens/s", 1),
		decimal("violations %", 2), whole("memory violations"),
	}
	for _, v := range variants {
		t.Rows = append(t.Rows, []string{
			v.Name, v.Scenario, known(v.Capacity), known(r.variantRatio(&v, over)), known(v.GoodTokensPerS), known(v.SaturatedTokensPerS), number(v.ViolationsPct), integer(v.MemoryViolations),
		})
	}
	return t
}

func (r *Report) ablationTable() Table {
	return r.variantTable(Table{Name: "ablation", Title: "Ablation: one action off at a time"}, r.Ablation, Subject, "of the whole")
}

func (r *Report) robustnessTable() Table {
	return r.variantTable(Table{Name: "robustness", Title: "Robustness: one disturbance at a time"}, r.Robustness, Baseline, "over baseline")
}
