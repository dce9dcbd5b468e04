package replay

import (
	"encoding/csv"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// WriteRunsCSV writes a row for each run; times are milliseconds.
func WriteRunsCSV(w io.Writer, runs []*Result) error {
	rows := [][]string{{"scenario", "policy", "knobs", "part", "load", "seed", "requests", "finished", "violations_pct", "tokens_per_s", "good_tokens_per_s",
		"ttft_mean_ms", "ttft_p50_ms", "ttft_p90_ms", "ttft_p99_ms", "tpot_mean_ms", "tpot_p50_ms", "tpot_p90_ms", "tpot_p99_ms",
		"memory_violations", "lender_violations_pct", "actions", "refused", "lost", "plans", "plan_p50_ms", "plan_p99_ms"}}
	for _, r := range runs {
		actions := int64(0)
		for _, n := range r.Actions {
			actions += n
		}
		row := []string{r.Scenario, r.Policy, KnobsText(r.Knobs), string(r.Part), decimal(r.Load), strconv.FormatUint(r.Seed, 10), whole(r.Requests), whole(r.Finished),
			decimal(r.ViolationsPct), decimal(r.TokensPerS), decimal(r.GoodTokensPerS)}
		for _, f := range []Figures{r.TTFT, r.TPOT} {
			row = append(row, decimal(f.MeanMs), decimal(f.P50Ms), decimal(f.P90Ms), decimal(f.P99Ms))
		}
		rows = append(rows, append(row, whole(r.MemoryViolations), decimal(r.LenderPct), whole(actions), whole(r.Refused), whole(r.Lost), whole(r.Plans),
			decimal(r.PlanMsP50), decimal(r.PlanMsP99)))
	}
	return writeAll(w, rows)
}

// WriteTenantsCSV writes a row for each tenant of each run.
func WriteTenantsCSV(w io.Writer, runs []*Result) error {
	rows := [][]string{{"scenario", "policy", "load", "seed", "tenant", "model", "requests", "finished", "violations_pct", "late_first_token", "slow_tokens",
		"good_tokens_per_s", "lender", "ttft_p50_ms", "ttft_p99_ms", "tpot_p50_ms", "tpot_p99_ms"}}
	for _, r := range runs {
		for _, t := range r.Tenants {
			rows = append(rows, []string{r.Scenario, r.Policy, decimal(r.Load), strconv.FormatUint(r.Seed, 10), t.ID, t.Model, whole(t.Requests), whole(t.Finished),
				decimal(t.ViolationsPct), whole(t.LateFirst), whole(t.SlowTokens), decimal(t.GoodTokensPerS), strconv.FormatBool(t.Lender),
				decimal(t.TTFT.P50Ms), decimal(t.TTFT.P99Ms), decimal(t.TPOT.P50Ms), decimal(t.TPOT.P99Ms)})
		}
	}
	return writeAll(w, rows)
}

func writeAll(w io.Writer, rows [][]string) error {
	out := csv.NewWriter(w)
	if err := out.WriteAll(rows); err != nil {
		return err
	}
	return out.Error()
}

func whole(v int64) string { return strconv.FormatInt(v, 10) }

func decimal(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// KnobsText writes a setting in order of name.
func KnobsText(k map[string]float64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(k)) {
		parts = append(parts, name+"="+strconv.FormatFloat(k[name], 'g', -1, 64))
	}
	return strings.Join(parts, " ")
}
