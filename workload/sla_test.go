package workload

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"slicescheduler/gmg"
)

const ms = 1_000_000

func TestJudgeGolden(t *testing.T) {
	datadriven.RunTest(t, "testdata/judge.txt", func(t *testing.T, d *datadriven.TestData) string {
		arg := func(name string) int64 {
			var v int64
			d.MaybeScanArgs(t, name, &v)
			return v
		}
		sla := SLA{TTFTNs: arg("sla-ttft") * ms, TPOTNs: arg("sla-tpot") * ms}
		alone := Alone{TTFTNs: arg("alone-ttft") * ms, TPOTNs: arg("alone-tpot") * ms}
		r := Record{ArrivalNs: 7 * ms, OutputTokens: int(arg("tokens")), Finished: arg("unfinished") == 0}
		r.FirstTokenNs = r.ArrivalNs + arg("ttft")*ms + arg("us")*1000
		r.LastTokenNs = r.FirstTokenNs + arg("decode")*ms
		ttft, tpot := sla.Limits(alone)
		return fmt.Sprintf("limits %d ms, %d ms: %s\n", ttft/ms, tpot/ms, describe(Judge(r, sla, alone)))
	})
}

func describe(v Verdict) string {
	var words []string
	for _, w := range []struct {
		bit  Verdict
		name string
	}{{LateFirstToken, "late first token"}, {SlowTokens, "slow tokens"}, {Unfinished, "unfinished"}} {
		if v&w.bit != 0 {
			words = append(words, w.name)
		}
	}
	if len(words) == 0 {
		return "ok"
	}
	return strings.Join(words, ", ")
}

func TestSLAOfSpec(t *testing.T) {
	if got, want := SLAOf(gmg.TenantSpec{TTFTMs: 500, TPOTMs: 40}), (SLA{500 * ms, 40 * ms}); got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

func TestHugeFiguresDoNotWrap(t *testing.T) {
	ttft, tpot := (SLA{}).Limits(Alone{math.MaxInt64, math.MaxInt64 / 2})
	if ttft != math.MaxInt64 || tpot != math.MaxInt64/2*2 {
		t.Fatalf("limits %d, %d", ttft, tpot)
	}
	if v := Judge(Record{FirstTokenNs: 1, LastTokenNs: 2, OutputTokens: 100, Finished: true}, SLA{TPOTNs: math.MaxInt64 / 2}, Alone{}); v != 0 {
		t.Fatalf("verdict %v", v)
	}
}

func drawRecord(t *rapid.T) Record {
	r := Record{ArrivalNs: rapid.Int64Range(0, 1e12).Draw(t, "arrival"), PromptTokens: rapid.IntRange(1, 5000).Draw(t, "prompt"),
		OutputTokens: rapid.IntRange(1, 40).Draw(t, "output"), Finished: rapid.IntRange(0, 9).Draw(t, "finished") > 0}
	r.FirstTokenNs = r.ArrivalNs + rapid.Int64Range(0, 2e9).Draw(t, "ttft")
	r.LastTokenNs = r.FirstTokenNs + rapid.Int64Range(0, 2e9).Draw(t, "decode")
	return r
}

func TestAccountAgainstCountingByHand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := rapid.SliceOfN(rapid.Custom(drawRecord), 0, 50).Draw(t, "records")
		var whole Account
		parts := make([]Account, 3)
		var want Summary
		for _, r := range records {
			if err := r.Validate(); err != nil {
				t.Fatal(err)
			}
			late := r.Finished && float64(r.FirstTokenNs-r.ArrivalNs) > 1e9
			slow := r.Finished && r.OutputTokens > 15 && float64(r.LastTokenNs-r.FirstTokenNs)/float64(r.OutputTokens-1) > 5e7
			want.Requests++
			want.PromptTokens += int64(r.PromptTokens)
			want.OutputTokens += int64(r.OutputTokens)
			count(&want.Finished, r.Finished)
			count(&want.LateFirstToken, late)
			count(&want.SlowTokens, slow)
			if late || slow || !r.Finished {
				want.Violations++
			} else {
				want.GoodPromptTokens += int64(r.PromptTokens)
				want.GoodOutputTokens += int64(r.OutputTokens)
			}
			whole.Add(r, Alone{})
			parts[rapid.IntRange(0, 2).Draw(t, "part")].Add(r, Alone{})
		}
		got := whole.Summary()
		want.TTFT, want.TPOT, want.Latency = got.TTFT, got.TPOT, got.Latency
		if got != want {
			t.Fatalf("got %+v\nwant %+v", got, want)
		}
		if got.TTFT.Count != want.Finished || got.Latency.Count != want.Finished {
			t.Fatalf("distributions of %d and %d, %d finished", got.TTFT.Count, got.Latency.Count, want.Finished)
		}
		parts[0].Merge(&parts[1])
		parts[0].Merge(&parts[2])
		if !reflect.DeepEqual(parts[0].Summary(), got) {
			t.Fatalf("merged %+v\n whole %+v", parts[0].Summary(), got)
		}
	})
}

func count(n *int64, yes bool) {
	if yes {
		*n++
	}
}

func TestViolationRate(t *testing.T) {
	for _, c := range []struct {
		name    string
		tenants []Summary
		want    float64
	}{
		{"nobody", nil, 0},
		{"idle tenants don't count", []Summary{{Requests: 10, Violations: 5}, {}}, 0.5},
		{"a burst decides the requests' average", []Summary{{Requests: 90, Violations: 90}, {Requests: 10}}, 0.9},
		{"a small tenant can't hide in the requests' average", []Summary{{Requests: 99}, {Requests: 1, Violations: 1}}, 0.5},
	} {
		if got := ViolationRate(c.tenants); got != c.want {
			t.Errorf("%s: %v, wants %v", c.name, got, c.want)
		}
	}
}

func TestRecordValidate(t *testing.T) {
	for name, r := range map[string]Record{
		"tokens":     {PromptTokens: -1},
		"first":      {ArrivalNs: 5, FirstTokenNs: 4, LastTokenNs: 6, Finished: true},
		"last":       {ArrivalNs: 5, FirstTokenNs: 6, LastTokenNs: 5, Finished: true},
		"no answers": {OutputTokens: -1, Finished: true},
	} {
		if r.Validate() == nil {
			t.Errorf("%s: accepted %+v", name, r)
		}
	}
}
