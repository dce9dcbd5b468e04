package actors

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"slicescheduler/actors/protocol"
	"slicescheduler/gmg"
)

// Upper bounds of the histograms' buckets in milliseconds; the last bucket has none.
var (
	ttftBoundsMs = []float64{1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000}
	tpotBoundsMs = []float64{0.5, 1, 2.5, 5, 10, 20, 30, 50, 75, 100, 150, 250, 500, 1000}
)

// MetricsSnapshot is what a node has counted since its start.
type MetricsSnapshot struct {
	Tenants []TenantMetrics // by name
	Devices []DeviceMetrics // as configured
}

// TenantMetrics are a tenant's counters, and gauges as of the last publication of its state.
type TenantMetrics struct {
	Tenant           gmg.TenantID
	Requests         map[FinishReason]int64 // ended, by how
	Refused          map[string]int64       // not admitted, by why: queue, context, pool, other
	PromptTokens     int64
	CachedTokens     int64
	CompletionTokens int64
	Steps            int64
	FailedSteps      int64
	StepBusyNs       int64 // on devices
	StepSampleNs     int64 // sampling
	StepHostNs       int64 // in slices, beside both: batches, copies, messages
	StepWallNs       int64 // from schedule to postprocess, queueing behind other tenants included
	Waiting, Running int64
	KVBlocksFree     int64
	KVBlocksTotal    int64
	TTFT, TPOT       Histogram
	QueueTime        Histogram
}

// OverheadPct is the share of step time that slices spend neither on their devices nor sampling.
func (m TenantMetrics) OverheadPct() float64 {
	all := m.StepHostNs + m.StepSampleNs + m.StepBusyNs
	if all == 0 {
		return 0
	}
	return 100 * float64(m.StepHostNs) / float64(all)
}

// DeviceMetrics are a device's counters.
type DeviceMetrics struct {
	Device        gmg.DeviceID
	BusyNs        int64
	CapacityBytes int64
	HeldBytes     map[string]int64 // by memory class
}

// Histogram counts values by bucket; Counts has one more item than UpperMs.
type Histogram struct {
	UpperMs []float64
	Counts  []int64
	SumMs   float64
	Count   int64
}

func newHistogram(upperMs []float64) Histogram {
	return Histogram{UpperMs: upperMs, Counts: make([]int64, len(upperMs)+1)}
}

func (h *Histogram) add(ns int64) {
	v := ms(max(0, ns))
	i, _ := slices.BinarySearch(h.UpperMs, v)
	h.Counts[i]++
	h.Count++
	h.SumMs += v
}

func (h Histogram) clone() Histogram {
	h.Counts = slices.Clone(h.Counts)
	return h
}

// metrics are a node's counters.
type metrics struct {
	mu      sync.Mutex
	tenants map[gmg.TenantID]*tenantMetrics
}

// tenantMetrics outlive restarts of the tenant's actor.
type tenantMetrics struct {
	steps, failedSteps, busyNs, sampleNs, hostNs, wallNs atomic.Int64

	mu sync.Mutex
	m  TenantMetrics
}

func newMetrics() *metrics { return &metrics{tenants: make(map[gmg.TenantID]*tenantMetrics)} }

// tenant returns a tenant's counters.
func (x *metrics) tenant(t gmg.TenantID) *tenantMetrics {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.tenants[t]
	if c == nil {
		c = &tenantMetrics{m: TenantMetrics{
			Tenant: t, Requests: make(map[FinishReason]int64), Refused: make(map[string]int64),
			TTFT: newHistogram(ttftBoundsMs), TPOT: newHistogram(tpotBoundsMs), QueueTime: newHistogram(ttftBoundsMs),
		}}
		x.tenants[t] = c
	}
	return c
}

func (x *metrics) forget(t gmg.TenantID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.tenants, t)
}

// finished counts a request that ended.
func (x *metrics) finished(r *request, reason FinishReason) {
	c := x.tenant(r.entry.spec.ID)
	u := r.usage()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m.Requests[reason]++
	c.m.PromptTokens += int64(u.PromptTokens)
	c.m.CachedTokens += int64(u.CachedTokens)
	c.m.CompletionTokens += int64(u.CompletionTokens)
	if u.CompletionTokens > 0 {
		c.m.TTFT.add(r.timing.FirstTokenNs - r.timing.ArrivalNs)
	}
	if n := int64(u.CompletionTokens); n > 1 {
		c.m.TPOT.add((r.timing.LastTokenNs - r.timing.FirstTokenNs) / (n - 1))
	}
}

// refusalNames are the labels of refusals.
var refusalNames = map[protocol.Refusal_Code]string{
	protocol.Refusal_QUEUE_FULL: "queue", protocol.Refusal_CONTEXT: "context", protocol.Refusal_POOL: "pool",
}

func (c *tenantMetrics) submitted(f *protocol.Refusal) {
	if f == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m.Refused[cmp.Or(refusalNames[f.Code], "other")]++
}

func (c *tenantMetrics) queued(ns int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m.QueueTime.add(ns)
}

func (c *tenantMetrics) step(st *tenantStep, m *protocol.StepDone, nowNs int64) {
	c.steps.Add(1)
	c.busyNs.Add(m.BusyNs)
	c.sampleNs.Add(m.SampleNs)
	c.hostNs.Add(m.HostNs)
	c.wallNs.Add(nowNs - st.startNs)
}

func (c *tenantMetrics) stepFailed() { c.failedSteps.Add(1) }

func (c *tenantMetrics) gauges(s gmg.TenantState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m.Waiting, c.m.Running = int64(len(s.Waiting)), int64(len(s.Running))
	c.m.KVBlocksFree, c.m.KVBlocksTotal = int64(s.KVBlocksFree), int64(s.KVBlocksTotal)
}

func (c *tenantMetrics) snapshot() TenantMetrics {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.m
	m.Requests, m.Refused = maps.Clone(m.Requests), maps.Clone(m.Refused)
	m.TTFT, m.TPOT, m.QueueTime = m.TTFT.clone(), m.TPOT.clone(), m.QueueTime.clone()
	m.Steps, m.FailedSteps = c.steps.Load(), c.failedSteps.Load()
	m.StepBusyNs, m.StepSampleNs, m.StepHostNs, m.StepWallNs = c.busyNs.Load(), c.sampleNs.Load(), c.hostNs.Load(), c.wallNs.Load()
	return m
}

// Metrics returns what the node has counted. It sends no messages, so it may be called at any rate.
func (n *Node) Metrics() MetricsSnapshot {
	n.rt.metrics.mu.Lock()
	var counters []*tenantMetrics
	for _, c := range n.rt.metrics.tenants {
		counters = append(counters, c)
	}
	n.rt.metrics.mu.Unlock()
	var s MetricsSnapshot
	for _, c := range counters {
		s.Tenants = append(s.Tenants, c.snapshot())
	}
	slices.SortFunc(s.Tenants, func(a, b TenantMetrics) int { return cmp.Compare(a.Tenant, b.Tenant) })
	graph := n.rt.snapshot.Load()
	for _, d := range n.rt.config.Devices {
		id, ledger := d.Describe().ID, d.Ledger()
		m := DeviceMetrics{Device: id, CapacityBytes: ledger.CapacityBytes, HeldBytes: make(map[string]int64)}
		for c, bytes := range ledger.Held {
			m.HeldBytes[gmg.MemoryClass(c).String()] = bytes
		}
		if state, ok := graph.DeviceState(id); ok {
			m.BusyNs = state.BusyNs
		}
		s.Devices = append(s.Devices, m)
	}
	return s
}
