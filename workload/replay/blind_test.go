package replay

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	"slicescheduler/planner"
	"slicescheduler/whatif"
	"slicescheduler/workload"
)

// witness writes down everything that a policy is given and says, up to a time.
type witness struct {
	planner.Policy
	untilNs int64
	seen    []string
}

func (w *witness) note(nowNs int64, v ...any) {
	if nowNs > w.untilNs {
		return
	}
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	w.seen = append(w.seen, string(data))
}

func (w *witness) Place(c *planner.Cluster, past *planner.Past) (*planner.Start, error) {
	s, err := w.Policy.Place(c, past)
	w.note(0, c.Devices, c.Links, past, s)
	return s, err
}

func (w *witness) Route(a *whatif.Arrival) int {
	lane := w.Policy.Route(a)
	w.note(a.NowNs, a, lane)
	return lane
}

func (w *witness) Plan(s *whatif.State) []planner.Decision {
	w.note(s.NowNs, s)
	d := w.Policy.Plan(s)
	w.note(s.NowNs, d)
	return d
}

// changeFuture returns a setup whose trace differs after a time, and in the lengths of answers that aren't complete by then.
func changeFuture(p *Setup, r *runner, load float64, untilNs int64, random *rand.Rand) *Setup {
	q := *p
	q.scored = make([]piece, len(p.scored))
	for i := range p.scored {
		records := r.sim.Records(i)
		var out piece
		for k, a := range p.scored[i] {
			arrival := int64(float64(a.ArrivalNs) / load)
			switch {
			case arrival > untilNs && random.IntN(3) == 0:
				continue
			case arrival > untilNs:
				a.ArrivalNs += random.Int64N(3e9)
				a.PromptTokens, a.OutputTokens = 1+random.IntN(2000), 1+random.IntN(500)
			case records[k].LastNs == 0 || records[k].LastNs > untilNs:
				a.OutputTokens += 1 + random.IntN(300)
			}
			out = append(out, a)
		}
		slices.SortStableFunc(out, func(a, b workload.Arrival) int { return int(min(1, max(-1, a.ArrivalNs-b.ArrivalNs))) })
		q.scored[i] = out
	}
	return &q
}

func TestPoliciesCannotSeeTheFuture(t *testing.T) {
	const load, untilNs = 2, int64(20e9)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	p := openSetup(t, small(t, 4, 4, 4, 80, ""))
	for _, policy := range planner.Names() {
		watched := func(p *Setup) (*witness, *runner) {
			w := &witness{untilNs: untilNs}
			o := fixed(policy, load)
			o.Make = func(name string, k planner.Knobs) (planner.Policy, error) {
				var err error
				w.Policy, err = planner.New(name, k)
				if r, ok := w.Policy.(planner.Reshaper); ok {
					return struct {
						*witness
						planner.Reshaper
					}{w, r}, err
				}
				return w, err
			}
			r, err := p.newRunner(&o)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.loop(); err != nil {
				t.Fatal(err)
			}
			return w, r
		}
		one, r := watched(p)
		other, after := watched(changeFuture(p, r, load, untilNs, random))
		if len(one.seen) < 50 || len(one.seen) != len(other.seen) {
			t.Errorf("%s saw %d things until %d ns, and %d with another future", policy, len(one.seen), untilNs, len(other.seen))
			continue
		}
		for i := range one.seen {
			if one.seen[i] != other.seen[i] {
				t.Errorf("%s: what it sees or does depends on the future; thing %d:\n%s\n%s", policy, i, one.seen[i], other.seen[i])
				break
			}
		}
		if a, b := r.sim.Forecast().Steps, after.sim.Forecast().Steps; a == b {
			t.Errorf("%s: both worlds took %d steps, so the future wasn't changed", policy, a)
		}
	}
}
