package actors

import (
	"math"
	"sync"
	"time"

	"slicescheduler/workload"
)

// slaAccount is a tenant's SLA accounting. It outlives restarts of the tenant's actor, and others may read it.
type slaAccount struct {
	mu      sync.Mutex
	account workload.Account
	alone   aloneModel
}

// aloneModel estimates what a request takes with its devices to itself from the fastest steps seen: time for each row of prefill, and of a step that
// only decodes.
type aloneModel struct {
	prefillRowNs float64 // 0: not seen yet
	decodeStepNs int64
}

// Steps with fewer rows of prefill than this say little about the time for each row.
const alonePrefillRows = 8

func newSLAAccount(s workload.SLA) *slaAccount { return &slaAccount{account: workload.Account{SLA: s}} }

// observe learns from a step that took busyNs on the lane's devices.
func (a *slaAccount) observe(st *tenantStep, busyNs int64) {
	if busyNs <= 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	rows, items := st.step.Tokens, len(st.step.Items)
	switch {
	case rows == items && (a.alone.decodeStepNs == 0 || busyNs < a.alone.decodeStepNs):
		a.alone.decodeStepNs = busyNs
	case rows >= items+alonePrefillRows:
		perRow := float64(busyNs) / float64(rows)
		if a.alone.prefillRowNs == 0 || perRow < a.alone.prefillRowNs {
			a.alone.prefillRowNs = perRow
		}
	}
}

// of returns what a prompt takes alone; zeroes where nothing was seen, which leaves the rule's floors.
func (m aloneModel) of(promptTokens int) workload.Alone {
	return workload.Alone{TTFTNs: int64(m.prefillRowNs * float64(promptTokens)), TPOTNs: m.decodeStepNs}
}

func (a *slaAccount) add(s *sequence, finished bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := workload.Record{
		ArrivalNs: s.submit.ArrivalNs, FirstTokenNs: s.firstTokenNs, LastTokenNs: s.lastTokenNs,
		PromptTokens: len(s.submit.Prompt), OutputTokens: s.output, Finished: finished,
	}
	a.account.Add(r, a.alone.of(r.PromptTokens))
}

func (a *slaAccount) finished(s *sequence) { a.add(s, true) }
func (a *slaAccount) failed(s *sequence)   { a.add(s, false) }

// deadlineNs is when the sequence's next token is due within its SLA.
func (a *slaAccount) deadlineNs(s *sequence) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	ttft, tpot := a.account.SLA.Limits(a.alone.of(len(s.submit.Prompt)))
	if s.firstTokenNs == 0 {
		return s.submit.ArrivalNs + ttft
	}
	return s.firstTokenNs + int64(s.output)*tpot
}

// status returns the figures as listings show them.
func (a *slaAccount) status() SLAStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.account.Summary()
	return SLAStatus{
		Requests: s.Requests, Finished: s.Finished, Violations: s.Violations, ViolationsPct: 100 * s.ViolationRate(),
		PromptTokens: s.PromptTokens, CompletionTokens: s.OutputTokens,
		TTFTLimitMs: ms(s.SLA.TTFTNs), TPOTLimitMs: ms(s.SLA.TPOTNs),
		TTFTMs: quantiles(s.TTFT), TPOTMs: quantiles(s.TPOT), LatencyMs: quantiles(s.Latency),
	}
}

func ms[T int64 | float64](ns T) float64 { return float64(ns) / 1e6 }

func quantiles(d workload.Distribution) Quantiles {
	return Quantiles{Mean: ms(d.MeanNs), P50: ms(d.P50Ns), P90: ms(d.P90Ns), P99: ms(d.P99Ns)}
}

// drainRate estimates how fast a tenant's requests end, as an exponential average of the time between two ends.
type drainRate struct {
	lastNs, gapNs int64
}

const (
	drainWeight      = 0.2 // of the newest gap
	minRetryAfter    = time.Second
	maxRetryAfter    = time.Minute
	loadingRetryTime = 2 * time.Second
)

func (d *drainRate) finished(nowNs int64) {
	if d.lastNs > 0 {
		gap := nowNs - d.lastNs
		if d.gapNs == 0 {
			d.gapNs = gap
		}
		d.gapNs += int64(math.Round(drainWeight * float64(gap-d.gapNs)))
	}
	d.lastNs = nowNs
}

// retryAfter is when a queue of so many should have drained to half.
func (d *drainRate) retryAfter(queued int) time.Duration {
	if d.gapNs == 0 {
		return loadingRetryTime
	}
	return min(maxRetryAfter, max(minRetryAfter, time.Duration(d.gapNs)*time.Duration(queued/2+1)))
}
