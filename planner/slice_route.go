package planner

import (
	"math"

	"slicescheduler/batching"
	"slicescheduler/whatif"
)

// watermarkPages are kept free for running sequences' next tokens when others are admitted.
const watermarkPages = 64

// overlapPrompts lets a prompt's chunks follow each other; decodes of other sequences go between them.
const overlapPrompts = batching.OverlapPrefill

// poolPages is the most that a lane may hold of the shared memory: all of it.
func (p *slice) poolPages(t *Tenant) int { return batching.MaxKVBlocks }

// Route implements Policy: the lane where the first token is predicted to come first, unless its running sequences would suffer.
func (p *slice) Route(a *whatif.Arrival) int {
	best, least := -1, math.Inf(1)
	for i := range a.Lanes {
		l := &a.Lanes[i]
		if s := p.predict(a, l); s < least {
			best, least = l.Lane, s
		}
	}
	return best
}

// predict is the time to a request's first token on a lane in nanoseconds, with what speaks against the lane added as time.
func (p *slice) predict(a *whatif.Arrival, l *whatif.LaneLoad) float64 {
	k := &p.cost[a.Tenant]
	if p.knobs["predict"] == 0 {
		return float64(4*l.Waiting + l.Running)
	}
	n := float64(l.Devices)
	// Prompts share the device with decodes, which go first: what all running sequences take of each second is lost to prompts.
	prompts := float64(l.DevicePending+a.PromptTokens) * k.prefillNs / n
	share := math.Min(0.9, float64(l.DeviceRunning)/n*k.decodeNs/decodePaceNs)
	ns := float64(l.QueueNs)/2 + prompts/(1-share)
	if l.StepNs > 0 && a.TPOTLimitNs > 0 {
		ns += math.Max(0, float64(l.StepNs)/float64(a.TPOTLimitNs)-0.6) * crowdedNs
	}
	need := (a.PromptTokens + blockTokens - 1) / blockTokens
	if l.FreeBlocks < need+watermarkPages {
		ns += fullNs * float64(1+l.Waiting)
	}
	if l.KVBlocks > 0 {
		ns += crowdedNs / 4 * (1 - float64(l.FreeBlocks)/float64(l.KVBlocks))
	}
	return ns
}

const (
	// decodePaceNs is the pace at which decodes are assumed to go on.
	decodePaceNs = 40e6
	// crowdedNs is what a lane whose steps take as long as the TPOT limit is worth, fullNs one that has no room for the prompt.
	crowdedNs = 0.5e9
	fullNs    = 1e9
)
