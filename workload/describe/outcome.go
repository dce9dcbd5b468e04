package describe

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"slicescheduler/whatif"
)

// Outcome is what happens without and with the actions.
type Outcome struct {
	HorizonMs float64         `json:"horizonMs"`
	Without   whatif.Forecast `json:"without"`
	With      whatif.Forecast `json:"with"`
	Refused   []string        `json:"refused,omitempty"` // actions that could not be taken, and why
}

// WhatIf runs a described world to its horizon, once as it is and once with its actions. profilesDir holds measured cost tables; empty: rooflines.
func WhatIf(w *World, profilesDir string) (*Outcome, error) {
	b, err := newBuilder(w, profilesDir)
	if err != nil {
		return nil, err
	}
	base, err := whatif.New(b.spec, whatif.Fast)
	if err != nil {
		return nil, err
	}
	horizon := int64(w.HorizonMs * 1e6)
	with := base.Fork()
	base.Run(horizon)
	out := &Outcome{HorizonMs: w.HorizonMs, Without: base.Forecast()}
	actions := slices.Clone(w.Actions)
	slices.SortStableFunc(actions, func(a, b Action) int { return int(min(1, max(-1, a.AtMs-b.AtMs))) })
	for _, a := range actions {
		action, err := b.action(a)
		if err != nil {
			return nil, err
		}
		with.Run(int64(a.AtMs * 1e6))
		if err := with.Apply(action); err != nil {
			out.Refused = append(out.Refused, fmt.Sprintf("%s %s at %g ms: %v", a.Kind, a.Tenant, a.AtMs, err))
		}
	}
	with.Run(horizon)
	out.With = with.Forecast()
	return out, nil
}

// WriteText prints an outcome for people.
func (o *Outcome) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "after %g ms\twithout\twith\t\n", o.HorizonMs)
	for i, a := range o.Without.Tenants {
		b := o.With.Tenants[i]
		row := func(name string, a, b float64, unit string) {
			digits := 1
			if unit == "" {
				digits = 0 // a count
			}
			fmt.Fprintf(w, "%s %s\t%.*f%s\t%.*f%s\t\n", o.Without.Tenants[i].ID, name, digits, a, unit, digits, b, unit)
		}
		row("finished", float64(a.Totals.Finished), float64(b.Totals.Finished), "")
		row("tokens of answers", float64(a.Totals.OutputTokens), float64(b.Totals.OutputTokens), "")
		row("mean TTFT", a.Totals.MeanTTFTMs(), b.Totals.MeanTTFTMs(), " ms")
		row("mean TPOT", a.Totals.MeanTPOTMs(), b.Totals.MeanTPOTMs(), " ms")
		row("waiting", float64(a.Waiting), float64(b.Waiting), "")
		row("running", float64(a.Running), float64(b.Running), "")
		if a.Totals.TTFTLimitNs+a.Totals.TPOTLimitNs > 0 {
			row("violations", float64(a.Totals.ViolatedRequests), float64(b.Totals.ViolatedRequests), "")
		}
	}
	for i, a := range o.Without.Devices {
		b := o.With.Devices[i]
		fmt.Fprintf(w, "%s busy\t%.1f%%\t%.1f%%\t\n", a.ID, float64(a.BusyNs)/o.HorizonMs/1e4, float64(b.BusyNs)/o.HorizonMs/1e4)
		fmt.Fprintf(w, "%s free memory\t%.2f GiB\t%.2f GiB\t\n", a.ID, float64(a.FreeBytes)/(1<<30), float64(b.FreeBytes)/(1<<30))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, r := range o.Refused {
		fmt.Fprintf(out, "refused: %s\n", r)
	}
	if s := o.With.Shortage; s != nil {
		fmt.Fprintf(out, "memory: at %.1f ms %s lacks room for %d bytes of %s, %d are free\n", float64(s.AtNs)/1e6, s.Device, s.Bytes, s.Class, s.FreeBytes)
	}
	return nil
}
