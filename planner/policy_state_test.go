package planner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"slicescheduler/whatif"
)

// Routes and plans are asked for with lines of what is observed:
//
//	device NAME [free=BYTES] [queue=NS] [busy=NS]
//	lane TENANT NUMBER device=NAME [running=N] [waiting=N] [pending=TOKENS] [free=PAGES] [pages=PAGES] [context=TOKENS] [step=NS] [loading|draining|gone] [prefill]
//	seq TENANT LANE REQUEST tokens=N [prompt=N] [first=NS] [waiting] [migrating] [at=NS] [ttft=NS] [tpot=NS] [times=N]
//
// What lies on a lane's device is the sum over its lanes. A lane that was placed at the start has its specification from there.
func (s *scenario) observe(t *testing.T, text string) *whatif.State {
	st := &whatif.State{Devices: make([]whatif.DeviceState, len(s.placed.Devices)), Tenants: make([]whatif.TenantState, len(s.placed.Tenants))}
	for _, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		switch f[0] {
		case "device":
			d := &st.Devices[s.device(f[1])]
			d.BusyNs = int64(field(f, "busy", 0))
			d.FreeBytes, d.QueueNs = int64(field(f, "free", 0)), int64(field(f, "queue", 0))
		case "lane":
			s.observeLane(st, f)
		case "seq":
			var lane, request int
			if _, err := fmt.Sscan(f[2]+" "+f[3], &lane, &request); err != nil {
				t.Fatal(err)
			}
			l := &st.Tenants[s.tenant(f[1])].Lanes[lane]
			q := whatif.SequenceState{
				Request: request, Tokens: int(field(f, "tokens", 1)), PromptTokens: int(field(f, "prompt", 1)), FirstNs: int64(field(f, "first", 1)),
				Running: !has(f, "waiting"), Migrating: has(f, "migrating"), ArrivalNs: int64(field(f, "at", 0)),
				TTFTLimitNs: int64(field(f, "ttft", 0)), TPOTLimitNs: int64(field(f, "tpot", 0)),
			}
			if !q.Running {
				q.FirstNs = 0
			}
			if q.Running {
				q.ComputedTokens = q.Tokens - 1
			}
			for k := range int(field(f, "times", 1)) {
				q.Request = request + k
				l.Sequences = append(l.Sequences, q)
			}
		default:
			t.Fatalf("what is %q?", f[0])
		}
	}
	for i := range st.Tenants {
		for k := range st.Tenants[i].Lanes {
			sumDevice(st, &st.Tenants[i].Lanes[k].Load)
		}
	}
	return st
}

func has(f []string, word string) bool {
	for _, s := range f {
		if s == word {
			return true
		}
	}
	return false
}

func (s *scenario) tenant(name string) int {
	for i := range s.cluster.Tenants {
		if s.cluster.Tenants[i].ID == name {
			return i
		}
	}
	return -1
}

func (s *scenario) observeLane(st *whatif.State, f []string) {
	i := s.tenant(f[1])
	lanes := &st.Tenants[i].Lanes
	var l whatif.LaneState
	for _, w := range f {
		if v, ok := strings.CutPrefix(w, "device="); ok {
			l.Load.Device = s.device(v)
		}
	}
	l.Load.Lane, l.Load.Devices = len(*lanes), 1
	l.Load.Running, l.Load.Waiting, l.Load.PendingTokens = int(field(f, "running", 0)), int(field(f, "waiting", 0)), int(field(f, "pending", 0))
	l.Load.FreeBlocks, l.Load.KVBlocks = int(field(f, "free", 1000)), int(field(f, "pages", 1000))
	l.Load.ContextTokens, l.Load.StepNs = int64(field(f, "context", 0)), int64(field(f, "step", 0))
	l.Load.Prefill = has(f, "prefill")
	switch {
	case has(f, "loading"):
		l.Phase = whatif.LaneLoading
	case has(f, "draining"):
		l.Phase = whatif.LaneDraining
	case has(f, "gone"):
		l.Phase = whatif.LaneGone
	}
	if len(*lanes) < len(s.start.Lanes[i]) {
		l.Spec = &s.start.Lanes[i][len(*lanes)]
	} else {
		made := s.cluster.SharedLane(i, []int{l.Load.Device}, nil, l.Load.KVBlocks, Steps{BudgetTokens: 2048})
		l.Spec = &made
	}
	*lanes = append(*lanes, l)
}

// sumDevice fills in what a lane shares its device with.
func sumDevice(st *whatif.State, l *whatif.LaneLoad) {
	l.DevicePending, l.DeviceRunning, l.QueueNs = 0, 0, st.Devices[l.Device].QueueNs
	for i := range st.Tenants {
		for k := range st.Tenants[i].Lanes {
			if o := &st.Tenants[i].Lanes[k]; o.Load.Device == l.Device && o.Phase != whatif.LaneGone {
				l.DevicePending, l.DeviceRunning = l.DevicePending+o.Load.PendingTokens, l.DeviceRunning+o.Load.Running
			}
		}
	}
}

// route asks for the lanes of some requests, one after the other, with the lanes as they were.
func (s *scenario) route(t *testing.T, d *datadriven.TestData) string {
	var name string
	prompt, n := 100, 1
	d.ScanArgs(t, "tenant", &name)
	d.MaybeScanArgs(t, "prompt", &prompt)
	d.MaybeScanArgs(t, "n", &n)
	st := s.observe(t, d.Input)
	a := whatif.Arrival{Tenant: s.tenant(name), PromptTokens: prompt}
	for _, l := range st.Tenants[a.Tenant].Lanes {
		if l.Phase == whatif.LaneServing {
			a.Lanes = append(a.Lanes, l.Load)
		}
	}
	var out []string
	for range n {
		out = append(out, fmt.Sprint(s.policy.Route(&a)))
	}
	return strings.Join(out, " ") + "\n"
}

func (s *scenario) plan(t *testing.T, d *datadriven.TestData) string {
	var ms int64
	d.MaybeScanArgs(t, "ms", &ms)
	st := s.observe(t, d.Input)
	st.NowNs = ms * 1e6
	var b strings.Builder
	for _, x := range s.policy.Plan(st) {
		fmt.Fprintf(&b, "%s %s: %s\n  %s\n", s.cluster.Tenants[x.Tenant].ID, x.Kind, s.actionText(x.Action), x.Reason)
		if x.HorizonNs > 0 {
			fmt.Fprintf(&b, "  forecast: %.0f more tokens within SLA in %d ms\n", x.GoodTokens, x.HorizonNs/1e6)
		}
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

func (s *scenario) actionText(a whatif.Action) string {
	switch a := a.(type) {
	case whatif.AddLane:
		return fmt.Sprintf("add %s after %d ms", s.laneText(&a.Lane), a.LoadNs/1e6)
	case whatif.RemoveLane:
		return fmt.Sprintf("remove lane %d", a.Lane)
	case whatif.Reshape:
		return fmt.Sprintf("lane %d becomes %s after %d ms", a.Moves[0].Lane, s.laneText(&a.Moves[0].To), a.Moves[0].LoadNs/1e6)
	}
	return fmt.Sprintf("%+v", a)
}
