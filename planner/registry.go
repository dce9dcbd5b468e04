package planner

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ErrPolicy is returned for policies and knobs that don't exist, and for knobs out of their range.
var ErrPolicy = errors.New("invalid policy")

// Knobs are a policy's settings by name; what is left out has its default.
type Knobs map[string]float64

// Int returns a knob as an integer.
func (k Knobs) Int(name string) int { return int(k[name]) }

// knob is one setting of a policy. A sweep tries the values in tries; without any it leaves the knob at its default.
type knob struct {
	name      string
	otherwise float64
	low, high float64
	tries     []float64
}

// entry is a policy that can be made by name. A new policy is added to entries, nowhere else.
type entry struct {
	name  string
	knobs []knob
	make  func(k Knobs) Policy // with every knob set
}

// entries lists the policies, the bounds last.
func entries() []entry {
	return []entry{
		sliceEntry(),
		staticEntry(), muxEntry(), migrateEntry(), switchEntry(), attentionEntry(), replicasEntry(), spreadEntry(),
		poolEntry(), oracleEntry(),
	}
}

func find(name string) (entry, error) {
	all := entries()
	if i := slices.IndexFunc(all, func(e entry) bool { return e.name == name }); i >= 0 {
		return all[i], nil
	}
	return entry{}, fmt.Errorf("%w: %q; there are %s", ErrPolicy, name, strings.Join(Names(), ", "))
}

// New makes a policy for one run, or returns an ErrPolicy that lists what there is.
func New(name string, k Knobs) (Policy, error) {
	e, err := find(name)
	if err != nil {
		return nil, err
	}
	full := Knobs{}
	for _, d := range e.knobs {
		full[d.name] = d.otherwise
	}
	for _, key := range slices.Sorted(maps.Keys(k)) {
		i := slices.IndexFunc(e.knobs, func(d knob) bool { return d.name == key })
		if i < 0 {
			return nil, fmt.Errorf("%w: %s has no knob %q; it has %s", ErrPolicy, name, key, e.describe())
		}
		if d := &e.knobs[i]; !(k[key] >= d.low && k[key] <= d.high) {
			return nil, fmt.Errorf("%w: %s of %s is %g, must be %g to %g", ErrPolicy, key, name, k[key], d.low, d.high)
		}
		full[key] = k[key]
	}
	return e.make(full), nil
}

// describe lists an entry's knobs with their defaults.
func (e *entry) describe() string {
	if len(e.knobs) == 0 {
		return "none"
	}
	var parts []string
	for _, d := range e.knobs {
		parts = append(parts, fmt.Sprintf("%s (%g)", d.name, d.otherwise))
	}
	return strings.Join(parts, ", ")
}

// Names lists the policies.
func Names() []string {
	var out []string
	for _, e := range entries() {
		out = append(out, e.name)
	}
	return out
}

// KnobGrid returns the settings that a sweep tries: every combination of the values that each knob is tried with. A policy without knobs has one empty
// setting, an unknown one none.
func KnobGrid(name string) []Knobs {
	e, err := find(name)
	if err != nil {
		return nil
	}
	grid := []Knobs{{}}
	for _, d := range e.knobs {
		if len(d.tries) == 0 {
			continue
		}
		var next []Knobs
		for _, k := range grid {
			for _, v := range d.tries {
				n := maps.Clone(k)
				n[d.name] = v
				next = append(next, n)
			}
		}
		grid = next
	}
	return grid
}

// Switches lists the knobs of a policy that switch one of its ways on (1, as they are unless said otherwise) or off (0).
func Switches(name string) []string {
	e, err := find(name)
	if err != nil {
		return nil
	}
	var out []string
	for _, d := range e.knobs {
		if d.low == 0 && d.high == 1 && d.otherwise == 1 && len(d.tries) == 0 {
			out = append(out, d.name)
		}
	}
	return out
}

// base is what most policies share: a name, knobs, and no plans after the start.
type base struct {
	name  string
	knobs Knobs
}

// Name implements Policy.
func (b *base) Name() string { return b.name }

// PeriodNs implements Policy.
func (b *base) PeriodNs() int64 { return 0 }

// budget is the knob that all policies have: tokens of one step at most, and so the size of a prefill's chunk.
func budget(tries ...float64) knob { return budgetOf(2048, tries...) }

func budgetOf(otherwise float64, tries ...float64) knob {
	return knob{name: "budget", otherwise: otherwise, low: 16, high: 1 << 20, tries: tries}
}

// separate is the knob of policies whose lanes may keep steps of prompts, so many in flight, apart from steps of decodes.
func separate(otherwise float64, tries ...float64) knob {
	return knob{name: "separate", otherwise: otherwise, low: 0, high: 8, tries: tries}
}

// stepsBy is how lanes form steps by the knobs that policies share.
func stepsBy(k Knobs) Steps { return Steps{BudgetTokens: k.Int("budget"), Separate: k.Int("separate")} }
