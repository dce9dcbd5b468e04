package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"slicescheduler/cmd/slicer/internal/term"
	"slicescheduler/whatif"
	"slicescheduler/workload/fidelity"
)

// crossEvaluations is how often the cross-check may replay all runs for each one left out.
const crossEvaluations = 150

// fidelityFlags are the flags of one call.
type fidelityFlags struct {
	profiles, out string
	cross         bool
}

// fidelityCommand compares recorded runs of real servers with the simulator.
func (a *app) fidelityCommand() *cobra.Command {
	var f fidelityFlags
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "fidelity DIR...",
		Short: "Replay recorded runs of real servers and show how far off the simulator is",
		Long: "Replay each recorded run in the simulator and print, for TTFT, TPOT and latency, mean and percentiles of reality, of the simulation and of the\n" +
			"published simulator where the recording has it, how far off single requests are, and when the simulated state first departs from the\n" +
			"recorded one by more than a tenth of its peak.\n\n" +
			"A recording is a directory with engine.json, workload.jsonl and vllm-requests.jsonl, and perhaps vllm-timeseries.csv and\n" +
			"published-simulator.txt. Measured cost tables are looked for under --profiles, else $SLICER_DATA/profiles, else ../shared/profiles.\n\n" +
			"--json prints an array with an object for each run: {run, requests, ttft, tpot, latency, departS}, of which each metric is\n" +
			"{real, sim, errPct, perRequestP50Pct, perRequestP95Pct, statistics}; times are milliseconds, departS seconds or -1 for never.\n" +
			"--out writes RUN.html, which overlays both, and RUN.trace.json for Perfetto. A run that can't be read doesn't keep the others from being shown.",
		Example: "  slicer fidelity ../shared/fidelity/*\n  slicer fidelity --json --out report ../shared/fidelity/rtx4090-llama-3.1-8b",
	})
	cmd.RunE = run(func(ctx context.Context, args []string) error {
		if len(args) == 0 {
			return usagef("name the directories of recorded runs")
		}
		if f.cross && (a.asJSON || f.out != "") {
			return usagef("--cross prints text only; call it without --json and --out")
		}
		if f.cross && len(args) < 2 {
			return usagef("--cross leaves each run out in turn, so it wants two directories or more")
		}
		return a.fidelity(ctx, f, args)
	})
	cmd.Flags().StringVar(&f.profiles, "profiles", "", "`directory` of measured cost tables (see above)")
	cmd.Flags().StringVar(&f.out, "out", "", "`directory` for pages and traces; it is made if need be")
	cmd.Flags().BoolVar(&f.cross, "cross", false, "fit the simulator's figures anew without each run in turn and print the errors; may take minutes")
	return cmd
}

func (a *app) fidelity(ctx context.Context, f fidelityFlags, dirs []string) error {
	profiles, err := a.profilesDir(f.profiles)
	if err != nil {
		return err
	}
	if f.cross {
		return a.crossCheck(dirs, profiles)
	}
	out, err := newReport(f.out)
	if err != nil {
		return err
	}
	results, bad := []fidelity.Result{}, 0
	for _, dir := range dirs {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		res, files, err := evaluateRun(dir, profiles, out)
		if err != nil {
			bad++
			fmt.Fprintf(a.err, "slicer: %v\n", err)
			continue
		}
		results = append(results, res)
		if !a.asJSON {
			writeFidelity(a.out, &res)
			for _, file := range files {
				fmt.Fprintf(a.out, "wrote %s\n", file)
			}
			fmt.Fprintln(a.out)
		}
	}
	if a.asJSON {
		if err := a.printJSON(results); err != nil {
			return err
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d runs could not be compared", bad, len(dirs))
	}
	return nil
}

// crossCheck prints how far off runs are that the simulator's figures were not fitted to. Unlike the table it needs every run.
func (a *app) crossCheck(dirs []string, profiles string) error {
	for _, dir := range dirs {
		if err := checkRecording(dir); err != nil {
			return err
		}
	}
	return explainRun(fidelity.CrossCheck(dirs, profiles, crossEvaluations, a.out))
}

// profilesDir finds the cost tables.
func (a *app) profilesDir(named string) (string, error) {
	dir := named
	if data, ok := a.lookup("SLICER_DATA"); dir == "" && ok && data != "" {
		dir = filepath.Join(data, "profiles")
	}
	if dir == "" {
		dir = filepath.Join("..", "shared", "profiles")
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", fmt.Errorf("no cost tables: %s is no directory; name the one with the tables with --profiles, or set SLICER_DATA to the one above it", dir)
	}
	return dir, nil
}

// evaluateRun compares one run and, where a report is wanted, writes its files.
func evaluateRun(dir, profiles string, out *report) (fidelity.Result, []string, error) {
	if err := checkRecording(dir); err != nil {
		return fidelity.Result{}, nil, err
	}
	res, err := fidelity.Evaluate(dir, profiles)
	if err != nil || out == nil {
		return res, nil, explainRun(err)
	}
	files, err := out.write(dir, profiles, res)
	return res, files, err
}

// recordingFiles are those that every recording has.
func recordingFiles() []string {
	return []string{"engine.json", "workload.jsonl", "vllm-requests.jsonl"}
}

// checkRecording tells a directory that is no recording from one that lacks something.
func checkRecording(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("recorded run: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is a file; name the directory that holds engine.json, workload.jsonl and vllm-requests.jsonl", dir)
	}
	missing := ""
	found := 0
	for _, name := range recordingFiles() {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			found++
		} else if missing == "" {
			missing = name
		}
	}
	switch {
	case found == 0:
		return fmt.Errorf("%s is no recorded run: it has no engine.json, workload.jsonl and vllm-requests.jsonl; name the directory that holds them", dir)
	case missing != "":
		return fmt.Errorf("%s lacks %s, which a recorded run needs beside engine.json, workload.jsonl and vllm-requests.jsonl: copy it there", dir, missing)
	}
	return nil
}

// explainRun adds what to do about an error of a comparison.
func explainRun(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, whatif.ErrSpec):
		var hardware, models []string
		for _, h := range whatif.HardwareKinds() {
			hardware = append(hardware, h.Name)
		}
		for _, m := range whatif.Architectures() {
			models = append(models, m.Name)
		}
		return fmt.Errorf("%w (engine.json names both; hardware known here: %v; models: %v)", err, hardware, models)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w; --profiles names another directory of tables", err)
	}
	return err
}

// writeFidelity prints a run's comparison, in 80 columns.
func writeFidelity(out term.Stream, r *fidelity.Result) {
	fmt.Fprintf(out, "%s (%d requests)\n", out.Bold(r.Run), r.Requests)
	fmt.Fprintln(out, out.Dim(fmt.Sprintf("  %-15s%12s%12s%10s%12s%10s", "ms", "real", "sim", "error", "published", "error")))
	for _, m := range r.Metrics {
		for _, s := range m.Statistics {
			fmt.Fprintf(out, "  %-15s%12.1f%12.1f%+9.2f%%", m.Name+" "+s.Name, s.Real, s.Sim, s.ErrPct)
			if s.Published > 0 {
				fmt.Fprint(out, out.Dim(fmt.Sprintf("%12.1f%+9.2f%%", s.Published, s.PublishedErrPct)))
			}
			fmt.Fprintln(out)
		}
	}
	fmt.Fprintln(out, out.Dim(fmt.Sprintf("  %-27s%12s%12s", "single requests, |error|", "median", "P95")))
	for _, m := range r.Metrics {
		fmt.Fprintf(out, "  %-27s%11.2f%%%11.2f%%\n", m.Name, m.PerRequestP50Pct, m.PerRequestP95Pct)
	}
	writeDepartures(out, r)
}

func writeDepartures(out io.Writer, r *fidelity.Result) {
	departs := r.Departures()
	if len(departs) == 0 {
		return
	}
	fmt.Fprint(out, "  departs from the recorded series: ")
	for i, d := range departs {
		if i > 0 {
			fmt.Fprint(out, ", ")
		}
		fmt.Fprint(out, d)
	}
	fmt.Fprintln(out)
}
