package whatif

// Forecast is what a simulation has come to.
type Forecast struct {
	AtNs      int64
	Tenants   []TenantForecast
	Devices   []DeviceForecast
	Shortage  *Shortage // the first moment at which memory didn't fit, nil for none
	Operators int64
	Steps     int64
	Leaps     int64
}

// TenantForecast is one tenant's share.
type TenantForecast struct {
	ID               string
	Totals           Totals
	Waiting, Running int
	OldestWaitNs     int64 // of those that wait
	KVBlocksHeld     int
}

// DeviceForecast is one device's share.
type DeviceForecast struct {
	ID                   string
	BusyNs               int64
	WeightBytes, KVBytes int64
	FreeBytes            int64
	QueuedRuns           int
}

// Forecast sums up the state reached.
func (s *Sim) Forecast() Forecast {
	f := Forecast{AtNs: s.now, Tenants: make([]TenantForecast, len(s.ofTenant)), Devices: make([]DeviceForecast, len(s.ofDevice))}
	for _, w := range s.islands {
		f.Operators, f.Steps, f.Leaps = f.Operators+w.operators, f.Steps+w.steps, f.Leaps+w.leaps
		for ti := range w.tenants {
			w.sumTenant(int32(ti), &f.Tenants[w.tenants[ti].id])
		}
		for di := range w.devices {
			d := &w.devices[di]
			out := &f.Devices[d.id]
			*out = DeviceForecast{
				ID: s.spec.Devices[d.id].ID, BusyNs: d.busyNs, QueuedRuns: len(d.queue), FreeBytes: d.ledger.Free(),
				WeightBytes: d.ledger.Held[0], KVBytes: d.ledger.Held[1],
			}
			if d.busy {
				out.BusyNs += w.now - d.current.startNs
			}
			if d.shortage.Bytes > 0 && (f.Shortage == nil || d.shortage.AtNs < f.Shortage.AtNs) {
				sh := d.shortage
				f.Shortage = &sh
			}
		}
	}
	return f
}

func (w *island) sumTenant(ti int32, out *TenantForecast) {
	t := &w.tenants[ti]
	*out = TenantForecast{ID: t.spec.ID, Totals: t.totals, Waiting: len(t.held)}
	for _, li := range t.lanes {
		l := &w.lanes[li]
		for r, s := range l.ranks {
			st := s.Stats()
			out.Waiting += st.Waiting + len(l.inbox[r])
			out.Running += st.Running
			out.KVBlocksHeld += st.HeldBlocks
			for _, q := range l.inbox[r] {
				out.OldestWaitNs = max(out.OldestWaitNs, w.now-t.spec.Requests[q].ArrivalNs)
			}
		}
	}
	for _, q := range t.held {
		out.OldestWaitNs = max(out.OldestWaitNs, w.now-t.spec.Requests[q].ArrivalNs)
	}
}

// Records returns what became of a tenant's requests, by request; nil unless Spec.KeepRecords is set.
func (s *Sim) Records(tenant int) []Record {
	w := s.islands[s.ofTenant[tenant]]
	return w.tenants[w.tenantAt(tenant)].records
}
