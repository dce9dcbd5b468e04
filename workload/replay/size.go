package replay

import (
	"errors"
	"fmt"
)

// WithDevices returns the same scenario on another number of devices. Traces and costs are shared with the one it is made from.
func (p *Setup) WithDevices(n int) (*Setup, error) {
	if n < 1 || n > maxDevices {
		return nil, fmt.Errorf("%w: %d devices, must be 1 to %d", ErrScenario, n, maxDevices)
	}
	s := *p.Scenario
	s.Devices.Count = n
	q := *p
	q.Scenario, q.devices, q.links = &s, nil, nil
	q.layCluster()
	q.Tenants = append([]TenantSetup(nil), p.Tenants...)
	for i := range q.Tenants {
		q.Tenants[i].Home = snake(q.Tenants[i].Rank, n)
	}
	return &q, nil
}

// SizeTry is one cluster that a search for the smallest tried.
type SizeTry struct {
	Devices       int     `json:"devices"`
	ViolationsPct float64 `json:"violationsPct"` // at least
	Fits          bool    `json:"fits"`
	Problem       string  `json:"problem,omitempty"` // why nothing could be placed
}

// suffices says whether a policy keeps the SLAs on so many devices.
func (l *Lab) suffices(p *Setup, o RunOptions, n int) (SizeTry, error) {
	t := SizeTry{Devices: n, ViolationsPct: 100}
	q, err := p.WithDevices(n)
	if err != nil {
		return t, err
	}
	t.Fits, t.ViolationsPct, err = l.carries(q, o, l.Seeds)
	if errors.Is(err, ErrPlacement) {
		return SizeTry{Devices: n, ViolationsPct: 100, Problem: err.Error()}, nil
	}
	return t, err
}

// Size finds the smallest number of devices, at most `most`, on which the policy in o keeps the SLAs at its load, by doubling and halving from the scenario's
// own number; 0 where not even the largest cluster does. More devices are taken never to be worse.
func (l *Lab) Size(p *Setup, o RunOptions, most int) (int, []SizeTry, error) {
	if most < 1 || most > maxDevices {
		return 0, nil, fmt.Errorf("%w: at most %d devices, must be 1 to %d", ErrOptions, most, maxDevices)
	}
	var tries []SizeTry
	fits := func(n int) (bool, error) {
		t, err := l.suffices(p, o, n)
		tries = append(tries, t)
		return t.Fits, err
	}
	low, high := 0, min(p.Scenario.Devices.Count, most) // low is known not to suffice
	for {
		ok, err := fits(high)
		if err != nil {
			return 0, tries, err
		}
		if ok {
			break
		}
		if high == most {
			return 0, tries, nil
		}
		low, high = high, min(2*high, most)
	}
	for high-low > 1 {
		mid := (low + high) / 2
		ok, err := fits(mid)
		if err != nil {
			return 0, tries, err
		}
		if ok {
			high = mid
		} else {
			low = mid
		}
	}
	return high, tries, nil
}
