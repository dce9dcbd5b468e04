package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slicescheduler/planner"
	"slicescheduler/whatif"
	"slicescheduler/workload"
)

// small is a scenario of some tenants of 8B on RTX 4090s that generates its trace, or replays a file.
func small(t testing.TB, tenants, devices int, ratePerS, windowS float64, traceFile string) *Scenario {
	t.Helper()
	trace := fmt.Sprintf("trace: {generate: {seed: 3, tenants: %d, ratePerS: %g, pattern: bursty, burstiness: 2, skew: 1, "+
		"prompt: {median: 400, sigma: 1, max: 4000}, output: {median: 100, sigma: 0.8, max: 800}}}\n", tenants, ratePerS)
	if traceFile != "" {
		trace = fmt.Sprintf("trace: {file: %q}\n", traceFile)
	}
	s, err := Read(strings.NewReader(fmt.Sprintf("name: small\ndevices: {kind: RTX4090, count: %d}\ntenants: {model: Llama-3.1-8B}\nwindowS: %g\ndrainS: 600\n%s",
		devices, windowS, trace)), "small")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openSetup(t testing.TB, s *Scenario) *Setup {
	t.Helper()
	p, err := Open(s, "")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// fixed are options of a reproducible run.
func fixed(policy string, load float64) RunOptions {
	return RunOptions{Policy: policy, Load: load, Seed: 1, PlanCostNs: 1e6}
}

func mustRun(t testing.TB, p *Setup, o RunOptions) *Result {
	t.Helper()
	r, err := p.Run(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// traced writes a trace's rows below a header of arrival_s,tenant,input_tokens,output_tokens.
func traced(t *testing.T, rows ...string) string {
	t.Helper()
	return writeTrace(t, "arrival_s,tenant,input_tokens,output_tokens", rows)
}

func writeTrace(t *testing.T, header string, rows []string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.csv")
	if err := os.WriteFile(path, []byte(header+"\n"+strings.Join(rows, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestStaticFinishesEverythingAtLowLoad(t *testing.T) {
	s, err := Find("synthetic-8")
	if err != nil {
		t.Fatal(err)
	}
	r := mustRun(t, openSetup(t, s), fixed("static", 0.5))
	if r.Finished != r.Requests || r.Requests < 1000 || r.ViolationsPct > 5 || r.MemoryViolations != 0 || r.TokensPerS < r.GoodTokensPerS*0.95 {
		t.Errorf("%v: %+v", r, *r)
	}
}

func TestOneRequestTakesWhatItTakesAlone(t *testing.T) {
	p := openSetup(t, small(t, 1, 1, 1, 60, traced(t, "5,a,700,40")))
	r := mustRun(t, p, fixed("static", 1))
	if r.Requests != 1 || r.Finished != 1 || r.ViolationsPct != 0 || r.GoodTokensPerS != 740/60. || r.TokensPerS != r.GoodTokensPerS {
		t.Errorf("%+v", *r)
	}
	// The world's operators are off by 10 % each and its steps by 3 %; together by less than 15 %.
	alone := p.alone[0].request(700, 40)
	if ttft := r.TTFT.MeanMs * 1e6 / float64(alone.TTFTNs); ttft < 0.85 || ttft > 1.15 {
		t.Errorf("TTFT %.1f ms, %.1f alone", r.TTFT.MeanMs, float64(alone.TTFTNs)/1e6)
	}
	if tpot := r.TPOT.MeanMs * 1e6 / float64(alone.TPOTNs); tpot < 0.85 || tpot > 1.15 {
		t.Errorf("TPOT %.2f ms, %.2f alone", r.TPOT.MeanMs, float64(alone.TPOTNs)/1e6)
	}
}

func TestAllAtOnceIsServedToTheEnd(t *testing.T) {
	var rows []string
	for i := range 300 {
		rows = append(rows, fmt.Sprintf("0,t%d,%d,%d", i%2, 50+i, 20+i%40))
	}
	p := openSetup(t, small(t, 2, 2, 1, 60, traced(t, rows...)))
	for _, policy := range planner.Names() {
		r := mustRun(t, p, fixed(policy, 1))
		if r.Requests != 300 || r.Finished != 300 || r.MemoryViolations != 0 {
			t.Errorf("%v: %d of %d finished, %d memory violations", r, r.Finished, r.Requests, r.MemoryViolations)
		}
	}
}

// A tenant that asks for nothing within the window has a lane and no requests, and doesn't count in the tenants' average.
func TestTenantWithoutRequestsCostsNothing(t *testing.T) {
	p := openSetup(t, small(t, 2, 2, 1, 60, traced(t, "0,a,100,20", "1,a,100,20", "100,b,100,20")))
	r := mustRun(t, p, fixed("static", 1))
	if len(r.Tenants) != 2 || r.Tenants[1].Requests != 0 || r.Tenants[1].ViolationsPct != 0 || r.Finished != 2 || r.ViolationsPct != 0 {
		t.Errorf("%+v", *r)
	}
}

func TestTraceThatLacksAColumnIsNamed(t *testing.T) {
	for header, want := range map[string]string{
		"arrival_s,tenant,input_tokens":     "answer lengths",
		"arrival_s,tenant,output_tokens":    "prompt lengths",
		"tenant,input_tokens,output_tokens": "arrival times",
	} {
		path := writeTrace(t, header, []string{"1,2,3"})
		_, err := Open(small(t, 1, 1, 1, 60, path), "")
		if !errors.Is(err, workload.ErrTrace) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", header, err)
		}
	}
}

func TestEqualRunsWithAFixedPlanCost(t *testing.T) {
	p := openSetup(t, small(t, 4, 4, 6, 120, ""))
	for _, policy := range planner.Names() {
		var texts [2]string
		for i := range texts {
			o := fixed(policy, 1.5)
			o.Disturb = Disturb{WrongCosts: true, StaleNs: 200e6, FailPct: 5}
			data, err := json.Marshal(mustRun(t, p, o))
			if err != nil {
				t.Fatal(err)
			}
			texts[i] = string(data)
		}
		if texts[0] != texts[1] {
			t.Errorf("%s: two runs differ:\n%s\n%s", policy, texts[0], texts[1])
		}
	}
}

// scripted is a policy on static's placement whose Plan a test gives.
type scripted struct {
	planner.Policy
	plan func(*whatif.State) []planner.Decision
}

func (s *scripted) PeriodNs() int64                          { return 50e6 }
func (s *scripted) Plan(st *whatif.State) []planner.Decision { return s.plan(st) }

func makeScripted(plan func(*whatif.State) []planner.Decision) func(string, planner.Knobs) (planner.Policy, error) {
	return func(string, planner.Knobs) (planner.Policy, error) {
		p, err := planner.New("static", nil)
		return &scripted{p, plan}, err
	}
}

func TestActionsThatCannotBeTakenAreCounted(t *testing.T) {
	p := openSetup(t, small(t, 2, 2, 2, 60, ""))
	plans := 0
	o := fixed("static", 1)
	o.Detail = true
	o.Make = makeScripted(func(*whatif.State) []planner.Decision {
		if plans++; plans > 1 {
			return nil
		}
		return []planner.Decision{
			{Action: whatif.RemoveLane{Tenant: 0, Lane: 7}, Kind: "evict", Tenant: 0, Reason: "there is no such lane"},
			{Action: whatif.AddLane{Tenant: 9}, Kind: "replicate", Tenant: 9, Reason: "nor such a tenant"},
			{Action: whatif.Throttle{Tenant: 1, MaxSequences: 3}, Kind: "throttle", Tenant: 1, Reason: "may be"},
		}
	})
	r := mustRun(t, p, o)
	if r.Refused != 2 || r.Actions["throttle"] != 1 || r.MemoryViolations != 0 || r.Finished != r.Requests {
		t.Errorf("%+v", *r)
	}
	if d := r.Detail.Decisions; len(d) != 3 || d[0].Applied || d[0].Refusal == "" || !d[2].Applied || d[2].AtNs < 51e6+minMessageNs || d[2].AtNs > 51e6+minMessageNs+messageSpread {
		t.Errorf("%+v", d)
	}
}

func TestLostActionsDoNothing(t *testing.T) {
	p := openSetup(t, small(t, 2, 2, 2, 60, ""))
	o := fixed("static", 1)
	o.Disturb.FailPct = 100
	o.Make = makeScripted(func(*whatif.State) []planner.Decision {
		return []planner.Decision{{Action: whatif.RemoveLane{}, Kind: "evict"}}
	})
	r := mustRun(t, p, o)
	if r.Lost == 0 || r.Refused != 0 || len(r.Actions) != 0 || r.Finished != r.Requests {
		t.Errorf("%+v", *r)
	}
}

func TestStaleStatesAreAsOldAsTheyShouldBe(t *testing.T) {
	p := openSetup(t, small(t, 2, 2, 2, 20, ""))
	o := fixed("static", 1)
	o.Disturb.StaleNs = 200e6
	plans, last := int64(0), int64(-1)
	o.Make = makeScripted(func(s *whatif.State) []planner.Decision {
		// Plans are made every 50 ms from the first moment on at which a state is old enough.
		if want := plans * 50e6; s.NowNs > want || s.NowNs < want-50e6 || s.NowNs < last {
			t.Fatalf("plan %d sees the state of %d ns", plans, s.NowNs)
		}
		plans, last = plans+1, s.NowNs
		return nil
	})
	if mustRun(t, p, o); plans < 100 {
		t.Errorf("%d plans", plans)
	}
}

func TestStatesDoNotGiveTrueCostsAway(t *testing.T) {
	p := openSetup(t, small(t, 2, 2, 2, 10, ""))
	o := fixed("static", 1)
	seen := 0
	o.Make = makeScripted(func(s *whatif.State) []planner.Decision {
		for i := range s.Tenants {
			for _, l := range s.Tenants[i].Lanes {
				for _, sl := range l.Spec.Ranks[0].Slices {
					if seen++; sl.Program != nil {
						t.Fatal("a state holds a lane that was compiled to true costs")
					}
				}
			}
		}
		return nil
	})
	if mustRun(t, p, o); seen == 0 {
		t.Error("no lane was seen")
	}
}

func TestLostRunsEndEarly(t *testing.T) {
	p := openSetup(t, small(t, 2, 2, 8, 300, ""))
	whole := mustRun(t, p, fixed("static", 8))
	o := fixed("static", 8)
	o.StopAbovePct = 9
	r := mustRun(t, p, o)
	if whole.ViolationsPct < 20 {
		t.Fatalf("%.1f %% violations: this test wants an overload", whole.ViolationsPct)
	}
	if !r.Stopped || r.ViolationsPct <= 9 || r.ViolationsPct > whole.ViolationsPct || r.Steps >= whole.Steps {
		t.Errorf("stopped %t at %.1f %% after %d steps; the whole run has %.1f %% and %d", r.Stopped, r.ViolationsPct, r.Steps, whole.ViolationsPct, whole.Steps)
	}
}

func TestTraceOfAWindow(t *testing.T) {
	p := openSetup(t, small(t, 2, 2, 4, 60, ""))
	var out strings.Builder
	if err := p.WriteTrace(&out, fixed("static", 1), 20e9, 22e9); err != nil {
		t.Fatal(err)
	}
	var trace struct {
		TraceEvents []struct {
			Phase string  `json:"ph"`
			At    float64 `json:"ts"`
		} `json:"traceEvents"`
	}
	if err := json.Unmarshal([]byte(out.String()), &trace); err != nil {
		t.Fatal(err)
	}
	steps := 0
	for _, e := range trace.TraceEvents {
		if e.Phase == "X" {
			if steps++; e.At < 19.5e6 || e.At > 22e6 {
				t.Errorf("an event at %g us", e.At)
			}
		}
	}
	if steps < 10 {
		t.Errorf("%d steps in two seconds", steps)
	}
}
