package placement

import (
	"cmp"
	"errors"
	"fmt"

	"slicescheduler/gmg"
)

// Times of leases. A claimant that dies is followed by another after at most LeaseNs and a round of claims.
const (
	LeaseNs     = 2_000_000_000
	RenewNs     = 500_000_000 // between a claimant's requests
	MaxDriftPct = 5           // by which the pace of two clocks may differ
)

// ErrRefused is a claim or a command that a newer epoch or a running lease stands against.
var ErrRefused = errors.New("refused by a fencing epoch")

// Epoch numbers the terms of who acts for a key. No two claims have the same: the node's incarnation is part of it.
type Epoch struct {
	Number      uint64
	Node        gmg.NodeID
	Incarnation uint64
}

// Compare orders epochs.
func (e Epoch) Compare(o Epoch) int {
	return cmp.Or(cmp.Compare(e.Number, o.Number), cmp.Compare(e.Node, o.Node), cmp.Compare(e.Incarnation, o.Incarnation))
}

// String returns the epoch as logs show it.
func (e Epoch) String() string { return fmt.Sprintf("%d of %s@%x", e.Number, e.Node, e.Incarnation) }

// Voter is one node's vote over one key. Make one with NewVoter.
type Voter struct {
	granted Epoch
	untilNs int64
}

// NewVoter returns a voter that has just started, on its own clock.
func NewVoter(nowNs int64) *Voter { return &Voter{untilNs: nowNs + LeaseNs} }

// Grant answers a claim: nil grants it for LeaseNs from now. A refusal is ErrRefused; Granted then tells which epoch to exceed.
func (v *Voter) Grant(e Epoch, nowNs int64) error {
	switch order := e.Compare(v.granted); {
	case order < 0:
		return fmt.Errorf("%w: epoch %v is older than %v", ErrRefused, e, v.granted)
	case order > 0 && nowNs < v.untilNs:
		return fmt.Errorf("%w: the lease of epoch %v runs for %d ms more", ErrRefused, v.granted, (v.untilNs-nowNs)/1e6)
	}
	v.granted, v.untilNs = e, nowNs+LeaseNs
	return nil
}

// Release takes a lease back that its holder no longer needs.
func (v *Voter) Release(e Epoch, nowNs int64) {
	if e == v.granted {
		v.untilNs = min(v.untilNs, nowNs)
	}
}

// Granted returns the newest epoch that was granted.
func (v *Voter) Granted() Epoch { return v.granted }

// Claim is one node's try to act for a key. Make one with NewClaim; after a release or a refusal by a newer epoch, make another with a higher number.
type Claim struct {
	Epoch    Epoch
	asked    map[gmg.NodeID]int64 // newest granted request's time, on this node's clock
	released bool
}

// NewClaim returns a claim of an epoch that nobody has answered yet.
func NewClaim(e Epoch) *Claim { return &Claim{Epoch: e, asked: make(map[gmg.NodeID]int64)} }

// Answer takes in that a voter granted the request that was sent at askedNs, on this node's clock.
func (c *Claim) Answer(voter gmg.NodeID, askedNs int64) {
	if last, granted := c.asked[voter]; !granted || askedNs > last {
		c.asked[voter] = askedNs
	}
}

// Release ends the claim: from now on the node doesn't act. Tell the voters after that, not before.
func (c *Claim) Release() { c.released = true }

// Acts says whether the node may act now: a majority of each set of voters has granted it. While voters change, pass the old and the new set.
func (c *Claim) Acts(nowNs int64, sets ...[]gmg.NodeID) bool {
	if c.released || len(sets) == 0 {
		return false
	}
	for _, voters := range sets {
		held := 0
		for _, v := range voters {
			asked, granted := c.asked[v]
			if granted && nowNs < asked+LeaseNs*(100-MaxDriftPct)/100 {
				held++
			}
		}
		if 2*held <= len(voters) {
			return false
		}
	}
	return true
}

// Fence is what a device remembers of a key's epochs.
type Fence struct{ highest Epoch }

// Admit lets a command of an epoch through, or refuses it with ErrRefused because a newer one was seen.
func (f *Fence) Admit(e Epoch) error {
	if e.Compare(f.highest) < 0 {
		return fmt.Errorf("%w: epoch %v, the device obeys %v", ErrRefused, e, f.highest)
	}
	f.highest = e
	return nil
}
