package cluster

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"time"
)

// rejoin tries the seeds, and the addresses of lost nodes, for as long as the node lives: so it does not matter who starts first, and a partition that heals
// is one cluster again.
func (m *Membership) rejoin() {
	wait := time.NewTimer(0)
	defer wait.Stop()
	log := rejoinLog{m: m}
	var takenSince time.Time
	for {
		select {
		case <-m.ended.Done():
			return
		case <-wait.C:
		}
		m.refused.Store(nil)
		for _, a := range m.candidates(&log) {
			if m.ended.Err() != nil {
				return
			}
			_, err := m.list.Join([]string{a.String()})
			log.joined(a, err)
		}
		takenSince = m.checkName(takenSince, time.Now())
		every := m.config.Timing.Rejoin
		if m.alone() {
			every = m.config.Timing.RejoinAlone
		}
		wait.Reset(every/2 + rand.N(every)) // apart from others that started at the same moment
	}
}

// checkName gives up when another node has had this one's name for long; it returns since when that is.
func (m *Membership) checkName(since, now time.Time) time.Time {
	r := m.refused.Load()
	switch {
	case r == nil || r.address == "":
		return time.Time{}
	case since.IsZero():
		return now
	case now.Sub(since) >= m.config.Timing.NameTaken:
		m.giveUp(r.incarnation, r.address)
	}
	return since
}

func (m *Membership) alone() bool {
	for _, other := range m.Members() {
		if !other.Self && other.State != StateLost {
			return false
		}
	}
	return true
}

// candidates returns the addresses where a node may be that isn't a member.
func (m *Membership) candidates(log *rejoinLog) []netip.AddrPort {
	skip := map[netip.AddrPort]bool{m.gossip: true}
	var list []netip.AddrPort
	add := func(a netip.AddrPort) {
		if !skip[a] {
			skip[a] = true
			list = append(list, a)
		}
	}
	members := m.Members()
	for _, other := range members {
		if other.State != StateLost {
			skip[other.Gossip] = true
		}
	}
	for _, s := range m.seeds {
		ctx, cancel := context.WithTimeout(m.ended, 2*m.config.Timing.Dial)
		addresses, err := s.resolve(ctx, m.config.Resolver, m.local)
		cancel()
		log.resolved(s, err)
		for _, a := range addresses {
			add(a)
		}
	}
	for _, other := range members {
		if other.State == StateLost {
			add(other.Gossip)
		}
	}
	return list
}

// rejoinLog writes what goes wrong with a seed once, until it goes wrong in another way.
type rejoinLog struct {
	m    *Membership
	last map[string]string
}

func (l *rejoinLog) resolved(s seed, err error) {
	l.once(s.text, "seed can't be looked up, will try again", err)
}

func (l *rejoinLog) joined(a netip.AddrPort, err error) {
	if r := l.m.refused.Load(); err != nil && r != nil {
		err = r.err
	}
	l.once(a.String(), "can't join, will try again (a node there with another secret, or none, refuses too)", err)
}

func (l *rejoinLog) once(what, message string, err error) {
	if l.last == nil {
		l.last = make(map[string]string)
	}
	if err == nil || l.m.ended.Err() != nil {
		delete(l.last, what)
		return
	}
	if l.last[what] == message {
		l.m.config.Logger.Debug(message, "seed", what, "error", err)
		return
	}
	l.last[what] = message
	l.m.config.Logger.Warn(message, "seed", what, "error", err)
}
