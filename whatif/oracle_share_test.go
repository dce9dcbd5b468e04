package whatif

import (
	"cmp"
	"math"
	"slices"

	"slicescheduler/batching"
	"slicescheduler/gmg"
)

// The oracle's helpers: again the slow and obvious way, from the words in helper.go.

type oracleHelper struct {
	attention bool
	device    int
	percent   int
	kvBytes   int64
	lent      map[batching.SeqID]bool
}

// help gives a lane a helper, unless it has one of the kind already.
func (o *oracle) help(a Action) bool {
	var tenant, lane int
	var h *oracleHelper
	switch a := a.(type) {
	case BorrowAttention:
		tenant, lane, h = a.Tenant, a.Lane, &oracleHelper{true, a.Helper, a.Percent, a.KVBytes, map[batching.SeqID]bool{}}
	case BorrowRows:
		tenant, lane, h = a.Tenant, a.Lane, &oracleHelper{false, a.Helper, a.Percent, 0, nil}
	}
	i := slices.IndexFunc(o.lanes, func(l *oracleLane) bool { return l.tenant == tenant && l.number == lane })
	l := o.lanes[i]
	for _, x := range l.helpers {
		if x.attention == h.attention && x.device == h.device {
			return false
		}
	}
	if sum := len(l.helpers); sum >= 2 {
		return false // at most 50 % each
	}
	l.helpers = append(l.helpers, h)
	return true
}

// oracleShare is what one helper takes of one step.
type oracleShare struct {
	helper *oracleHelper
	step   *oracleStep
	rows   int
	shape  Shape
	moved  int64
	backAt int64
}

type oracleEvent struct {
	at          int64
	class, lane int
	do          func()
}

func (o *oracle) nextLater() int {
	best := -1
	for i := range o.later {
		if best < 0 {
			best = 0
			continue
		}
		a, b := o.later[i], o.later[best]
		if cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.class, b.class), cmp.Compare(a.lane, b.lane)) < 0 {
			best = i
		}
	}
	return best
}

// splitStep cuts off what helpers take: contexts by contexts, then rows.
func (o *oracle) splitStep(s *oracleStep) {
	l := s.lane
	if len(l.helpers) == 0 {
		return
	}
	step := s.steps[0]
	kv := int64(0)
	for _, sl := range l.spec.Ranks[0].Slices {
		kv += sl.Program.kvPerToken
	}
	page := int64(l.ranks[0].Config().BlockTokens)
	var decodes []batching.Item
	for _, it := range step.Items {
		if it.Tokens == 1 {
			decodes = append(decodes, it)
			continue
		}
		for _, h := range l.helpers {
			delete(h.lent, it.ID)
		}
	}
	slices.SortStableFunc(decodes, func(a, b batching.Item) int { return b.Start - a.Start })
	gone := map[batching.SeqID]bool{}
	for _, h := range l.helpers {
		sh := &oracleShare{helper: h, step: s}
		free := h.kvBytes
		attend := func(it batching.Item) bool {
			bytes := (int64(it.Start)/page + 1) * page * kv
			if bytes > free {
				return false
			}
			free -= bytes
			gone[it.ID] = true
			sh.rows++
			sh.shape.Tokens, sh.shape.Logits = sh.rows, sh.rows
			sh.shape.decode(it.Start)
			return true
		}
		if h.attention {
			for _, it := range decodes {
				if h.lent[it.ID] && !attend(it) {
					delete(h.lent, it.ID)
				}
			}
			for _, it := range decodes {
				elsewhere := slices.ContainsFunc(l.helpers, func(x *oracleHelper) bool { return x.lent[it.ID] })
				if sh.rows < len(decodes)*h.percent/100 && !elsewhere && !gone[it.ID] && attend(it) {
					h.lent[it.ID] = true
					sh.moved += int64(it.Start)
				}
			}
		} else if sh.rows = step.Tokens * h.percent / 100; sh.rows > 0 {
			sh.shape = Shape{Tokens: l.spec.Engine.pad(sh.rows), Logits: len(step.Items) * h.percent / 100}
		}
		if sh.rows > 0 {
			s.shares = append(s.shares, sh)
		}
	}
}

// blockOf finds a distinct operator.
func blockOf(p *Program, ref opRef) (b *programBlock, at int) {
	for i := range p.blocks {
		if b := &p.blocks[i]; int(ref) >= b.first && int(ref) < b.first+len(b.costs) {
			return b, int(ref) - b.first
		}
	}
	panic("no such operator")
}

func (sh *oracleShare) program(slice int) *Program {
	return sh.step.lane.spec.Ranks[0].Slices[slice].Program
}

func (sh *oracleShare) takes(b *programBlock, at int) bool {
	return (b.kinds[at] == gmg.OpAttention) == sh.helper.attention
}

// operators lists what the share runs of a slice.
func (sh *oracleShare) operators(slice int) []opRef {
	var out []opRef
	for _, ref := range sh.program(slice).sequence {
		if b, at := blockOf(sh.program(slice), ref); sh.takes(b, at) {
			out = append(out, ref)
		}
	}
	return out
}

func (sh *oracleShare) costOf(slice, op int) int64 {
	b, at := blockOf(sh.program(slice), sh.operators(slice)[op])
	return b.costs[at].Ns(&sh.shape)
}

// perRow is the bytes of a row to the helper and back in a block.
func (sh *oracleShare) perRow(slice int, b *programBlock) (out, back int) {
	switch {
	case sh.helper.attention:
		return int(b.qkvBytes), int(b.attendedBytes)
	case b.qkvBytes > 0:
		return int(b.attendedBytes), int(b.qkvBytes)
	}
	h := sh.program(slice).hiddenBytes
	return h, h
}

// costWithHelpers is the next operator's time on the slice's own device.
func (s *oracleStep) costWithHelpers() int64 {
	step := s.steps[0]
	own := s.shapes[0]
	rowsAway, logitsAway, attended := 0, 0, map[int]int{}
	taken := 0
	for _, sh := range s.shares {
		if !sh.helper.attention {
			rowsAway, logitsAway = rowsAway+sh.rows, logitsAway+sh.shape.Logits
			continue
		}
		taken += sh.rows
		for i := range sh.shape.kept {
			attended[int(sh.shape.longest[i])]++
		}
	}
	rows := own
	if rowsAway > 0 {
		rows.Tokens, rows.Logits = 0, len(step.Items)-logitsAway
		if n := step.Tokens - rowsAway; n > 0 {
			rows.Tokens = s.lane.spec.Engine.pad(n)
		}
	}
	if taken > 0 {
		rest := Shape{Tokens: own.Tokens - taken, Logits: own.Logits - taken, PrefillTokens: own.PrefillTokens, PrefillWork: own.PrefillWork}
		for _, it := range step.Items {
			if it.Tokens > 1 {
				continue
			}
			if attended[it.Start] > 0 {
				attended[it.Start]-- // equal contexts cost the same
				continue
			}
			rest.decode(it.Start)
		}
		own = rest
	}
	b, at := blockOf(s.program(), s.program().sequence[s.op])
	if b.kinds[at] == gmg.OpAttention {
		return max(b.costs[at].Ns(&own), s.wait(b, true))
	}
	sum, last := int64(0), 0
	for k, c := range b.costs {
		if b.kinds[k] != gmg.OpAttention {
			sum += c.Ns(&rows)
			last = k
		}
	}
	ns := b.costs[at].Ns(&rows)
	if at == last {
		ns += max(0, s.wait(b, false)-sum)
	}
	return ns
}

// wait is how long the slowest helper's part in a block takes with both ways.
func (s *oracleStep) wait(b *programBlock, attention bool) int64 {
	most := int64(0)
	for _, sh := range s.shares {
		if sh.helper.attention != attention {
			continue
		}
		out, back := sh.perRow(s.slice, b)
		there, home := sh.links(s.slice)
		ns := carry(there, out*sh.rows) + there.LatencyNs + carry(home, back*sh.rows) + home.LatencyNs
		for k, c := range b.costs {
			if sh.takes(b, k) {
				ns += c.Ns(&sh.shape)
			}
		}
		most = max(most, ns)
	}
	return most
}

func (sh *oracleShare) links(slice int) (there, home LinkSpec) {
	s := sh.step
	for _, l := range s.lane.links {
		if l.From == s.lane.spec.Ranks[0].Slices[slice].Device && l.To == sh.helper.device {
			there = l
		}
		if l.To == s.lane.spec.Ranks[0].Slices[slice].Device && l.From == sh.helper.device {
			home = l
		}
	}
	return there, home
}

func carry(l LinkSpec, bytes int) int64 {
	return int64(math.Ceil(float64(bytes) / l.BandwidthBytesPerS * 1e9))
}

// callHelpers starts the helpers' part of a slice whose own run begins.
func (o *oracle) callHelpers(s *oracleStep) {
	if s.part != nil || s.op > 0 || s.op == 0 && s.slice == 0 {
		return
	}
	at := o.now
	if s.op < 0 {
		at += s.costOf()
	}
	lane, slice := o.laneIndex(s.lane), s.slice
	for _, sh := range s.shares {
		if len(sh.operators(slice)) == 0 {
			continue
		}
		s.out++
		o.later = append(o.later, oracleEvent{at, 0, lane, func() {
			out, _ := o.bytesOver(sh, slice)
			first, _ := sh.perRow(slice, o.blockAt(sh, slice, 0))
			moved := int(sh.moved) * int(sh.program(slice).kvPerToken)
			there, _ := sh.links(slice)
			i := o.spec.link(there.From, there.To)
			begins := max(o.linkAt[i], o.now)
			o.linkAt[i] = begins + carry(there, moved+out)
			o.later = append(o.later, oracleEvent{begins + carry(there, moved+first*sh.rows) + there.LatencyNs, 1, lane, func() {
				_, back := o.bytesOver(sh, slice)
				_, home := sh.links(slice)
				i := o.spec.link(home.From, home.To)
				o.linkAt[i] = max(o.linkAt[i], o.now) + carry(home, back)
				sh.backAt = o.linkAt[i]
				o.enqueue(&oracleStep{lane: s.lane, part: sh, slice: slice})
			}})
		}})
	}
}

func (o *oracle) blockAt(sh *oracleShare, slice, op int) *programBlock {
	ops := sh.operators(slice)
	b, _ := blockOf(sh.program(slice), ops[(op+len(ops))%len(ops)])
	return b
}

// bytesOver is what all rows of a share carry there and back over all blocks of a slice.
func (o *oracle) bytesOver(sh *oracleShare, slice int) (out, back int) {
	p := sh.program(slice)
	for i := range p.blocks {
		for k := range p.blocks[i].costs {
			if sh.takes(&p.blocks[i], k) {
				a, b := sh.perRow(slice, &p.blocks[i])
				out, back = out+int(p.blocks[i].repeat)*a*sh.rows, back+int(p.blocks[i].repeat)*b*sh.rows
				break
			}
		}
	}
	return out, back
}

// allEnded notes the end of a run and says whether the slice is through; what a share still lacks is its way home.
func (o *oracle) allEnded(s *oracleStep) bool {
	if s.part == nil {
		s.ended = s.out > 0
		return s.out == 0
	}
	sh := s.part
	_, last := sh.perRow(s.slice, o.blockAt(sh, s.slice, -1))
	_, home := sh.links(s.slice)
	at := max(o.now+carry(home, last*sh.rows), sh.backAt) + home.LatencyNs
	o.later = append(o.later, oracleEvent{at, 2, o.laneIndex(s.lane), func() {
		own := sh.step
		if own.out--; own.out == 0 && own.ended {
			own.ended = false
			o.sliceEnds(own)
		}
	}})
	return false
}
