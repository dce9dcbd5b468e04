package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"slicescheduler/cmd/slicer/internal/term"
	"slicescheduler/planner"
	"slicescheduler/workload/replay"
	replayreport "slicescheduler/workload/report"
)

// headline are the scenarios of a sweep that names none.
func headline() []string { return []string{"conv-8", "large-8", "reason-8", "pack-64"} }

// sweep compares policies over scenarios and writes a report.
func (a *app) sweep(ctx context.Context, f *replayFlags, names []string) (err error) {
	base, err := a.runOptions(ctx, f)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		names = headline()
	}
	store, err := replay.OpenStore(f.out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	s := &replay.Sweep{Policies: f.policies, Workers: runtime.NumCPU(), Base: base}
	if !f.policiesSet {
		s.Policies = planner.Names()
	}
	for _, name := range names {
		setup, err := a.openScenario(f, name)
		if err != nil {
			return err
		}
		s.Setups = append(s.Setups, setup)
	}
	meter := &runMeter{meter: term.NewMeter(a.err, time.Now), already: store.Len()}
	s.Lab, s.Plan = &replay.Lab{Store: store, Seeds: seeds(f), Done: meter.done}, meter.plan
	out, err := s.Run()
	var ablation, robustness []replayreport.Variant
	if err == nil && f.variants {
		ablation, robustness, err = s.Variants(out)
	}
	meter.meter.Clear()
	if errors.Is(err, replay.ErrInterrupted) {
		if f.out != "" {
			fmt.Fprintf(a.err, "slicer: %d runs are kept in %s; the same command goes on from there\n", store.Len(), f.out)
		}
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	r := s.Report(out, "slicer "+strings.Join(os.Args[1:], " "))
	r.Ablation, r.Robustness = ablation, robustness
	return a.reportSweep(f, s, out, r)
}

// seeds are as many as asked for, from the first one on.
func seeds(f *replayFlags) []uint64 {
	var out []uint64
	for i := range max(1, f.seeds) {
		out = append(out, f.seed+uint64(i))
	}
	return out
}

// reportSweep prints a sweep and writes its report.
func (a *app) reportSweep(f *replayFlags, s *replay.Sweep, out []replay.ScenarioOutcome, r *replayreport.Report) error {
	if a.asJSON {
		if err := a.printJSON(replayreport.Summary(r)); err != nil {
			return err
		}
	} else if err := errors.Join(a.writeSweep(out), a.writeVariants("switched off", r.Ablation), a.writeVariants("disturbed", r.Robustness)); err != nil {
		return err
	}
	if f.out == "" {
		return nil
	}
	for i := range out {
		link, err := a.writePerfetto(f, s, &out[i])
		if err != nil {
			return err
		}
		if link.Name != "" {
			r.Links = append(r.Links, link)
		}
	}
	for _, file := range replayreport.Files(r) {
		if err := writeFile(filepath.Join(f.out, file.Name), file.Write); err != nil {
			return err
		}
	}
	fmt.Fprintf(a.err, "wrote %s\n", filepath.Join(f.out, "report.html"))
	return nil
}

// How much of a run a Perfetto trace shows.
const (
	perfettoFrom = 300 * time.Second
	perfettoFor  = 5 * time.Second
)

// writePerfetto writes what devices did in some seconds of a run of the last policy but the bounds, at the load of the goodput.
func (a *app) writePerfetto(f *replayFlags, s *replay.Sweep, out *replay.ScenarioOutcome) (replayreport.Link, error) {
	shown := out.Of("slice")
	if shown == nil {
		shown = &out.Policies[0]
	}
	if out.GoodLoad == 0 || shown.Problem != "" {
		return replayreport.Link{}, nil
	}
	o := s.Base
	o.Policy, o.Knobs, o.Load, o.Seed = shown.Policy, shown.Knobs, out.GoodLoad, s.Lab.Seeds[0]
	link := replayreport.Link{
		Name: out.Setup.Scenario.Name + ".trace.json",
		What: fmt.Sprintf("%s on %s at load %.3g from %v for %v, for Perfetto", o.Policy, out.Setup.Scenario.Name, o.Load, perfettoFrom, perfettoFor),
	}
	return link, writeFile(filepath.Join(f.out, link.Name), func(w io.Writer) error {
		return out.Setup.WriteTrace(w, o, int64(perfettoFrom), int64(perfettoFrom+perfettoFor))
	})
}

// writeSweep prints a table for each scenario.
func (a *app) writeSweep(out []replay.ScenarioOutcome) error {
	for i := range out {
		sc := &out[i]
		fmt.Fprintf(a.out, "%s  %s\n", a.out.Bold(sc.Setup.Scenario.Name),
			a.out.Dim(fmt.Sprintf("goodput at load %.3g, saturated throughput at %.3g", sc.GoodLoad, sc.SaturatedLoad)))
		var rows [][]string
		for k := range sc.Policies {
			rows = append(rows, sweepRow(sc, &sc.Policies[k]))
		}
		if err := term.Table(a.out, []string{"POLICY", "CAPACITY", "x STATIC", "GOOD/S", "VIOLATIONS", "SATURATED/S", "LENDERS", "MEMORY", "PLAN P99", "KNOBS"}, rows); err != nil {
			return err
		}
		fmt.Fprintln(a.out)
	}
	return nil
}

// writeVariants prints what slice comes to with a way of it switched off, or disturbed.
func (a *app) writeVariants(title string, variants []replayreport.Variant) error {
	if len(variants) == 0 {
		return nil
	}
	fmt.Fprintf(a.out, "%s\n", a.out.Bold("slice, "+title))
	var rows [][]string
	for _, v := range variants {
		rows = append(rows, []string{
			v.Scenario, v.Name, fmt.Sprintf("%.3g", v.Capacity), fmt.Sprintf("%.0f", v.GoodTokensPerS), fmt.Sprintf("%.2f %%", v.ViolationsPct),
			fmt.Sprintf("%.0f", v.SaturatedTokensPerS), fmt.Sprint(v.MemoryViolations),
		})
	}
	return term.Table(a.out, []string{"SCENARIO", "VARIANT", "CAPACITY", "GOOD/S", "VIOLATIONS", "SATURATED/S", "MEMORY"}, rows)
}

func sweepRow(sc *replay.ScenarioOutcome, o *replay.PolicyOutcome) []string {
	if o.Problem != "" {
		return []string{o.Policy, "-", "-", "-", "-", "-", "-", "-", "-", o.Problem}
	}
	ratio := "-"
	if b := sc.Of("static"); b != nil && b.Capacity.Load > 0 {
		ratio = fmt.Sprintf("%.2f", o.Capacity.Load/b.Capacity.Load)
	}
	f := o.Figures()
	return []string{
		o.Policy, fmt.Sprintf("%.3g", o.Capacity.Load), ratio, fmt.Sprintf("%.0f", f.GoodTokensPerS), fmt.Sprintf("%.2f %%", f.ViolationsPct),
		fmt.Sprintf("%.0f", f.SaturatedTokensPerS), fmt.Sprintf("%+.2f", o.LenderRisePts), fmt.Sprint(f.MemoryViolations), term.Ms(f.PlanMsP99), replay.KnobsText(o.Knobs),
	}
}

// runMeter shows how many runs are done, from any goroutine.
type runMeter struct {
	mu      sync.Mutex
	meter   *term.Meter
	already int
	known   int64
	ended   int64
	total   int64
}

func (m *runMeter) plan(runs int) { m.total = int64(runs) }

func (m *runMeter) done(r *replay.Result, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended++
	if known {
		m.known++
	}
	m.meter.ShowCount("runs, last "+r.String(), m.ended, max(m.total, m.ended), m.known)
}

// sizeCommand finds the smallest cluster.
func (a *app) sizeCommand() *cobra.Command {
	var f replayFlags
	policy, most := "slice", 128
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "size SCENARIO",
		Short: "Find the smallest cluster that keeps the SLAs of a scenario",
		Long: "Find the smallest number of a scenario's devices on which a policy keeps the SLAs: at most 9 % of requests, and of requests averaged over\n" +
			"tenants, are too late or too slow. The tenants and the trace stay as they are.\n\n" +
			"--json prints {scenario, policy, devices, tries}, of which each try is {devices, violationsPct, fits, problem}; violationsPct is what was\n" +
			"reached when the run was given up where it doesn't fit.",
		Example: "  slicer size synthetic-8\n  slicer size conv-8 --policy static --load 0.5",
	})
	cmd.RunE = run(func(ctx context.Context, args []string) error {
		if len(args) != 1 {
			return usagef("name one scenario: %s, or a YAML file", strings.Join(replay.Names(), ", "))
		}
		return a.size(ctx, &f, args[0], policy, most)
	})
	cmd.Flags().StringVar(&policy, "policy", policy, "`policy`: "+strings.Join(planner.Names(), ", "))
	cmd.Flags().IntVar(&most, "most", most, "`devices` of the largest cluster that is tried")
	f.runFlags(cmd)
	f.scenarioFlags(cmd)
	return cmd
}

// sizeOutput is what `slicer size --json` prints.
type sizeOutput struct {
	Scenario string           `json:"scenario"`
	Policy   string           `json:"policy"`
	Devices  int              `json:"devices"` // 0: no cluster is large enough
	Tries    []replay.SizeTry `json:"tries"`
}

func (a *app) size(ctx context.Context, f *replayFlags, name, policy string, most int) error {
	o, err := a.runOptions(ctx, f)
	if err != nil {
		return err
	}
	setup, err := a.openScenario(f, name)
	if err != nil {
		return err
	}
	store, err := replay.OpenStore("")
	if err != nil {
		return err
	}
	o.Policy = policy
	lab := &replay.Lab{Store: store, Seeds: seeds(f)}
	n, tries, err := lab.Size(setup, o, most)
	if errors.Is(err, replay.ErrInterrupted) {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	if a.asJSON {
		return a.printJSON(sizeOutput{setup.Scenario.Name, policy, n, tries})
	}
	var rows [][]string
	for _, t := range tries {
		verdict := "no"
		if t.Fits {
			verdict = "yes"
		}
		rows = append(rows, []string{fmt.Sprint(t.Devices), fmt.Sprintf("%.2f %%", t.ViolationsPct), verdict, t.Problem})
	}
	if err := term.Table(a.out, []string{"DEVICES", "VIOLATIONS", "KEEPS SLA", "PROBLEM"}, rows); err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("no cluster of up to %d %s keeps the SLAs of %s under %s", tries[len(tries)-1].Devices, setup.Scenario.Devices.Kind, setup.Scenario.Name, policy)
	}
	fmt.Fprintf(a.out, "%s needs %d x %s under %s\n", setup.Scenario.Name, n, setup.Scenario.Devices.Kind, policy)
	return nil
}
