package whatif

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"slicescheduler/batching"
	"slicescheduler/gmg"
)

// A golden describes a world line by line and draws what happens. Lines of "world":
//
//	device NAME [memory=BYTES] [tenths=N] [swap=BYTES/NS [hidden=PERCENT]]    tenths: of the compute that prompts get beside decodes
//	stream NAME DEVICE
//	link FROM TO bw=BYTES/NS lat=NS
//	cost OPERATOR FIXED PER_ROW PER_CONTEXT_TOKEN    (nanoseconds)
//	tenant NAME
//	lane SLICE.. [pages=N] [budget=T] [inflight=K] [async] [borrowed] [eager] [prefill] [ahead=NS] [ranks] [kv=BYTES] [separate] [turn=NS]
//	                                                 SLICE = DEVICE:FROM-TO in stages
//	request at=NS prompt=P output=O
//
// The model has one layer unless "layers N" says otherwise; a row of its residual stream is 4 bytes. "run scale=NS" draws one character for so many
// nanoseconds: a digit is the tenant's number, a small letter borrowed work of tenant a, b ..
type golden struct {
	spec   *Spec
	costs  map[string]Cost
	layers int
	sim    *Sim
}

func (g *golden) world(t *testing.T, text string) string {
	*g = golden{spec: &Spec{KeepRecords: true, KeepTimeline: true}, layers: 1, costs: map[string]Cost{}}
	for _, name := range []string{"embedding", "qkv_proj", "attention", "down_proj", "lm_head"} {
		g.costs[name] = linear{a: 1}
	}
	for _, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		if len(f) > 0 {
			g.line(t, f)
		}
	}
	s, err := New(g.spec, Exact)
	if err != nil {
		return err.Error() + "\n"
	}
	g.sim = s
	return ""
}

// option finds "key=value" among fields.
func option(f []string, key string, otherwise int64) int64 {
	for _, s := range f {
		if v, ok := strings.CutPrefix(s, key+"="); ok {
			if _, err := fmt.Sscan(v, &otherwise); err != nil {
				panic(err)
			}
		}
		if s == key {
			return 1
		}
	}
	return otherwise
}

func (g *golden) device(name string) int {
	for i, d := range g.spec.Devices {
		if d.ID == name {
			return i
		}
	}
	return -1
}

func (g *golden) line(t *testing.T, f []string) {
	s := g.spec
	last := func() *TenantSpec { return &s.Tenants[len(s.Tenants)-1] }
	switch f[0] {
	case "device":
		s.Devices = append(s.Devices, DeviceSpec{ID: f[1], MemoryBytes: option(f, "memory", 0)})
		d := &s.Devices[len(s.Devices)-1]
		if tenths := option(f, "tenths", 0); tenths > 0 {
			d.Sharing = MuxServe(int(tenths), true)
		}
		if bw := option(f, "swap", 0); bw > 0 {
			d.Swap = &Swap{BytesPerS: float64(bw) * 1e9, HiddenPct: int(option(f, "hidden", 0)), RoundRobin: true}
		}
	case "stream":
		s.Devices = append(s.Devices, DeviceSpec{ID: f[1], PartOf: g.device(f[2]) + 1})
	case "link":
		s.Links = append(s.Links, LinkSpec{From: g.device(f[1]), To: g.device(f[2]), BandwidthBytesPerS: float64(option(f, "bw", 1)) * 1e9, LatencyNs: option(f, "lat", 0)})
	case "layers":
		if _, err := fmt.Sscan(f[1], &g.layers); err != nil {
			t.Fatal(err)
		}
	case "cost":
		var c linear
		if _, err := fmt.Sscan(strings.Join(f[2:], " "), &c.a, &c.b, &c.c); err != nil {
			t.Fatal(err)
		}
		g.costs[f[1]] = c
	case "tenant":
		s.Tenants = append(s.Tenants, TenantSpec{ID: f[1]})
	case "lane":
		last().Lanes = append(last().Lanes, g.lane(t, f))
	case "request":
		last().Requests = append(last().Requests, Request{ArrivalNs: option(f, "at", 0), PromptTokens: int(option(f, "prompt", 1)), OutputTokens: int(option(f, "output", 1))})
	default:
		t.Fatalf("what is %q?", f[0])
	}
}

func (g *golden) lane(t *testing.T, f []string) LaneSpec {
	graph := smallGraph(g.layers)
	l := LaneSpec{
		Engine: &EngineKind{DecodeStepNs: option(f, "ahead", 0), PrefillStepNs: option(f, "ahead", 0), Eager: option(f, "eager", 0) == 1}, Borrowed: option(f, "borrowed", 0) == 1, Prefill: option(f, "prefill", 0) == 1, ColdNs: option(f, "cold", 0),
		Batching: batching.Config{BlockTokens: 4, KVBlocks: int(option(f, "pages", 100)), MaxBatchTokens: int(option(f, "budget", 64)), InFlight: int(option(f, "inflight", 1)), Order: batching.OrderStrict},
	}
	if option(f, "async", 0) == 1 {
		l.Batching.Overlap = batching.OverlapAll
	}
	l.Batching.Separate, l.TurnNs = int(option(f, "separate", 0)), option(f, "turn", 0)
	ranks := option(f, "ranks", 0) == 1
	for _, s := range f[1:] {
		name, stages, ok := strings.Cut(s, ":")
		if !ok {
			continue
		}
		var r gmg.Range
		if _, err := fmt.Sscanf(stages, "%d-%d", &r.From, &r.To); err != nil {
			t.Fatal(err)
		}
		var par Parallelism
		if ranks {
			graph.Blocks[1].Operators[2].Kind = gmg.OpExperts
			par.Expert = Collective{Members: 2, LatencyNs: 2, BandwidthBytesPerS: 1e9}
		}
		sl := SliceSpec{Device: g.device(name), KVBytes: option(f, "kv", 0), Program: mustCompile(graph, r, costsBy(g.costs), par)}
		if ranks || len(l.Ranks) == 0 {
			l.Ranks = append(l.Ranks, RankSpec{})
		}
		k := len(l.Ranks) - 1
		l.Ranks[k].Slices = append(l.Ranks[k].Slices, sl)
	}
	return l
}

// run goes on to the end and draws it.
func (g *golden) run(scale int64) string {
	end := g.sim.Drain()
	var out strings.Builder
	row := func(name string, keep func(*Segment) bool) {
		line := []byte(strings.Repeat(".", int((end+scale-1)/scale)))
		for _, s := range g.sim.Timeline() {
			if !keep(&s) {
				continue
			}
			c := byte('0' + s.Tenant)
			if s.Device < 0 {
				c = '='
			} else if s.Borrowed {
				c = byte('a' + s.Tenant)
			}
			for at := s.StartNs / scale; at*scale < s.EndNs && int(at) < len(line); at++ {
				line[at] = c
			}
		}
		fmt.Fprintf(&out, "%-6s|%s|\n", name, line)
	}
	for i, d := range g.spec.Devices {
		row(d.ID, func(s *Segment) bool { return s.Device == i })
	}
	for i, l := range g.spec.Links {
		row(g.spec.Devices[l.From].ID+">"+g.spec.Devices[l.To].ID, func(s *Segment) bool { return s.Device < 0 && s.Link == i })
	}
	for ti, t := range g.spec.Tenants {
		for i, r := range g.sim.Records(ti) {
			fmt.Fprintf(&out, "%s request %d: arrived %d, queued %d, scheduled %d, first token %d, last %d", t.ID, i, r.ArrivalNs, r.QueuedNs, r.ScheduledNs, r.FirstNs, r.LastNs)
			if r.Preemptions > 0 {
				fmt.Fprintf(&out, ", preempted %d times", r.Preemptions)
			}
			if r.Refused {
				out.WriteString(", refused")
			}
			out.WriteString("\n")
		}
	}
	return out.String()
}

func (g *golden) act(t *testing.T, d *datadriven.TestData) string {
	var tenant, lane, load int
	d.MaybeScanArgs(t, "tenant", &tenant)
	d.MaybeScanArgs(t, "lane", &lane)
	d.MaybeScanArgs(t, "load", &load)
	var a Action = RemoveLane{tenant, lane}
	if d.Cmd != "remove" {
		l := g.lane(t, append([]string{"lane"}, strings.Fields(d.Input)...))
		a = AddLane{tenant, l, int64(load)}
		if d.Cmd == "move" {
			a = MoveLane{tenant, lane, l, int64(load)}
		}
	}
	return g.take(t, d, a)
}

func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var g golden
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "world":
				return g.world(t, d.Input)
			case "run":
				scale := int64(1)
				d.MaybeScanArgs(t, "scale", &scale)
				return g.run(scale)
			case "add", "remove", "move":
				return g.act(t, d)
			case "memory":
				var out strings.Builder
				for _, dev := range g.sim.Forecast().Devices {
					fmt.Fprintf(&out, "%s weights %d kv %d free %d\n", dev.ID, dev.WeightBytes, dev.KVBytes, dev.FreeBytes)
				}
				return out.String()
			}
			if a := g.otherAction(t, d); a != nil {
				return g.take(t, d, a)
			}
			return "unknown command\n"
		})
	})
}

func TestChromeTrace(t *testing.T) {
	g := golden{}
	g.world(t, "device a\ntenant x\nlane a:0-3\nrequest at=0 prompt=2 output=3\n")
	g.sim.Drain()
	var b bytes.Buffer
	if err := g.sim.WriteChromeTrace(&b); err != nil {
		t.Fatal(err)
	}
	var v struct {
		TraceEvents []struct {
			Ph  string
			Dur float64
		}
	}
	if err := json.Unmarshal(b.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	if len(v.TraceEvents) != 4 {
		t.Errorf("%d events, want a track and three steps", len(v.TraceEvents))
	}
}

func TestSpecRefuses(t *testing.T) {
	g := golden{}
	g.world(t, "device a\ndevice b\ntenant x\nlane a:0-3\nrequest at=0 prompt=2 output=3\n")
	lane := g.spec.Tenants[0].Lanes[0]
	for name, spoil := range map[string]func(*Spec){
		"no engine": func(s *Spec) { s.Tenants[0].Lanes[0].Engine = nil },
		"no ranks":  func(s *Spec) { s.Tenants[0].Lanes[0].Ranks = nil },
		"no device": func(s *Spec) {
			s.Tenants[0].Lanes[0].Ranks = []RankSpec{{Slices: []SliceSpec{{Device: 7, Program: lane.Ranks[0].Slices[0].Program}}}}
		},
		"no link": func(s *Spec) {
			s.Tenants[0].Lanes[0].Ranks = []RankSpec{{Slices: []SliceSpec{lane.Ranks[0].Slices[0], {Device: 1, Program: lane.Ranks[0].Slices[0].Program}}}}
		},
		"zero tokens": func(s *Spec) { s.Tenants[0].Requests = []Request{{PromptTokens: 1}} },
		"out of order": func(s *Spec) {
			s.Tenants[0].Requests = []Request{{ArrivalNs: 2, PromptTokens: 1, OutputTokens: 1}, {ArrivalNs: 1, PromptTokens: 1, OutputTokens: 1}}
		},
		"link bandwidth": func(s *Spec) { s.Links = []LinkSpec{{From: 0, To: 1}} },
		"batching":       func(s *Spec) { s.Tenants[0].Lanes[0].Batching.KVBlocks = 0 },
	} {
		s := *g.spec
		s.Tenants = []TenantSpec{g.spec.Tenants[0]}
		s.Tenants[0].Lanes = []LaneSpec{lane}
		spoil(&s)
		if _, err := New(&s, Fast); !errors.Is(err, ErrSpec) && !errors.Is(err, batching.ErrConfig) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
