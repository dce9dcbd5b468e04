package replay

import (
	"fmt"
	"slices"

	"slicescheduler/planner"
	"slicescheduler/whatif"
)

// Noise of every world beside its operators' factors.
const (
	stepJitterPct = 3
	hiccupEvery   = 20_000
	hiccupNs      = 30_000_000
)

// world is one run's truth and the policy in it.
type world struct {
	setup    *Setup
	opts     *RunOptions
	policy   planner.Policy
	cluster  *planner.Cluster // with the true costs
	start    *planner.Start
	mask     mask
	sim      *whatif.Sim
	spec     *whatif.Spec
	arrivals []piece // by tenant, at the trace's own pace
	windowNs int64   // last moment at which a request may arrive
	endNs    int64   // the run ends here whatever is left
}

// newWorld places a policy and starts its world.
func (p *Setup) newWorld(o *RunOptions) (*world, error) {
	makePolicy := o.Make
	if makePolicy == nil {
		makePolicy = planner.New
	}
	policy, err := makePolicy(o.Policy, o.Knobs)
	if err != nil {
		return nil, err
	}
	w := &world{setup: p, opts: o, policy: policy, mask: mask{map[*whatif.LaneSpec]*whatif.LaneSpec{}}, arrivals: p.scored}
	length := p.windowNs
	if o.Part == Tuning {
		w.arrivals, length = p.tuning, p.tuneNs
	}
	w.windowNs = int64(float64(length) / o.Load)
	thought := asMeasured
	if o.Disturb.WrongCosts {
		thought = asMistaken
	}
	seen := p.cluster(thought, o.Seed)
	w.cluster = p.cluster(asTrue, o.Seed)
	if r, ok := policy.(planner.Reshaper); ok {
		seen, w.cluster = r.Reshape(seen), r.Reshape(w.cluster)
	}
	if w.start, err = policy.Place(seen, p.past(o.Load)); err != nil {
		return nil, fmt.Errorf("%w: %s on %s: %w", ErrPlacement, o.Policy, p.Scenario.Name, err)
	}
	if len(w.start.Lanes) != len(p.Tenants) {
		return nil, fmt.Errorf("%w: policy %s placed %d tenants of %d", ErrOptions, o.Policy, len(w.start.Lanes), len(p.Tenants))
	}
	w.spec = w.describe()
	w.sim, err = whatif.New(w.spec, whatif.Fast)
	if err != nil {
		return nil, fmt.Errorf("%w: %s on %s: %w", ErrPlacement, o.Policy, p.Scenario.Name, err)
	}
	return w, nil
}

// describe makes the specification of a world out of the policy's start and the truth.
func (w *world) describe() *whatif.Spec {
	p, o := w.setup, w.opts
	s := &whatif.Spec{
		Links: w.cluster.Links, Catalog: w.cluster.Costs, Router: w.policy, Order: w.start.Order, KeepRecords: true, KeepTimeline: o.Detail,
		Noise: whatif.Noise{Seed: o.Seed, StepPct: stepJitterPct, HiccupEvery: hiccupEvery, HiccupNs: hiccupNs},
	}
	s.Devices = slices.Clone(w.start.Devices)
	if s.Devices == nil {
		for _, d := range w.cluster.Devices {
			s.Devices = append(s.Devices, whatif.DeviceSpec{ID: d.ID, MemoryBytes: d.MemoryBytes})
		}
	}
	last := int64(0)
	for i := range p.Tenants {
		t := whatif.TenantSpec{ID: p.Tenants[i].ID, Lanes: lanesWithoutPrograms(w.start.Lanes[i]), Requests: make([]whatif.Request, len(w.arrivals[i]))}
		for k, a := range w.arrivals[i] {
			r := &t.Requests[k]
			*r = whatif.Request{ArrivalNs: int64(float64(a.ArrivalNs) / o.Load), PromptTokens: a.PromptTokens, OutputTokens: a.OutputTokens}
			r.TTFTLimitNs, r.TPOTLimitNs = p.limits(i, a.PromptTokens)
			last = max(last, r.ArrivalNs)
		}
		s.Tenants = append(s.Tenants, t)
	}
	w.endNs = last + int64(p.Scenario.DrainS*1e9)
	return s
}
