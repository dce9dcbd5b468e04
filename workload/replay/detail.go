package replay

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"slicescheduler/whatif"
)

// shareOut adds to each sample for whom its device worked.
func (d *Detail) shareOut(timeline []whatif.Segment) {
	for _, s := range timeline {
		if s.Device < 0 {
			continue
		}
		i, _ := slices.BinarySearchFunc(d.AtNs, s.StartNs, func(at, start int64) int {
			if at <= start {
				return -1
			}
			return 1
		})
		for ; i < len(d.AtNs); i++ {
			from := int64(0)
			if i > 0 {
				from = d.AtNs[i-1]
			}
			if from >= s.EndNs {
				break
			}
			d.Devices[s.Device][i].add(s.Tenant, float64(min(s.EndNs, d.AtNs[i])-max(s.StartNs, from))/float64(d.AtNs[i]-from))
		}
	}
	for i := range d.Devices {
		for k := range d.Devices[i] {
			slices.SortFunc(d.Devices[i][k].Tenants, func(a, b TenantShare) int { return cmp.Compare(a.Tenant, b.Tenant) })
		}
	}
}

func (s *DeviceSample) add(tenant int, busy float64) {
	for i := range s.Tenants {
		if s.Tenants[i].Tenant == tenant {
			s.Tenants[i].Busy += busy
			return
		}
	}
	s.Tenants = append(s.Tenants, TenantShare{tenant, busy})
}

// WriteTrace replays a policy up to the end of a window and writes what devices and links did in it, for Perfetto and chrome://tracing.
func (p *Setup) WriteTrace(out io.Writer, o RunOptions, fromNs, toNs int64) error {
	if fromNs < 0 || toNs <= fromNs {
		return fmt.Errorf("%w: a trace from %d to %d ns", ErrOptions, fromNs, toNs)
	}
	r, err := p.newRunner(&o)
	if err != nil {
		return err
	}
	// Ending both the requests and the run at a time makes the loop stop there.
	r.endNs, r.windowNs = min(r.endNs, fromNs), min(r.windowNs, fromNs)
	if err := r.loop(); err != nil {
		return err
	}
	r.spec.KeepTimeline = true // from here on: before, it would only cost time and memory
	r.endNs, r.watch = toNs, newWatch(r.world)
	if err := r.loop(); err != nil {
		return err
	}
	return r.sim.WriteChromeTrace(out)
}
