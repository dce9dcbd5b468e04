package whatif

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// Segment is a time during which a device ran one step's share without a break, or a link carried one transfer.
type Segment struct {
	Device            int // of Spec.Devices; -1 for a link's
	Link              int // of Spec.Links
	Tenant, Lane      int // Lane counts among its tenant's
	Slice             int
	Step              uint64 // of the lane's first rank
	Tokens, Sequences int
	Borrowed, Unended bool // Unended: it gave way to home work and goes on later
	Helper            bool // a share that the device runs for a slice elsewhere
	Bytes             int64
	StartNs, EndNs    int64
}

// keepRun notes what a device did up to now.
func (w *island) keepRun(d *device) {
	if !w.spec.KeepTimeline {
		return
	}
	r := &d.current
	l := &w.lanes[r.lane]
	f := &l.flights[r.flight]
	s := Segment{
		Device: d.id, Tenant: w.tenants[l.tenant].id, Lane: l.number, Slice: int(r.slice), Step: f.steps[0].ID, Borrowed: r.borrowed,
		Unended: int(r.pc) < len(d.sequence), StartNs: r.beganNs, EndNs: w.now,
	}
	if r.helper > 0 {
		sh := &f.shares[r.helper-1]
		s.Helper, s.Tokens, s.Sequences = true, sh.rows, sh.shape.Logits
	}
	for i := range f.steps {
		if f.took[i] && r.helper == 0 {
			s.Tokens, s.Sequences = s.Tokens+f.steps[i].Tokens, s.Sequences+len(f.steps[i].Items)
		}
	}
	w.timeline = append(w.timeline, s)
}

// Timeline returns what devices and links did, by start; nil unless Spec.KeepTimeline is set. Forks keep their own part only.
func (s *Sim) Timeline() []Segment {
	var out []Segment
	for _, w := range s.islands {
		out = append(out, w.timeline...)
	}
	slices.SortStableFunc(out, func(a, b Segment) int {
		return cmp.Or(cmp.Compare(a.StartNs, b.StartNs), cmp.Compare(a.Device, b.Device), cmp.Compare(a.Link, b.Link))
	})
	return out
}

// chromeEvent is a complete event of the trace format that Perfetto and Chrome read; times are microseconds.
type chromeEvent struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"`
	Start float64        `json:"ts"`
	Took  float64        `json:"dur,omitempty"`
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	Args  map[string]any `json:"args,omitempty"`
}

// WriteChromeTrace writes the timeline for Perfetto: a track for each device and each link, a slice for each step's share.
func (s *Sim) WriteChromeTrace(out io.Writer) error {
	b := bufio.NewWriter(out)
	if _, err := b.WriteString("{\"traceEvents\":[\n"); err != nil {
		return err
	}
	enc := json.NewEncoder(b)
	write := func(e chromeEvent, comma bool) error {
		if comma {
			if err := b.WriteByte(','); err != nil {
				return err
			}
		}
		return enc.Encode(e)
	}
	n := 0
	name := func(tid int, name string) error {
		n++
		return write(chromeEvent{Name: "thread_name", Phase: "M", PID: 1, TID: tid, Args: map[string]any{"name": name}}, n > 1)
	}
	for i, d := range s.spec.Devices {
		if err := name(i, d.ID); err != nil {
			return err
		}
	}
	for i, l := range s.spec.Links {
		if err := name(len(s.spec.Devices)+i, s.spec.Devices[l.From].ID+" > "+s.spec.Devices[l.To].ID); err != nil {
			return err
		}
	}
	for _, g := range s.Timeline() {
		e := chromeEvent{Phase: "X", Start: float64(g.StartNs) / 1e3, Took: float64(g.EndNs-g.StartNs) / 1e3, PID: 1, TID: g.Device}
		if g.Device < 0 {
			e.Name, e.TID, e.Args = "transfer", len(s.spec.Devices)+g.Link, map[string]any{"bytes": g.Bytes}
		} else {
			e.Name = fmt.Sprintf("%s lane %d step %d", s.spec.Tenants[g.Tenant].ID, g.Lane, g.Step)
			e.Args = map[string]any{"slice": g.Slice, "tokens": g.Tokens, "sequences": g.Sequences, "borrowed": g.Borrowed, "helper": g.Helper}
		}
		n++
		if err := write(e, n > 1); err != nil {
			return err
		}
	}
	if _, err := b.WriteString("]}\n"); err != nil {
		return err
	}
	return b.Flush()
}
