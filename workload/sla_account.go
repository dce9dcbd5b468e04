package workload

// Account is one tenant's SLA accounting. Its size is bounded (see Sketch), however many requests there are. The zero Account holds the relative SLA; it is
// not safe for concurrent use.
type Account struct {
	SLA SLA

	requests, finished                 int64
	violations, late, slow             int64
	promptTokens, outputTokens         int64
	goodPromptTokens, goodOutputTokens int64
	ttft, tpot, latency                Sketch
}

// Add counts one request that ended, or that will not end any more. Requests that their client gave up are the caller's to leave out. The distributions hold
// finished requests, the TPOT those of 16 answer tokens or more.
func (a *Account) Add(r Record, alone Alone) Verdict {
	v := Judge(r, a.SLA, alone)
	a.requests++
	a.promptTokens += int64(r.PromptTokens)
	a.outputTokens += int64(r.OutputTokens)
	if v.Violates() {
		a.violations++
	} else {
		a.goodPromptTokens += int64(r.PromptTokens)
		a.goodOutputTokens += int64(r.OutputTokens)
	}
	if v&LateFirstToken != 0 {
		a.late++
	}
	if v&SlowTokens != 0 {
		a.slow++
	}
	if !r.Finished {
		return v
	}
	a.finished++
	a.ttft.Add(r.TTFTNs())
	a.latency.Add(r.LatencyNs())
	if r.HasTPOT() {
		a.tpot.Add(r.TPOTNs())
	}
	return v
}

// Merge adds what another account of the same tenant has counted. The result is the same as if all requests had been added here.
func (a *Account) Merge(o *Account) {
	a.requests += o.requests
	a.finished += o.finished
	a.violations += o.violations
	a.late += o.late
	a.slow += o.slow
	a.promptTokens += o.promptTokens
	a.outputTokens += o.outputTokens
	a.goodPromptTokens += o.goodPromptTokens
	a.goodOutputTokens += o.goodOutputTokens
	a.ttft.Merge(&o.ttft)
	a.tpot.Merge(&o.tpot)
	a.latency.Merge(&o.latency)
}

// Summary is what an account has counted.
type Summary struct {
	SLA                                SLA
	Requests, Finished                 int64
	Violations                         int64 // requests with at least one of the below, or unfinished
	LateFirstToken, SlowTokens         int64
	PromptTokens, OutputTokens         int64 // of all requests
	GoodPromptTokens, GoodOutputTokens int64 // of requests within SLA
	TTFT, TPOT, Latency                Distribution
}

// Summary returns the account's figures at this moment.
func (a *Account) Summary() Summary {
	return Summary{
		SLA: a.SLA, Requests: a.requests, Finished: a.finished, Violations: a.violations, LateFirstToken: a.late, SlowTokens: a.slow,
		PromptTokens: a.promptTokens, OutputTokens: a.outputTokens, GoodPromptTokens: a.goodPromptTokens, GoodOutputTokens: a.goodOutputTokens,
		TTFT: a.ttft.Distribution(), TPOT: a.tpot.Distribution(), Latency: a.latency.Distribution(),
	}
}

// ViolationRate returns the share of requests that violate, 0 for none at all.
func (s Summary) ViolationRate() float64 {
	if s.Requests == 0 {
		return 0
	}
	return float64(s.Violations) / float64(s.Requests)
}

// ViolationRate returns the violation rate of several tenants: the larger of the requests' average and the tenants' average, so that one tenant's burst
// neither decides nor hides. Tenants without requests don't count.
func ViolationRate(tenants []Summary) float64 {
	var all Summary
	var rates float64
	active := 0
	for _, s := range tenants {
		if s.Requests == 0 {
			continue
		}
		active++
		rates += s.ViolationRate()
		all.Requests += s.Requests
		all.Violations += s.Violations
	}
	if active == 0 {
		return 0
	}
	return max(all.ViolationRate(), rates/float64(active))
}
