package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slicescheduler/cmd/slicer/internal/term"
	"slicescheduler/planner"
	"slicescheduler/workload/replay"
)

// replayFlags are the flags of one call.
type replayFlags struct {
	policies, knobs  []string
	load             float64
	seed             uint64
	trace, devices   string
	window           time.Duration
	planCost         string
	wrongCosts       bool
	stale            time.Duration
	failPct          float64
	tuning, tenantly bool
	sweep, variants  bool
	policiesSet      bool
	out              string
	seeds            int
}

// replayCommand runs scheduling policies on replayed traces.
func (a *app) replayCommand() *cobra.Command {
	var f replayFlags
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "replay SCENARIO...",
		Short: "Replay a trace against scheduling policies",
		Long: "Replay a trace on a simulated cluster under one or more scheduling policies and print what each of them made of it.\n\n" +
			"SCENARIO is " + strings.Join(replay.Names(), ", ") + ", or a YAML file like them.\n" +
			"Those that aren't synthetic read traces and measured cost tables from $SLICER_DATA, else from ../shared.\n\n" +
			"The load stretches or compresses the trace: at 2 its requests come in half of the time. Policies see what can be observed, never the\n" +
			"future, and the time that their plans take is charged to them.\n\n" +
			"--sweep takes several scenarios (the four that read traces, unless some are named) and all policies, tunes their knobs on another piece of the\n" +
			"trace, finds the largest load at which at most 9 % of requests miss their SLA, and takes goodput at 1.5 times static's and throughput at pool's.\n" +
			"--out keeps each run as it ends, so that the same command goes on after an interruption, and writes tables and a page.\n\n" +
			"--json prints an array with an object for each run: scenario, policy, load, seed, requests, finished, violationsPct, tokensPerS,\n" +
			"goodTokensPerS, memoryViolations, planMsP99 and more.",
		Example: "  slicer replay synthetic-8\n  slicer replay synthetic-8 --sweep --out results\n  slicer replay conv-8 --policy static,slice --load 1.5 --json",
	})
	cmd.RunE = run(func(ctx context.Context, args []string) error {
		if f.sweep {
			f.policiesSet = cmd.Flags().Changed("policy")
			return a.sweep(ctx, &f, args)
		}
		if len(args) != 1 {
			return usagef("name one scenario: %s, or a YAML file", strings.Join(replay.Names(), ", "))
		}
		return a.replay(ctx, &f, args[0])
	})
	flags := cmd.Flags()
	flags.StringSliceVar(&f.policies, "policy", []string{"static"}, "`policies` to compare: "+strings.Join(planner.Names(), ", "))
	flags.BoolVar(&f.sweep, "sweep", false, "tune every policy's knobs, find its capacity and take its figures")
	flags.BoolVar(&f.variants, "variants", false, "with --sweep: also slice with each of its ways switched off, and with its planner disturbed")
	flags.StringVar(&f.out, "out", "", "`directory` for results: each run as it ends, tables, and a page; with --sweep the same command goes on where it was interrupted")
	flags.StringSliceVar(&f.knobs, "knob", nil, "`NAME=VALUE` for a policy's knob, may be repeated")
	f.runFlags(cmd)
	f.scenarioFlags(cmd)
	flags.BoolVar(&f.tuning, "tuning", false, "replay the piece of the trace that knobs are tuned on")
	flags.BoolVar(&f.tenantly, "tenants", false, "print each tenant's figures too")
	return cmd
}

// runFlags are those of single runs.
func (f *replayFlags) runFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Float64Var(&f.load, "load", 1, "load `factor`")
	flags.Uint64Var(&f.seed, "seed", 1, "`seed` of the world's noise")
	flags.IntVar(&f.seeds, "seeds", 3, "how many `seeds`, from --seed on, capacities are means over")
	flags.StringVar(&f.planCost, "plan-cost", "measured", "what a plan's making costs: measured, or fixed:`DURATION`, which makes runs reproducible")
	flags.BoolVar(&f.wrongCosts, "wrong-costs", false, "let policies think that half of the operators take 30 % more or less than measured")
	flags.DurationVar(&f.stale, "stale", 0, "`age` of the states that policies see")
	flags.Float64Var(&f.failPct, "fail", 0, "`percent` of actions that are lost")
}

// scenarioFlags are those that change a scenario.
func (f *replayFlags) scenarioFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.trace, "trace", "", "`file` of another trace (CSV or JSON lines)")
	cmd.Flags().StringVar(&f.devices, "devices", "", "other devices, as `KIND*N`")
	cmd.Flags().DurationVar(&f.window, "window", 0, "how much of the trace to replay, e.g. 10m")
}

// openScenario finds a scenario, changes it as the flags say, and reads its data.
func (a *app) openScenario(f *replayFlags, name string) (*replay.Setup, error) {
	s, err := a.readScenario(f, name)
	if err != nil {
		return nil, err
	}
	return a.setupOf(s)
}

func (a *app) readScenario(f *replayFlags, name string) (*replay.Scenario, error) {
	s, err := replay.Find(name)
	if err != nil {
		return nil, err
	}
	if f.trace != "" {
		s.UseTrace(f.trace)
	}
	if f.devices != "" {
		if err := s.UseDevices(f.devices); err != nil {
			return nil, &usageError{err}
		}
	}
	if f.window > 0 {
		s.UseWindow(f.window.Seconds())
	}
	return s, s.Validate()
}

func (a *app) setupOf(s *replay.Scenario) (*replay.Setup, error) {
	named, _ := a.lookup("SLICER_DATA")
	data := ""
	if s.Trace.Generate == nil {
		var err error
		if data, err = replay.FindData(named); err != nil {
			return nil, err
		}
	}
	return replay.Open(s, data)
}

// clock tells monotonic nanoseconds.
func (a *app) clock() int64 { return int64(time.Since(a.start)) }

func (a *app) replay(ctx context.Context, f *replayFlags, name string) error {
	o, err := a.runOptions(ctx, f)
	if err != nil {
		return err
	}
	setup, err := a.openScenario(f, name)
	if err != nil {
		return err
	}
	results := []*replay.Result{}
	for _, policy := range f.policies {
		o.Policy = policy
		r, err := setup.Run(o)
		if errors.Is(err, replay.ErrInterrupted) {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	if err := writeRuns(f.out, results); err != nil {
		return err
	}
	if a.asJSON {
		return a.printJSON(results)
	}
	return a.writeResults(results, f.tenantly)
}

// runOptions turns flags into options; the policy is left open.
func (a *app) runOptions(ctx context.Context, f *replayFlags) (replay.RunOptions, error) {
	o := replay.RunOptions{
		Load: f.load, Seed: f.seed, Clock: a.clock, Interrupted: func() bool { return ctx.Err() != nil },
		Disturb: replay.Disturb{WrongCosts: f.wrongCosts, StaleNs: int64(f.stale), FailPct: f.failPct},
	}
	if f.tuning {
		o.Part = replay.Tuning
	}
	if text, fixed := strings.CutPrefix(f.planCost, "fixed:"); fixed {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return o, usagef("--plan-cost %s: %q is no duration above 0, write fixed:1ms", f.planCost, text)
		}
		o.PlanCostNs = int64(d)
	} else if f.planCost != "measured" {
		return o, usagef("--plan-cost %q: write measured or fixed:1ms", f.planCost)
	}
	for _, k := range f.knobs {
		name, text, ok := strings.Cut(k, "=")
		var v float64
		if _, err := fmt.Sscan(text, &v); !ok || err != nil {
			return o, usagef("--knob %q: write NAME=VALUE", k)
		}
		if o.Knobs == nil {
			o.Knobs = planner.Knobs{}
		}
		o.Knobs[name] = v
	}
	if err := o.Validate(); err != nil {
		return o, &usageError{err}
	}
	return o, nil
}

// writeResults prints runs as a table.
func (a *app) writeResults(results []*replay.Result, tenants bool) error {
	header := []string{"POLICY", "LOAD", "SEED", "REQUESTS", "FINISHED", "VIOLATIONS", "TOKENS/S", "GOOD/S", "TTFT P50", "TTFT P99", "TPOT P50", "TPOT P99", "ACTIONS", "REFUSED", "MEMORY", "PLAN P99"}
	var rows [][]string
	for _, r := range results {
		actions := int64(0)
		for _, n := range r.Actions {
			actions += n
		}
		rows = append(rows, []string{
			r.Policy, fmt.Sprintf("%.3g", r.Load), fmt.Sprint(r.Seed), fmt.Sprint(r.Requests), fmt.Sprint(r.Finished), fmt.Sprintf("%.2f %%", r.ViolationsPct),
			fmt.Sprintf("%.0f", r.TokensPerS), fmt.Sprintf("%.0f", r.GoodTokensPerS), term.Ms(r.TTFT.P50Ms), term.Ms(r.TTFT.P99Ms), term.Ms(r.TPOT.P50Ms),
			term.Ms(r.TPOT.P99Ms), fmt.Sprint(actions), fmt.Sprint(r.Refused), fmt.Sprint(r.MemoryViolations), term.Ms(r.PlanMsP99),
		})
	}
	if err := term.Table(a.out, header, rows); err != nil || !tenants {
		return err
	}
	for _, r := range results {
		fmt.Fprintf(a.out, "\n%s\n", a.out.Bold(r.Policy))
		rows = nil
		for _, t := range r.Tenants {
			rows = append(rows, []string{
				t.ID, t.Model, fmt.Sprint(t.Requests), fmt.Sprint(t.Finished), fmt.Sprintf("%.2f %%", t.ViolationsPct), fmt.Sprint(t.LateFirst),
				fmt.Sprint(t.SlowTokens), fmt.Sprintf("%.0f", t.GoodTokensPerS), term.Ms(t.TTFT.P50Ms), term.Ms(t.TTFT.P99Ms), term.Ms(t.TPOT.P50Ms), term.Ms(t.TPOT.P99Ms),
			})
		}
		if err := term.Table(a.out, []string{"TENANT", "MODEL", "REQUESTS", "FINISHED", "VIOLATIONS", "LATE", "SLOW", "GOOD/S", "TTFT P50", "TTFT P99", "TPOT P50", "TPOT P99"}, rows); err != nil {
			return err
		}
	}
	return nil
}

// writeRuns writes runs of one load as tables.
func writeRuns(dir string, results []*replay.Result) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("directory of results: %w", err)
	}
	if err := writeFile(filepath.Join(dir, "runs.csv"), func(w io.Writer) error { return replay.WriteRunsCSV(w, results) }); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, "tenants.csv"), func(w io.Writer) error { return replay.WriteTenantsCSV(w, results) })
}
