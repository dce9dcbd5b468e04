package whatif

import "cmp"

// Totals are what a tenant got so far.
type Totals struct {
	Arrived          int64 `json:"arrived"`
	Finished         int64 `json:"finished"`
	Refused          int64 `json:"refused"`
	FirstTokens      int64 `json:"firstTokens"`
	PromptTokens     int64 `json:"promptTokens"` // prompts of finished requests; every token of answers
	OutputTokens     int64 `json:"outputTokens"` // prompts of finished requests; every token of answers
	TTFTNs           int64 `json:"ttftNs"`       // sums over requests
	TPOTNs           int64 `json:"tpotNs"`       // sums over requests
	LatencyNs        int64 `json:"latencyNs"`    // sums over requests
	MaxTTFTNs        int64 `json:"maxTTFTNs"`
	ViolatedTTFT     int64 `json:"violatedTTFT"`
	TTFTLimitNs      int64 `json:"ttftLimitNs"`
	TPOTLimitNs      int64 `json:"tpotLimitNs"`
	ViolatedTPOT     int64 `json:"violatedTPOT"`
	ViolatedRequests int64 `json:"violatedRequests"`
	GoodTokens       int64 `json:"goodTokens"` // prompts and answers of finished requests that broke no limit
}

// minTPOTTokens is the answer length from which time per token counts: shorter answers measure one foreign prefill rather than a pace.
const minTPOTTokens = 16

// MeanTTFTMs is the mean time to first token, of requests that have one.
func (t *Totals) MeanTTFTMs() float64 { return meanMs(t.TTFTNs, t.FirstTokens) }

// MeanTPOTMs is the mean time per output token, of finished requests.
func (t *Totals) MeanTPOTMs() float64 { return meanMs(t.TPOTNs, t.Finished) }

// MeanLatencyMs is the mean time to the last token, of finished requests.
func (t *Totals) MeanLatencyMs() float64 { return meanMs(t.LatencyNs, t.Finished) }

func meanMs(sumNs, n int64) float64 {
	if n == 0 {
		return 0
	}
	return float64(sumNs) / float64(n) / 1e6
}

func (t *Totals) first(ttft int64) {
	t.FirstTokens++
	t.TTFTNs += ttft
	t.MaxTTFTNs = max(t.MaxTTFTNs, ttft)
}

func (t *tenant) finish(q *liveRequest, now int64) {
	s := &t.totals
	s.Finished++
	s.PromptTokens += int64(q.prompt)
	s.LatencyNs += now - q.arrival
	tpot := int64(0)
	if q.output > 1 {
		tpot = (now - q.first) / int64(q.output-1)
	}
	s.TPOTNs += tpot
	ttftLimit, tpotLimit := t.limits(q)
	late := ttftLimit > 0 && q.first-q.arrival > ttftLimit
	slow := tpotLimit > 0 && q.output >= minTPOTTokens && tpot > tpotLimit
	if late {
		s.ViolatedTTFT++
	}
	if slow {
		s.ViolatedTPOT++
	}
	if late || slow {
		s.ViolatedRequests++
	} else {
		s.GoodTokens += int64(q.prompt) + int64(q.output)
	}
}

// limits are those of a request, else its tenant's; 0 for none.
func (t *tenant) limits(q *liveRequest) (ttftNs, tpotNs int64) {
	if q.request >= 0 {
		r := &t.spec.Requests[q.request]
		ttftNs, tpotNs = r.TTFTLimitNs, r.TPOTLimitNs
	}
	return cmp.Or(ttftNs, t.totals.TTFTLimitNs), cmp.Or(tpotNs, t.totals.TPOTLimitNs)
}

func (t *tenant) record(q *liveRequest, now int64, l *lane, rank int) {
	if t.records == nil || q.request < 0 {
		return
	}
	t.records[q.request] = Record{
		ArrivalNs: q.arrival, QueuedNs: q.queued, ScheduledNs: q.scheduled, FirstNs: q.first, LastNs: now,
		Lane: l.number, Rank: rank, CachedTokens: int(q.cached), Preemptions: int(q.preemptions),
	}
}

func (t *tenant) refuse(request int32, now int64) {
	t.totals.Refused++
	if t.records != nil {
		t.records[request] = Record{ArrivalNs: t.spec.Requests[request].ArrivalNs, QueuedNs: now, Refused: true}
	}
}

// arrive lets a tenant's next request in, and schedules the one after it.
func (w *island) arrive(ti int32) {
	t := &w.tenants[ti]
	request := int32(t.next)
	t.next++
	t.totals.Arrived++
	if t.next < len(t.spec.Requests) {
		w.at(t.spec.Requests[t.next].ArrivalNs, eventArrival, ti, 0)
	}
	w.route(ti, request)
}

// route sends a request to the rank with the least load: waiting requests count four times, as they have all of their work before them.
func (w *island) route(ti, request int32) {
	t := &w.tenants[ti]
	if w.spec.Router != nil {
		w.routeBy(ti, request)
		return
	}
	best, bestRank, least := int32(-1), 0, int64(never)
	w.refreshScores(t)
	k := 0
	for _, li := range t.lanes {
		l := &w.lanes[li]
		for r := range l.ranks {
			if l.serves() && t.scores[k] < least {
				best, bestRank, least = li, r, t.scores[k]
			}
			k++
		}
	}
	if best < 0 {
		t.held = append(t.held, request)
		return
	}
	t.scores[w.scoreIndex(t, best)+bestRank] += waitingWeight
	w.receive(best, bestRank, request)
}

// waitingWeight is how much more a waiting request counts than a running one.
const waitingWeight = 4

// scoreIndex is where a lane's ranks start in the router's view.
func (w *island) scoreIndex(t *tenant, lane int32) int {
	k := 0
	for _, li := range t.lanes {
		if li == lane {
			return k
		}
		k += len(w.lanes[li].ranks)
	}
	return k
}

// refreshScores reads the queues if the router's view is old enough.
func (w *island) refreshScores(t *tenant) {
	if len(t.lanes) == 0 {
		return
	}
	every := w.lanes[t.lanes[0]].spec.Engine.RouteNs
	if len(t.scores) > 0 && w.now-t.scoredNs < every && every > 0 {
		return
	}
	t.scoredNs = w.now
	t.scores = t.scores[:0]
	for _, li := range t.lanes {
		l := &w.lanes[li]
		for r := range l.ranks {
			st := l.ranks[r].Stats()
			t.scores = append(t.scores, int64(waitingWeight*(st.Waiting+len(l.inbox[r]))+st.Running))
		}
	}
}
