package whatif

import (
	"math"
	"slices"
)

// oracleRota is what the oracle keeps of a device with several streams or swapped weights. Tenants and lanes are its own numbers.
type oracleRota struct {
	held   bool
	served map[bool]int // by whether it held prompts: one more than the tenant served last
	turn   *oracleLane
	ends   int64
	oldest []*oracleLane // resident or on the host, by last use
	on     map[*oracleLane]int64
	off    map[*oracleLane]int64 // KV on the host
}

func (o *oracle) managed(di int) bool {
	return o.spec.Devices[di].Sharing != nil || o.spec.Devices[di].Swap != nil
}

func (o *oracle) managerOf(di int) int {
	if of := o.spec.Devices[di].PartOf; of > 0 {
		return of - 1
	}
	if o.managed(di) {
		return di
	}
	return -1
}

func (s *oracleStep) prompts() bool {
	return slices.ContainsFunc(s.shapes, func(sh Shape) bool { return sh.PrefillTokens > 0 })
}

func (o *oracle) queueManaged(s *oracleStep) {
	d := &o.devices[s.device()]
	r := &d.rota
	rival := func(q *oracleStep) bool { return q.lane != r.turn }
	if r.turn != nil && rival(s) && !slices.ContainsFunc(d.queue, rival) {
		r.ends = o.now + r.turn.spec.TurnNs
	}
	d.queue = append(d.queue, s)
	o.dispatch(s.device())
}

func (o *oracle) dispatch(home int) {
	for !o.devices[home].rota.held && len(o.devices[home].queue) > 0 {
		idle := -1
		for di := range o.devices {
			if idle < 0 && o.managerOf(di) == home && o.devices[di].current == nil {
				idle = di
			}
		}
		if idle < 0 {
			return
		}
		var s *oracleStep
		if o.spec.Devices[home].Sharing != nil {
			s = o.pickStream(home)
		} else {
			s = o.pickTurn(home)
		}
		if s == nil {
			return
		}
		d := &o.devices[home]
		d.queue = slices.DeleteFunc(d.queue, func(q *oracleStep) bool { return q == s })
		total := int64(0)
		for k := range s.program().sequence {
			at := *s
			at.op = k
			total += at.costOf()
		}
		if sharing := o.spec.Devices[home].Sharing; sharing != nil {
			s.extra = sharing.slowdownNs(total, s.prompts(), s.tenths)
		} else {
			s.extra = o.bring(home, s.lane)
		}
		if s.extra > 0 {
			s.op = -1
		}
		o.devices[idle].current = s
		o.devices[idle].ends = o.now + s.costOf()
	}
}

// turnOf sorts the queue's steps by whose turn it is: the next number after the last one first.
func turnOf(queue []*oracleStep, last, n int, number func(*oracleStep) int) *oracleStep {
	for k := 1; k <= n; k++ {
		for _, s := range queue {
			if number(s) == (last+k)%n {
				return s
			}
		}
	}
	return nil
}

func (o *oracle) pickStream(home int) *oracleStep {
	d := &o.devices[home]
	sharing := o.spec.Devices[home].Sharing
	free, busy := 10, false
	for di := range o.devices {
		if s := o.devices[di].current; s != nil && o.managerOf(di) == home {
			free -= s.tenths
			busy = busy || s.prompts()
		}
	}
	if d.rota.served == nil {
		d.rota.served = map[bool]int{}
	}
	pick := func(prompts bool) *oracleStep {
		kind := slices.DeleteFunc(slices.Clone(d.queue), func(s *oracleStep) bool { return s.prompts() != prompts })
		if !sharing.RoundRobin && len(kind) > 0 {
			return kind[0]
		}
		return turnOf(kind, d.rota.served[prompts]-1, len(o.spec.Tenants), func(s *oracleStep) int { return s.lane.tenant })
	}
	if s := pick(true); s != nil && !busy {
		tenths := 10
		for _, l := range o.lanes {
			here := slices.ContainsFunc(l.spec.Ranks, func(r RankSpec) bool {
				return slices.ContainsFunc(r.Slices, func(sl SliceSpec) bool { return sl.Device == home })
			})
			if here && slices.ContainsFunc(l.flying, func(f *oracleStep) bool { return !f.prompts() }) {
				tenths = sharing.PrefillTenths
			}
		}
		if free < tenths {
			return nil
		}
		s.tenths = tenths
		d.rota.served[true] = s.lane.tenant + 1
		return s
	}
	s := pick(false)
	if s == nil || sharing.DecodePermille[free] == 0 {
		return nil
	}
	s.tenths = free
	d.rota.served[false] = s.lane.tenant + 1
	return s
}

func (o *oracle) pickTurn(home int) *oracleStep {
	d := &o.devices[home]
	r := &d.rota
	mine := slices.IndexFunc(d.queue, func(s *oracleStep) bool { return s.lane == r.turn })
	others := slices.DeleteFunc(slices.Clone(d.queue), func(s *oracleStep) bool { return s.lane == r.turn })
	if mine >= 0 && (o.now < r.ends || len(others) == 0) {
		return d.queue[mine]
	}
	s := others[0]
	if o.spec.Devices[home].Swap.RoundRobin {
		last := -1
		if r.turn != nil {
			last = o.laneIndex(r.turn)
		}
		s = turnOf(others, last, len(o.lanes), func(s *oracleStep) int { return o.laneIndex(s.lane) })
	}
	r.turn, r.ends = s.lane, o.now+s.lane.spec.TurnNs
	return s
}

// settleIn lists the lanes of a swapping device, those resident from the start as long as they fit.
func (o *oracle) settleIn(home int) {
	r := &o.devices[home].rota
	r.on, r.off = map[*oracleLane]int64{}, map[*oracleLane]int64{}
	left := o.spec.Devices[home].MemoryBytes
	for _, l := range o.lanes {
		if sl := l.spec.Ranks[0].Slices[0]; sl.Device == home {
			r.oldest = append(r.oldest, l)
			if left >= sl.Program.weightBytes {
				left -= sl.Program.weightBytes
				r.on[l] = sl.Program.weightBytes
			}
		}
	}
}

func (o *oracle) bring(home int, l *oracleLane) int64 {
	r := &o.devices[home].rota
	if r.on == nil {
		o.settleIn(home)
	}
	r.oldest = append(slices.DeleteFunc(r.oldest, func(x *oracleLane) bool { return x == l }), l)
	p := l.spec.Ranks[0].Slices[0].Program
	var in, out int64
	if _, there := r.on[l]; !there {
		in = p.weightBytes + r.off[l]
	}
	r.on[l] = p.weightBytes + int64(l.ranks[0].Stats().HeldBlocks*4)*p.kvPerToken
	for _, x := range r.oldest {
		sum := int64(0)
		for _, bytes := range r.on {
			sum += bytes
		}
		if bytes, there := r.on[x]; there && x != l && sum > o.spec.Devices[home].MemoryBytes {
			kv := bytes - x.spec.Ranks[0].Slices[0].Program.weightBytes
			out += kv
			r.off[x] = kv
			delete(r.on, x)
		}
	}
	s := o.spec.Devices[home].Swap
	ns := int64(math.Ceil(float64(max(in, out))/s.BytesPerS*1e9)) * int64(100-s.HiddenPct) / 100
	r.ends += ns
	return ns
}
