package workload

import (
	"cmp"
	"fmt"
	"math"

	"slicescheduler/gmg"
)

// The rule for tenants whose spec gives no figures, after Splitwise (Patel et al., ISCA 2024): a multiple of what the same request takes alone on its idle
// home device, but never less than a floor.
const (
	ttftFactor     = 5
	ttftFloorNs    = 1_000_000_000
	tpotFactor     = 2
	tpotFloorNs    = 50_000_000
	tpotFromTokens = 16 // shorter answers have no TPOT: one foreign prefill would decide it
)

// SLA is what a tenant was promised in absolute figures; a zero means the rule relative to the request alone.
type SLA struct {
	TTFTNs, TPOTNs int64
}

// SLAOf returns the SLA of a tenant's spec.
func SLAOf(s gmg.TenantSpec) SLA {
	const nsPerMs = 1_000_000
	return SLA{TTFTNs: s.TTFTMs * nsPerMs, TPOTNs: s.TPOTMs * nsPerMs}
}

// Alone is what a request takes when it has its home device to itself; zeroes leave the floors as limits.
type Alone struct {
	TTFTNs, TPOTNs int64
}

// Limits returns the TTFT and TPOT above which a request violates.
func (s SLA) Limits(a Alone) (ttftNs, tpotNs int64) {
	return cmp.Or(s.TTFTNs, max(times(ttftFactor, a.TTFTNs), ttftFloorNs)), cmp.Or(s.TPOTNs, max(times(tpotFactor, a.TPOTNs), tpotFloorNs))
}

// times multiplies and stays at the largest number rather than wrapping.
func times(factor, v int64) int64 {
	if v > math.MaxInt64/factor {
		return math.MaxInt64
	}
	return factor * v
}

// Record is what happened to one request. Times share any one origin. A request that never finished keeps what it got: FirstTokenNs is 0 if nothing.
type Record struct {
	ArrivalNs, FirstTokenNs, LastTokenNs int64
	PromptTokens, OutputTokens           int
	Finished                             bool
}

// TTFTNs is the time to the first token.
func (r Record) TTFTNs() int64 { return r.FirstTokenNs - r.ArrivalNs }

// LatencyNs is the time to the last token.
func (r Record) LatencyNs() int64 { return r.LastTokenNs - r.ArrivalNs }

// TPOTNs is the time per output token after the first, rounded down.
func (r Record) TPOTNs() int64 {
	return (r.LastTokenNs - r.FirstTokenNs) / int64(max(1, r.OutputTokens-1))
}

// HasTPOT says whether the answer is long enough for its TPOT to count.
func (r Record) HasTPOT() bool { return r.OutputTokens >= tpotFromTokens }

// Validate checks that a record's times and counts are in order.
func (r Record) Validate() error {
	switch {
	case r.PromptTokens < 0 || r.OutputTokens < 0:
		return fmt.Errorf("record of %d prompt and %d answer tokens", r.PromptTokens, r.OutputTokens)
	case r.Finished && (r.FirstTokenNs < r.ArrivalNs || r.LastTokenNs < r.FirstTokenNs):
		return fmt.Errorf("record arrives at %d ns, has its first token at %d and its last at %d", r.ArrivalNs, r.FirstTokenNs, r.LastTokenNs)
	}
	return nil
}

// Verdict says what was wrong with a request; zero is a request within its SLA.
type Verdict uint8

// Violations. A request may have several.
const (
	LateFirstToken Verdict = 1 << iota
	SlowTokens
	Unfinished
)

// Violates says whether anything was wrong.
func (v Verdict) Violates() bool { return v != 0 }

// Judge applies the rule to one request. A request that didn't finish violates, whatever it got.
func Judge(r Record, s SLA, a Alone) Verdict {
	if !r.Finished {
		return Unfinished
	}
	var v Verdict
	ttft, tpot := s.Limits(a)
	if r.TTFTNs() > ttft {
		v |= LateFirstToken
	}
	// The exact time per token, not TPOTNs: rounding down must not excuse a token.
	steps := int64(max(1, r.OutputTokens-1))
	if r.HasTPOT() && r.LastTokenNs-r.FirstTokenNs > times(steps, tpot) {
		v |= SlowTokens
	}
	return v
}
