package workload

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"
)

func TestReadTraceGolden(t *testing.T) {
	datadriven.RunTest(t, "testdata/traces.txt", func(t *testing.T, d *datadriven.TestData) string {
		var limits TraceLimits
		d.MaybeScanArgs(t, "context", &limits.MaxContextTokens)
		text := strings.NewReplacer(`\r`, "\r", `\ufeff`, "\ufeff").Replace(d.Input)
		tr, err := ReadTrace(strings.NewReader(text+"\n"), "input", limits)
		if err != nil {
			return err.Error() + "\n"
		}
		var out strings.Builder
		for _, a := range tr.Arrivals {
			fmt.Fprintf(&out, "%d ns %q %d+%d %v\n", a.ArrivalNs, a.Tenant, a.PromptTokens, a.OutputTokens, a.Blocks)
		}
		for _, r := range tr.Rejected {
			fmt.Fprintf(&out, "row %d left out: %s\n", r.Row, r.Reason)
		}
		return out.String()
	})
}

// Real traces are read whole, in order, with every row either taken or reported.
func TestReadRealTraces(t *testing.T) {
	dir := os.Getenv("SLICER_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared")
	}
	for name, want := range map[string]struct {
		rows, tenants int
	}{"azure-2023-conv.csv": {19366, 1}, "azure-2023-code.csv": {8819, 1}, "azure-skew-8.csv": {19366, 8}, "servegen-mixed-64.csv": {92705, 64}, "mooncake-conversation.jsonl": {12031, 1}} {
		t.Run(name, func(t *testing.T) {
			f, err := os.Open(filepath.Join(dir, "traces", name))
			if errors.Is(err, os.ErrNotExist) {
				t.Skipf("no traces under %s; set SLICER_DATA to where they are", dir)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			tr, err := ReadTrace(f, name, TraceLimits{})
			if err != nil {
				t.Fatal(err)
			}
			if got := len(tr.Arrivals) + len(tr.Rejected); got != want.rows || len(tr.Tenants()) != want.tenants {
				t.Errorf("%d rows of %d tenants, want %d of %d; rejected %v", got, len(tr.Tenants()), want.rows, want.tenants, tr.Rejected[:min(3, len(tr.Rejected))])
			}
			for i := 1; i < len(tr.Arrivals); i++ {
				if tr.Arrivals[i].ArrivalNs < tr.Arrivals[i-1].ArrivalNs {
					t.Fatalf("arrival %d is out of order", i)
				}
			}
		})
	}
}

func TestWindow(t *testing.T) {
	tr := &Trace{Arrivals: []Arrival{{ArrivalNs: 0}, {ArrivalNs: 10}, {ArrivalNs: 30}}}
	w, err := tr.Window(30, 2)
	if err != nil || len(w.Arrivals) != 2 || w.Arrivals[1].ArrivalNs != 5 || tr.Arrivals[1].ArrivalNs != 10 {
		t.Errorf("got %+v, %v", w, err)
	}
	if _, err := tr.Window(30, 0); !errors.Is(err, ErrTrace) {
		t.Errorf("a load factor of 0 gave %v", err)
	}
}

func generator() Generator {
	return Generator{
		Seed: 7, Tenants: 4, RatePerS: 50, LengthNs: 400e9, Pattern: Poisson, Burstiness: 3, Swing: 0.8, PeriodNs: 100e9, Skew: 1,
		Prompt: Lengths{300, 1, 4000}, Output: Lengths{100, 0.7, 1000},
	}
}

func TestGenerate(t *testing.T) {
	for _, p := range []Pattern{Poisson, Bursty, Diurnal} {
		g := generator()
		g.Pattern = p
		a, err := g.Generate()
		if err != nil {
			t.Fatal(err)
		}
		b, err := g.Generate()
		if err != nil || !reflect.DeepEqual(a, b) {
			t.Errorf("%s: the same seed gave another trace", p)
		}
		// 20,000 arrivals: the rate is within 2.5 % (four standard deviations of bursty arrivals are 8 %).
		if n := float64(len(a.Arrivals)); math.Abs(n/20000-1) > 0.08 {
			t.Errorf("%s: %v arrivals, want about 20000", p, n)
		}
		counts := map[string]int{}
		for _, r := range a.Arrivals {
			counts[r.Tenant]++
			if r.PromptTokens < 1 || r.PromptTokens > 4000 || r.OutputTokens < 1 || r.OutputTokens > 1000 {
				t.Fatalf("%s: lengths %d and %d", p, r.PromptTokens, r.OutputTokens)
			}
		}
		if ratio := float64(counts["t00"]) / float64(counts["t03"]); ratio < 3 || ratio > 5.3 {
			t.Errorf("%s: the first tenant has %.1f times the requests of the fourth, want about 4", p, ratio)
		}
		if cv := variation(a); p == Bursty && cv < 1.5 || p == Poisson && math.Abs(cv-1) > 0.1 {
			t.Errorf("%s: gaps of one tenant vary by %.2f", p, cv)
		}
	}
}

// variation is the coefficient of variation of the first tenant's gaps.
func variation(t *Trace) float64 {
	var last int64
	var n, sum, squares float64
	for _, a := range t.Arrivals {
		if a.Tenant != "t00" {
			continue
		}
		gap := float64(a.ArrivalNs - last)
		last = a.ArrivalNs
		n, sum, squares = n+1, sum+gap, squares+gap*gap
	}
	mean := sum / n
	return math.Sqrt(squares/n-mean*mean) / mean
}

func TestGeneratorRefuses(t *testing.T) {
	for name, spoil := range map[string]func(*Generator){
		"tenants": func(g *Generator) { g.Tenants = 0 }, "rate": func(g *Generator) { g.RatePerS = 0 }, "pattern": func(g *Generator) { g.Pattern = "x" },
		"lengths": func(g *Generator) { g.Prompt.Max = 0 }, "swing": func(g *Generator) { g.Pattern, g.Swing = Diurnal, 2 },
		"burstiness": func(g *Generator) { g.Pattern, g.Burstiness = Bursty, 0 }, "skew": func(g *Generator) { g.Skew = -1 },
	} {
		g := generator()
		spoil(&g)
		if _, err := g.Generate(); !errors.Is(err, ErrTrace) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// The last digit of a fraction survives.
func TestParseTimeIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ns := rapid.Int64Range(0, 1<<60).Draw(t, "ns")
		if got, err := parseTime(fmt.Sprintf("%d.%09d", ns/1e9, ns%1e9), 1e9); err != nil || got != ns {
			t.Fatalf("%d ns became %d, %v", ns, got, err)
		}
	})
}

func FuzzReadTrace(f *testing.F) {
	f.Add("arrival_s,input_tokens,output_tokens\n0.5,1,2\n")
	f.Add(`{"timestamp": 1, "input_length": 2, "output_length": 3, "hash_ids": [1]}`)
	f.Fuzz(func(t *testing.T, text string) {
		tr, err := ReadTrace(strings.NewReader(text), "fuzz", TraceLimits{MaxContextTokens: 1000})
		if err != nil {
			return
		}
		for _, a := range tr.Arrivals {
			if a.PromptTokens < 1 || a.OutputTokens < 1 || a.PromptTokens+a.OutputTokens > 1000 {
				t.Fatalf("took %+v", a)
			}
		}
	})
}
