package gmg

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

func TestExprGolden(t *testing.T) {
	datadriven.RunTest(t, "testdata/expr.txt", func(t *testing.T, d *datadriven.TestData) string {
		var e Expr
		for line := range strings.Lines(d.Input) {
			var m Term
			if _, err := fmt.Sscan(line, &m.Coef, &m.PowT, &m.PowS, &m.PowC); err != nil {
				d.Fatalf(t, "%q: %v", line, err)
			}
			e = e.Plus(Expr{m})
		}
		if d.Cmd == "eval" {
			var tokens, seqs, context int
			d.ScanArgs(t, "t", &tokens)
			d.ScanArgs(t, "s", &seqs)
			d.ScanArgs(t, "c", &context)
			return fmt.Sprintln(e.Eval(float64(tokens), float64(seqs), float64(context)))
		}
		return e.String() + "\n"
	})
}

func TestHandsGolden(t *testing.T) {
	stores := map[string]*Store{}
	datadriven.RunTest(t, "testdata/hands.txt", func(t *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		for line := range strings.Lines(d.Input) {
			words := strings.Fields(line)
			if d.Cmd == "nodes" {
				stores[words[0]] = NewStore(NodeID(words[0]), number(t, words[1]))
				continue
			}
			step(t, &out, stores, words)
		}
		return out.String()
	})
}

// step performs one line of hands.txt.
func step(t *testing.T, out *strings.Builder, stores map[string]*Store, words []string) {
	s := stores[words[1]]
	lane := func() Lane { return Lane{ID: LaneID(words[3]), Tenant: "t", Epoch: number(t, words[4])} }
	switch words[0] {
	case "put":
		report(out, "put "+words[1], s.Put(lane()))
	case "take":
		report(out, "take "+words[1], s.TakeOver(lane()))
	case "delete":
		report(out, "delete "+words[1], s.Delete(LaneKey(LaneID(words[3]))))
	case "remove":
		s.RemoveOwner(NodeID(words[2]), number(t, words[3]))
	case "send":
		deliver(t, out, stores[words[2]], s.TakeDelta())
	case "repair":
		deliver(t, out, stores[words[2]], s.Snapshot().DeltaSince(stores[words[2]].Snapshot().Vector()))
	case "show":
		show(out, s.Snapshot())
	default:
		t.Fatalf("unknown step %q", words)
	}
}

func report(out *strings.Builder, what string, err error) {
	if err != nil {
		fmt.Fprintf(out, "%s: %v\n", what, err)
	}
}

func deliver(t *testing.T, out *strings.Builder, s *Store, d Delta) {
	m := mustMerge(t, s, d)
	var notes []string
	if len(m.Changed) > 0 {
		notes = append(notes, "changed "+strings.Trim(fmt.Sprint(m.Changed), "[]"))
	}
	if len(m.Lost) > 0 {
		notes = append(notes, "lost "+strings.Trim(fmt.Sprint(m.Lost), "[]"))
	}
	if m.Reincarnated {
		notes = append(notes, fmt.Sprintf("reincarnated as %d", s.Incarnation()))
	}
	if len(notes) > 0 {
		fmt.Fprintf(out, "merged at %s: %s\n", s.Owner(), strings.Join(notes, ", "))
	}
}

func show(out *strings.Builder, s *Snapshot) {
	for _, f := range s.Facts() {
		mark, end := " ", ""
		if seen, ok := s.Fact(f.Key); ok && seen.Version == f.Version {
			mark = "="
		}
		if f.Deleted {
			end = " deleted"
		}
		v := f.Version
		fmt.Fprintf(out, "%s %v %s %d.%d claim %d%s\n", mark, f.Key, v.Owner, v.Incarnation, v.Seq, f.Claim, end)
	}
}

func number(t *testing.T, s string) uint64 {
	var n uint64
	if _, err := fmt.Sscan(s, &n); err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return n
}
