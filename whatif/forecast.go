package whatif

// Forecast is what a simulation has come to.
type Forecast struct {
	AtNs      int64            `json:"atNs"`
	Tenants   []TenantForecast `json:"tenants"`
	Devices   []DeviceForecast `json:"devices"`
	Shortage  *Shortage        `json:"shortage,omitempty"` // the first moment at which memory didn't fit, nil for none
	Operators int64            `json:"operators"`
	Steps     int64            `json:"steps"`
	Leaps     int64            `json:"leaps"`
}

// TenantForecast is one tenant's share.
type TenantForecast struct {
	ID           string `json:"id"`
	Totals       Totals `json:"totals"`
	Waiting      int    `json:"waiting"`
	Running      int    `json:"running"`
	OldestWaitNs int64  `json:"oldestWaitNs"` // of those that wait
	KVBlocksHeld int    `json:"kvBlocksHeld"`
}

// DeviceForecast is one device's share.
type DeviceForecast struct {
	ID          string `json:"id"`
	BusyNs      int64  `json:"busyNs"`
	WeightBytes int64  `json:"weightBytes"`
	KVBytes     int64  `json:"kvBytes"`
	FreeBytes   int64  `json:"freeBytes"`
	QueuedRuns  int    `json:"queuedRuns"`
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
