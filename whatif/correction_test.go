package whatif

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"slicescheduler/gmg"
)

func TestCorrection(t *testing.T) {
	var c Correction
	if c.Factor("qkv_proj") != 1 {
		t.Error("a new correction corrects")
	}
	for range 200 {
		c.Observe("qkv_proj", 100, 130)
	}
	if f := c.Factor("qkv_proj"); math.Abs(f-1.3) > 0.01 {
		t.Errorf("learned %.3f of 1.3", f)
	}
	before := c.Factor("qkv_proj")
	c.Observe("qkv_proj", 100, 100_000)
	if f := c.Factor("qkv_proj"); f > before*1.25 {
		t.Errorf("one hiccup moved the factor from %.2f to %.2f", before, f)
	}
	for range 1000 {
		c.Observe("lm_head", 100, 900)
		c.Observe("down_proj", 100, 1)
	}
	if c.Factor("lm_head") != 2 || c.Factor("down_proj") != 0.5 || c.Factor("attention") != 1 {
		t.Errorf("bounds: %.2f, %.2f, %.2f", c.Factor("lm_head"), c.Factor("down_proj"), c.Factor("attention"))
	}
	source := c.Source(costsBy(map[string]Cost{"lm_head": linear{a: 50}, "attention": linear{a: 50}}))
	for name, want := range map[string]int64{"lm_head": 100, "attention": 50} {
		cost, err := source(&gmg.Operator{Name: name})
		if err != nil || cost.Ns(&Shape{}) != want {
			t.Errorf("%s takes %d, want %d (%v)", name, cost.Ns(&Shape{}), want, err)
		}
	}
}

// Forks of one simulation may run at the same time, and come to what they come to alone.
func TestForksRunTogether(t *testing.T) {
	base := mustNew(t, serverSpec(4, 20, 30, 50e6), Fast)
	base.Run(1e9)
	forecast := func(f *Sim, k int) string {
		if k%2 == 1 {
			if err := f.Apply(RemoveLane{Tenant: k % 4, Lane: 0}); err != nil {
				t.Error(err)
			}
		}
		f.Run(3e9)
		return fmt.Sprintf("%+v", f.Forecast())
	}
	var alone, together [8]string
	for k := range alone {
		alone[k] = forecast(base.Fork(), k)
	}
	var forks [8]*Sim
	for k := range forks {
		forks[k] = base.Fork()
	}
	var wait sync.WaitGroup
	for k := range forks {
		wait.Go(func() { together[k] = forecast(forks[k], k) })
	}
	wait.Wait()
	if alone != together {
		t.Error("forks that ran at the same time came to something else")
	}
}
