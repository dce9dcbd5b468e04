package replay

import "testing"

func openScenario(t testing.TB, name string) *Setup {
	t.Helper()
	s, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	data := ""
	if s.Trace.Generate == nil {
		if data, err = FindData(""); err != nil {
			t.Fatal(err)
		} else if data == "" {
			t.Skip("the traces aren't here: set SLICER_DATA or put them in ../shared")
		}
	}
	p, err := Open(s, data)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestStaticFinishesEverythingAtLowLoad(t *testing.T) {
	p := openScenario(t, "synthetic-8")
	r, err := p.Run(RunOptions{Policy: "static", Load: 0.5, Seed: 1, PlanCostNs: 1e6})
	if err != nil {
		t.Fatal(err)
	}
	if r.Finished != r.Requests || r.Requests < 1000 || r.ViolationsPct > 5 || r.MemoryViolations != 0 || r.TokensPerS < r.GoodTokensPerS*0.95 {
		t.Errorf("%v: %+v", r, *r)
	}
}
