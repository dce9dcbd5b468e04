package planner

import "slicescheduler/whatif"

// joinPace is how much a nanosecond of a device's pace, one token for each of its sequences, weighs against one of the work that waits there: as much as their
// limits differ, 1 s to the first token and 50 ms a token.
const joinPace = 20

// pacer compares lanes by what a request would meet there: prompts that wait, and the pace of decodes. On a device that several tenants share a round of
// steps reads the weights of each tenant that runs there, so a request goes where its model runs already, other things being equal.
type pacer struct {
	weight    float64 // of the pace
	tenants   []tenantPace
	devices   []devicePace
	perPrompt float64 // of all tenants, the mean time of a token of a prompt
}

// tenantPace is what a tenant's work takes on its home device, in nanoseconds.
type tenantPace struct {
	prompt   float64 // a token of a prompt
	weights  float64 // a step of decodes, but for its sequences
	sequence float64 // one sequence of a step of decodes
}

// devicePace is what ran on a device when it was last looked at.
type devicePace struct {
	running []int // by tenant
	weights float64
	sum     float64 // of the sequences
	count   int
}

func newPacer(c *Cluster, past *Past, weight float64) pacer {
	p := pacer{weight: weight, tenants: make([]tenantPace, len(c.Tenants)), devices: make([]devicePace, len(c.Devices))}
	for i := range p.tenants {
		p.tenants[i] = paceOf(&c.Tenants[i], past.tenant(i))
		p.perPrompt += p.tenants[i].prompt / float64(len(p.tenants))
	}
	for d := range p.devices {
		p.devices[d].running = make([]int, len(c.Tenants))
	}
	return p
}

func paceOf(t *Tenant, past *TenantPast) tenantPace {
	if t.AloneTTFTNs == nil || t.AloneTPOTNs == nil {
		return tenantPace{1, 0, 1}
	}
	const probe = 1024
	prompt := float64(t.AloneTTFTNs(2*probe)-t.AloneTTFTNs(probe)) / probe
	context := max(1, int(past.PromptTokens+past.OutputTokens/2))
	attention := float64(t.AloneTPOTNs(context) - t.AloneTPOTNs(1))
	// A row of a step of decodes takes the compute of a prompt's token, most of it while weights are read anyway.
	return tenantPace{prompt: prompt, weights: float64(t.AloneTPOTNs(1)), sequence: attention + prompt/4}
}

// note remembers what runs where.
func (p *pacer) note(s *whatif.State) {
	for d := range p.devices {
		clear(p.devices[d].running)
		p.devices[d].weights, p.devices[d].sum, p.devices[d].count = 0, 0, 0
	}
	for i := range s.Tenants {
		for k := range s.Tenants[i].Lanes {
			if l := &s.Tenants[i].Lanes[k]; l.Phase != whatif.LaneGone {
				p.add(i, l.Load.Device, l.Load.Running)
			}
		}
	}
}

// add puts n sequences of a tenant onto a device, or takes them away.
func (p *pacer) add(tenant, device, n int) {
	d, t := &p.devices[device], &p.tenants[tenant]
	before := d.running[tenant]
	d.running[tenant] += n
	d.count += n
	d.sum += float64(n) * t.sequence
	switch {
	case before == 0 && d.running[tenant] > 0:
		d.weights += t.weights
	case before > 0 && d.running[tenant] == 0:
		d.weights -= t.weights
	}
}

// delay is what a tenant's next request meets on a lane.
func (p *pacer) delay(tenant int, l *whatif.LaneLoad) float64 {
	t, d := &p.tenants[tenant], &p.devices[l.Device]
	pace := d.weights + float64(l.DeviceRunning+1)*t.sequence
	if d.running[tenant] == 0 && l.Running == 0 && l.Waiting == 0 {
		pace += t.weights
	}
	return float64(l.DevicePending)*p.perPrompt + p.weight*pace
}

// shortest is the lane where the least delay is met, of those that have the pages for all prompts if any has; -1 without lanes.
func (p *pacer) shortest(a *whatif.Arrival) int {
	return leastBy(a, func(l *whatif.LaneLoad) float64 { return p.delay(a.Tenant, l) })
}

// total is what a token of every sequence of a device takes together: how many there are times its pace.
func (d *devicePace) total() float64 { return float64(d.count) * (d.weights + d.sum) }
