package server

import (
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"slicescheduler/actors"
)

// metrics are the server's own, in a registry of their own, beside those it collects of the node.
type metrics struct {
	handler  http.Handler
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight prometheus.Gauge
}

func newMetrics(c Config) *metrics {
	registry := prometheus.NewRegistry()
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slicer_http_requests_total", Help: "HTTP requests answered."}, []string{"route", "method", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "slicer_http_request_duration_seconds", Help: "Time to answer a request whole, streams included.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 9)}, []string{"route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "slicer_http_requests_in_flight", Help: "HTTP requests being answered."}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "slicer_build_info", Help: "Always 1; the version is a label.", ConstLabels: prometheus.Labels{"version": c.Version}})
	build.Set(1)
	registry.MustRegister(m.requests, m.seconds, m.inFlight, build, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if c.MetricsSource != nil {
		registry.MustRegister(newNodeCollector(c.MetricsSource))
	}
	m.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return m
}

func (m *metrics) serve(w http.ResponseWriter, r *http.Request) error {
	m.handler.ServeHTTP(w, r)
	return nil
}

// observe counts an answered request. Methods are the client's to choose, so unknown ones share a label.
func (m *metrics) observe(route, method string, status int, took time.Duration) {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete:
	default:
		method = "other"
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route).Observe(took.Seconds())
}

// nodeCollector turns a node's counters into metrics at the moment of the scrape.
type nodeCollector struct {
	source func() actors.MetricsSnapshot

	ended, refused, tokens, steps, failedSteps, stepSeconds, sequences, kvBlocks, ttft, tpot, queue *prometheus.Desc
	busy, capacity, held                                                                            *prometheus.Desc
}

func newNodeCollector(source func() actors.MetricsSnapshot) *nodeCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("slicer_"+name, help, labels, nil)
	}
	return &nodeCollector{
		source:      source,
		ended:       desc("requests_total", "Requests that ended.", "tenant", "finish"),
		refused:     desc("requests_refused_total", "Requests not admitted.", "tenant", "reason"),
		tokens:      desc("tokens_total", "Tokens of finished requests.", "tenant", "kind"),
		steps:       desc("steps_total", "Steps run.", "tenant"),
		failedSteps: desc("steps_failed_total", "Steps that failed.", "tenant"),
		stepSeconds: desc("step_seconds_total", "Time of steps: on devices, in slices beside them, and from schedule to end.", "tenant", "part"),
		sequences:   desc("sequences", "Live sequences.", "tenant", "state"),
		kvBlocks:    desc("kv_blocks", "KV blocks.", "tenant", "state"),
		ttft:        desc("ttft_seconds", "Time to first token.", "tenant"),
		tpot:        desc("tpot_seconds", "Time per output token after the first.", "tenant"),
		queue:       desc("queue_seconds", "Time from arrival to the first step.", "tenant"),
		busy:        desc("device_busy_seconds_total", "Time that a device computed.", "device"),
		capacity:    desc("device_memory_capacity_bytes", "Memory of a device.", "device"),
		held:        desc("device_memory_held_bytes", "Memory held, by class.", "device", "class"),
	}
}

// Describe sends nothing: which series there are depends on the tenants.
func (c *nodeCollector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the node's counters.
func (c *nodeCollector) Collect(out chan<- prometheus.Metric) {
	snapshot := c.source()
	for _, t := range snapshot.Tenants {
		c.collectTenant(out, t)
	}
	for _, d := range snapshot.Devices {
		device := string(d.Device)
		out <- counter(c.busy, seconds(d.BusyNs), device)
		out <- gauge(c.capacity, d.CapacityBytes, device)
		for class, bytes := range maps.All(d.HeldBytes) {
			out <- gauge(c.held, bytes, device, class)
		}
	}
}

func (c *nodeCollector) collectTenant(out chan<- prometheus.Metric, t actors.TenantMetrics) {
	name := string(t.Tenant)
	for finish, n := range t.Requests {
		out <- counter(c.ended, float64(n), name, string(finish))
	}
	for reason, n := range t.Refused {
		out <- counter(c.refused, float64(n), name, reason)
	}
	out <- counter(c.tokens, float64(t.PromptTokens), name, "prompt")
	out <- counter(c.tokens, float64(t.CachedTokens), name, "cached")
	out <- counter(c.tokens, float64(t.CompletionTokens), name, "completion")
	out <- counter(c.steps, float64(t.Steps), name)
	out <- counter(c.failedSteps, float64(t.FailedSteps), name)
	out <- counter(c.stepSeconds, seconds(t.StepBusyNs), name, "device")
	out <- counter(c.stepSeconds, seconds(t.StepHostNs), name, "host")
	out <- counter(c.stepSeconds, seconds(t.StepWallNs), name, "wall")
	out <- gauge(c.sequences, t.Waiting, name, "waiting")
	out <- gauge(c.sequences, t.Running, name, "running")
	out <- gauge(c.kvBlocks, t.KVBlocksFree, name, "free")
	out <- gauge(c.kvBlocks, t.KVBlocksTotal, name, "total")
	out <- histogram(c.ttft, t.TTFT, name)
	out <- histogram(c.tpot, t.TPOT, name)
	out <- histogram(c.queue, t.QueueTime, name)
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

func counter(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

func gauge(d *prometheus.Desc, v int64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
}

// histogram converts counts by bucket in milliseconds to cumulative counts in seconds.
func histogram(d *prometheus.Desc, h actors.Histogram, labels ...string) prometheus.Metric {
	buckets, sum := make(map[float64]uint64, len(h.UpperMs)), uint64(0)
	for i, upper := range h.UpperMs {
		sum += uint64(h.Counts[i])
		buckets[upper/1000] = sum
	}
	return prometheus.MustNewConstHistogram(d, uint64(h.Count), h.SumMs/1000, buckets, labels...)
}
