package replay

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"slicescheduler/workload"
)

func TestEmbeddedScenariosAreValid(t *testing.T) {
	for _, name := range Names() {
		s, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		if s.Name != name || s.WindowS != 1200 || s.TuneFromS != 1200 || s.DrainS != 1200 || s.Devices.PerHost != 4 {
			t.Errorf("%+v", *s)
		}
	}
}

func TestModelsByRank(t *testing.T) {
	const llama, qwen, moe = "Llama-3.1-8B", "Qwen3-32B", "Qwen3-30B-A3B-Instruct-2507"
	for name, want := range map[string][]string{
		"reason-8": {llama, qwen, moe, llama, qwen, llama, llama, moe},
		"pack-64":  {llama, llama, llama, qwen, llama, llama, llama, moe, llama, llama, llama, qwen},
		"conv-8":   {llama, llama},
	} {
		s, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		for rank, m := range want {
			if got := s.Tenants.modelOf(rank); got != m {
				t.Errorf("%s: rank %d has %s, want %s", name, rank+1, got, m)
			}
		}
	}
}

func TestWrongScenariosAreNamed(t *testing.T) {
	const good = "devices: {kind: RTX4090, count: 2}\ntenants: {model: Llama-3.1-8B}\ntrace: {file: x.csv}\n"
	for text, want := range map[string]string{
		strings.Replace(good, "RTX4090", "RTX9", 1):                                                      "RTX9",
		strings.Replace(good, "count: 2", "count: 0", 1):                                                 "count is 0",
		strings.Replace(good, "Llama-3.1-8B", "Llama-9", 1):                                              "Llama-9",
		strings.Replace(good, "file: x.csv", "", 1):                                                      "trace",
		strings.Replace(good, "file: x.csv", "fil: x.csv", 1):                                            "fil",
		good + "windowS: -1\n":                                                                           "above 0",
		good + "tuneFromS: 5\ntuneToS: 4\n":                                                              "tuneFromS",
		strings.Replace(good, "file: x.csv", "generate: {tenants: 0}", 1):                                "generator",
		strings.Replace(good, "Llama-3.1-8B", "Llama-3.1-8B, others: [{model: Qwen3-32B, first: 2}]", 1): "every",
	} {
		if _, err := Read(strings.NewReader(text), "wrong.yaml"); !errors.Is(err, ErrScenario) || !strings.Contains(err.Error(), "wrong.yaml") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q\nwant %q in the error, got %v", text, want, err)
		}
	}
	if _, err := Find("no-such-file.yaml"); !errors.Is(err, ErrScenario) || !strings.Contains(err.Error(), "conv-8") {
		t.Errorf("%v", err)
	}
	s, err := Find("conv-8")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(s, t.TempDir()); err == nil || !strings.Contains(err.Error(), "SLICER_DATA") {
		t.Errorf("a trace that isn't there: %v", err)
	}
	for _, text := range []string{"RTX4090", "RTX4090*", "RTX4090*x", "RTX4090*0"} {
		if err := s.UseDevices(text); !errors.Is(err, ErrScenario) {
			t.Errorf("devices %q: %v", text, err)
		}
	}
}

func TestPastIsMeasuredOnTheOtherPieceAtTheLoad(t *testing.T) {
	rows := []string{"0,a,10,1"}
	for i := range 40 {
		rows = append(rows, fmt.Sprintf("%d,a,%d,%d", 60+i/2, 100+i, 10))
	}
	p := openSetup(t, small(t, 1, 1, 1, 60, traced(t, rows...)))
	past := p.past(2).Tenants[0]
	if past.RequestsPerS != 40./30 || past.PeakRequestsPerS != 4 || past.OutputTokens != 10 || math.Abs(past.PromptTokens-119.5) > 1e-9 {
		t.Errorf("%+v", past)
	}
	if q := past.PromptQuantiles; len(q) != 11 || q[0] != 100 || q[10] != 139 {
		t.Errorf("quantiles %v", q)
	}
}

func TestHomesPairBusyTenantsWithQuietOnes(t *testing.T) {
	s, err := Find("synthetic-64")
	if err != nil {
		t.Fatal(err)
	}
	p := openSetup(t, s)
	homes := make([]int, len(p.devices))
	for _, tenant := range p.Tenants {
		homes[tenant.Home] += tenant.Rank
	}
	for d, sum := range homes {
		if sum != 63 {
			t.Errorf("the ranks at home on device %d add up to %d", d, sum)
		}
	}
	if got := len(p.links); got != 32*31 {
		t.Errorf("%d links", got)
	}
	for _, l := range p.links {
		if same := l.From/4 == l.To/4; same != (l.BandwidthBytesPerS == 20e9 && l.LatencyNs == 20_000) || !same && (l.BandwidthBytesPerS != 12.5e9 || l.LatencyNs != 50_000) {
			t.Errorf("%+v", l)
		}
	}
}

func TestTrueCostsAreOffByATenth(t *testing.T) {
	n, sum, squares := 0, 0.0, 0.0
	for device := range 300 {
		for _, op := range []string{"qkv_proj", "o_proj", "attention", "gate_up_proj", "down_proj"} {
			f := sourceKey{hardware: "RTX4090", model: "m", view: asTrue, seed: 7, device: device}.factor(op)
			if f < 1-trueLimit || f > 1+trueLimit {
				t.Errorf("factor %g", f)
			}
			n, sum, squares = n+1, sum+f, squares+f*f
		}
	}
	mean := sum / float64(n)
	if sd := math.Sqrt(squares/float64(n) - mean*mean); math.Abs(mean-1) > 0.01 || math.Abs(sd-trueSpread) > 0.01 {
		t.Errorf("mean %g, standard deviation %g", mean, sd)
	}
	wrong := 0
	for i := range 1000 {
		f := sourceKey{view: asMistaken, seed: 7, device: -1}.factor(fmt.Sprint(i))
		if f != 1 {
			wrong++
		}
		if f != 1 && math.Abs(math.Abs(f-1)-mistakenBy) > 1e-12 {
			t.Errorf("factor %g", f)
		}
	}
	if wrong < 450 || wrong > 550 {
		t.Errorf("%d of 1000 operators are mistaken", wrong)
	}
}

// A request's limits as policies see them must not tell how long its answer will be.
func TestLimitsAreThoseOfTheRule(t *testing.T) {
	p := openSetup(t, small(t, 1, 1, 1, 60, ""))
	ttft, tpot := p.limits(0, 4000)
	alone := p.alone[0].request(4000, 0)
	if want := max(5*alone.TTFTNs, 1e9); ttft != want || tpot != 50e6 || alone.TPOTNs > 25e6 {
		t.Errorf("TTFT %d, want %d; TPOT %d, alone %d", ttft, want, tpot, alone.TPOTNs)
	}
	if a, b := p.alone[0].request(100, 20), p.alone[0].request(5000, 3000); a.TTFTNs >= b.TTFTNs || a.TPOTNs >= b.TPOTNs || a.TTFTNs <= 0 || a.TPOTNs <= 0 {
		t.Errorf("alone %+v and %+v", a, b)
	}
	if _, want := (workload.SLA{}).Limits(p.alone[0].request(4000, 0)); tpot != want {
		t.Errorf("TPOT limit %d, want %d", tpot, want)
	}
}

func TestDataIsFoundAboveTheWorkingDirectory(t *testing.T) {
	if _, err := FindData("/no/such/directory"); !errors.Is(err, ErrScenario) {
		t.Errorf("%v", err)
	}
}
