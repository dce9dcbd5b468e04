package batching

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// golden runs a scenario written in text. Commands:
//
//	new pages=N [block=B budget=T seqs=S chunk=C order=strict overlap=all inflight=K age=NS lookahead=L reuse whole]
//	add id=I prompt=P answer=A [at=NS priority=X family=F]
//	step [now=NS] [n=K]   schedule and complete K steps, finishing answers that are full
//	schedule [now=NS] / complete
//	cancel id=I, pause id=I, resume id=I, resize pages=N, stats
type golden struct {
	s      *Scheduler
	flying []*Step
	last   map[SeqID]int // tokens at which the answer is full
}

func (g *golden) run(d *datadriven.TestData) string {
	switch d.Cmd {
	case "new":
		return g.new(d)
	case "add":
		return g.add(d)
	case "step":
		return g.step(d)
	case "schedule":
		return g.schedule(number(d, "now", 0))
	case "complete":
		return g.complete()
	case "stats":
		t := g.s.Stats()
		return fmt.Sprintf("waiting %d running %d, pages free %d held %d cached %d, %d preemptions\n", t.Waiting, t.Running, t.FreeBlocks, t.HeldBlocks, t.CachedBlocks, t.Preemptions)
	case "resize":
		stranded, err := g.s.Resize(0, number(d, "pages", 0))
		return result(fmt.Sprint("stranded ", stranded), err)
	}
	id := SeqID(number(d, "id", 0))
	act := map[string]func(SeqID) error{"cancel": g.s.Cancel, "pause": g.s.Pause, "resume": g.s.Resume}[d.Cmd]
	return result("ok", act(id))
}

func result(text string, err error) string {
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	return text + "\n"
}

func number(d *datadriven.TestData, key string, otherwise int) int {
	for _, a := range d.CmdArgs {
		if a.Key == key && len(a.Vals) == 1 {
			var v int
			if _, err := fmt.Sscan(a.Vals[0], &v); err != nil {
				panic(err)
			}
			return v
		}
	}
	return otherwise
}

func (g *golden) new(d *datadriven.TestData) string {
	c := Config{
		KVBlocks: number(d, "pages", 0), BlockTokens: number(d, "block", 4), MaxBatchTokens: number(d, "budget", 16), MaxSequences: number(d, "seqs", 8),
		MaxChunkTokens: number(d, "chunk", 0), InFlight: number(d, "inflight", 1), AgeNs: int64(number(d, "age", 100)), LookAhead: number(d, "lookahead", 4),
		PrefixReuse: d.HasArg("reuse"), AdmitWhole: d.HasArg("whole"), MaxQueue: number(d, "queue", 0), MaxContext: number(d, "context", 0),
	}
	if d.HasArg("strict") {
		c.Order = OrderStrict
	}
	if d.HasArg("async") {
		c.Overlap = OverlapAll
	}
	s, err := New(c)
	*g = golden{s: s, last: map[SeqID]int{}}
	return result("ok", err)
}

func (g *golden) add(d *datadriven.TestData) string {
	prompt, answer := number(d, "prompt", 1), number(d, "answer", 1)
	r := Request{ID: SeqID(number(d, "id", 0)), PromptTokens: prompt, MaxTokens: answer, Priority: number(d, "priority", 0), ArrivalNs: int64(number(d, "at", 0))}
	if f := number(d, "family", -1); f >= 0 {
		r.Blocks = hashes(f, prompt/g.s.Config().BlockTokens)
	}
	err := g.s.Add(r)
	if err == nil {
		g.last[r.ID] = prompt + answer
	}
	return result("ok", err)
}

func (g *golden) step(d *datadriven.TestData) string {
	var out strings.Builder
	for range number(d, "n", 1) {
		out.WriteString(g.schedule(number(d, "now", 0)))
		if len(g.flying) > 0 {
			out.WriteString(g.complete())
		}
	}
	return out.String()
}

func (g *golden) schedule(now int) string {
	step := &Step{}
	var out strings.Builder
	ok := g.s.Schedule(int64(now), step)
	if len(step.Preempted) > 0 && ok {
		fmt.Fprintf(&out, "preempted %v\n", step.Preempted)
	}
	if !ok {
		return "nothing to schedule\n"
	}
	g.flying = append(g.flying, step)
	fmt.Fprintf(&out, "step %d:", step.ID)
	for _, it := range step.Items {
		fmt.Fprintf(&out, " %d[%d:%d]", it.ID, it.Start, it.Start+it.Tokens)
		if it.Sample {
			out.WriteString("*")
		}
		if it.Cached > 0 {
			fmt.Fprintf(&out, "(%d cached)", it.Cached)
		}
		fmt.Fprintf(&out, "%v", it.Blocks)
	}
	return out.String() + "\n"
}

func (g *golden) complete() string {
	if len(g.flying) == 0 {
		return "nothing in flight\n"
	}
	step := g.flying[0]
	g.flying = g.flying[1:]
	if err := g.s.Complete(step); err != nil {
		return result("", err)
	}
	var done []SeqID
	for _, it := range step.Items {
		if it.Sample && it.Start+it.Tokens+1 == g.last[it.ID] && g.s.Contains(it.ID) {
			done = append(done, it.ID)
			if err := g.s.Finish(it.ID); err != nil {
				return result("", err)
			}
		}
	}
	if len(done) > 0 {
		return fmt.Sprintf("done %v\n", done)
	}
	return ""
}

func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var g golden
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return g.run(d) })
	})
}
