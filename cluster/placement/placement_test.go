package placement

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"slicescheduler/gmg"
)

func names(n int) []gmg.NodeID {
	var list []gmg.NodeID
	for i := range n {
		list = append(list, gmg.NodeID(fmt.Sprintf("n%d", i)))
	}
	return list
}

func TestOwnersAreEvenAndStay(t *testing.T) {
	const keys, nodes = 20000, 10
	before := names(nodes)
	counts := make(map[gmg.NodeID]int)
	moved := 0
	for k := range keys {
		key := fmt.Sprintf("tenant/%d", k)
		owner := Owner(key, before)
		counts[owner]++
		if Rank(key, before)[0] != owner {
			t.Fatalf("%s: the best ranked is not the owner", key)
		}
		after := Owner(key, append(names(nodes)[1:], "new"))
		if owner != "n0" && after != owner {
			if moved++; after != "new" {
				t.Fatalf("%s moved from %s to %s, which was there before", key, owner, after)
			}
		}
	}
	for n, c := range counts {
		if c < keys/nodes*85/100 || c > keys/nodes*115/100 {
			t.Errorf("%s owns %d of %d keys", n, c, keys)
		}
	}
	if want := keys / nodes * 9 / 10; moved < want*8/10 || moved > want*12/10 {
		t.Errorf("%d keys moved to the new node, expected about %d", moved, want)
	}
	if Owner("x", nil) != "" || len(Rank("x", nil)) != 0 {
		t.Error("nobody owns something")
	}
	reversed := names(nodes)
	slices.Reverse(reversed)
	if Owner("x", before) != Owner("x", reversed) {
		t.Error("the order of nodes decides")
	}
}

func TestVoter(t *testing.T) {
	v := NewVoter(0)
	a, b := Epoch{1, "a", 1}, Epoch{2, "b", 1}
	steps := []struct {
		e  Epoch
		at int64
		ok bool
	}{
		{a, LeaseNs - 1, false}, // just started
		{a, LeaseNs, true}, {b, LeaseNs + 1, false}, {a, 2 * LeaseNs, true}, {b, 3*LeaseNs - 1, false}, {b, 3 * LeaseNs, true}, {a, 9 * LeaseNs, false},
	}
	for i, s := range steps {
		if err := v.Grant(s.e, s.at); (err == nil) != s.ok || err != nil && !errors.Is(err, ErrRefused) {
			t.Errorf("step %d: %v", i, err)
		}
	}
	v.Release(a, 3*LeaseNs+1) // not its lease
	if err := v.Grant(Epoch{3, "c", 1}, 3*LeaseNs+2); err == nil {
		t.Error("a stranger released the lease")
	}
	v.Release(b, 3*LeaseNs+2)
	if err := v.Grant(Epoch{3, "c", 1}, 3*LeaseNs+2); err != nil {
		t.Errorf("after the release: %v", err)
	}
}

func TestClaimNeedsMajoritiesOfAllSets(t *testing.T) {
	c := NewClaim(Epoch{1, "a", 1})
	was, will := []gmg.NodeID{"x", "y", "z"}, []gmg.NodeID{"z", "w"}
	c.Answer("x", 0)
	c.Answer("z", 0)
	if !c.Acts(1, was) || c.Acts(1, was, will) || c.Acts(1) || c.Acts(1, nil) {
		t.Error("majorities are miscounted")
	}
	c.Answer("w", 100)
	if !c.Acts(1, was, will) {
		t.Error("both majorities are there")
	}
	if end := int64(LeaseNs * (100 - MaxDriftPct) / 100); c.Acts(end, was) || !c.Acts(end-1, was) {
		t.Error("the claim doesn't end early")
	}
	if c.Release(); c.Acts(1, was) {
		t.Error("it acts after the release")
	}
}

func TestFenceKeepsOldEpochsOut(t *testing.T) {
	var f Fence
	old, next := Epoch{1, "a", 7}, Epoch{2, "b", 1}
	for i, c := range []struct {
		e  Epoch
		ok bool
	}{{old, true}, {old, true}, {next, true}, {old, false}, {next, true}} {
		if err := f.Admit(c.e); (err == nil) != c.ok {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// world is a simulation of claims over an unreliable network: clocks of unlike pace and time, partitions, losses, delays, repeats, pauses and restarts.
type world struct {
	rng    *rand.Rand
	now    int64
	nodes  []*simNode
	mail   []letter
	cut    map[[2]int]bool
	voters []gmg.NodeID
	acted  int
}

type simNode struct {
	id          gmg.NodeID
	incarnation uint64
	paceNum     int64 // of 1000
	offset      int64
	voter       *Voter
	claim       *Claim
	highest     uint64 // number seen
	stopped     int64  // until this time of the world
}

type letter struct {
	at, asked int64
	from, to  int
	kind      byte // ask, yes, no
	epoch     Epoch
}

func (n *simNode) clock(now int64) int64 { return now/1000*n.paceNum + n.offset }

func newWorld(seed uint64, size int) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), cut: make(map[[2]int]bool), voters: names(size)}
	for _, id := range w.voters {
		n := &simNode{id: id, incarnation: 1, paceNum: 976 + int64(w.rng.IntN(49)), offset: int64(w.rng.IntN(7200)-3600) * 1e9}
		n.voter = NewVoter(n.clock(0))
		w.nodes = append(w.nodes, n)
	}
	return w
}

func (w *world) send(l letter) {
	for range 1 + w.rng.IntN(20)/19 { // one in twenty is repeated
		if w.rng.IntN(10) > 0 && !w.cut[[2]int{l.from, l.to}] {
			l.at = w.now + int64(w.rng.IntN(100))*1e6
			if w.rng.IntN(10) == 0 {
				l.at += int64(w.rng.IntN(2000)) * 1e6
			}
			w.mail = append(w.mail, l)
		}
	}
}

// step moves the world on by 10 ms and returns the claims that act.
func (w *world) step() (acting []Epoch) {
	w.now += 10e6
	w.disturb()
	due := w.mail
	w.mail = nil
	for _, l := range due {
		if l.at > w.now || w.nodes[l.to].stopped > w.now {
			w.mail = append(w.mail, l)
			continue
		}
		w.deliver(l)
	}
	for i, n := range w.nodes {
		if n.stopped > w.now {
			continue
		}
		if w.rng.IntN(20) == 0 { // views differ: anybody may think that it should act
			w.claim(i, n)
		}
		if n.claim != nil && n.claim.Acts(n.clock(w.now), w.voters) {
			acting = append(acting, n.claim.Epoch)
			w.acted++
		}
	}
	return acting
}

func (w *world) claim(i int, n *simNode) {
	if n.claim == nil || w.rng.IntN(400) == 0 || n.highest > n.claim.Epoch.Number && w.rng.IntN(4) == 0 {
		n.highest++
		n.claim = NewClaim(Epoch{n.highest, n.id, n.incarnation})
	}
	for to := range w.nodes {
		w.send(letter{asked: n.clock(w.now), from: i, to: to, kind: 'a', epoch: n.claim.Epoch})
	}
}

func (w *world) deliver(l letter) {
	n := w.nodes[l.to]
	switch l.kind {
	case 'a':
		answer := letter{asked: l.asked, from: l.to, to: l.from, kind: 'y', epoch: l.epoch}
		if n.voter.Grant(l.epoch, n.clock(w.now)) != nil {
			answer.kind, answer.epoch = 'n', n.voter.Granted()
		}
		w.send(answer)
	case 'y':
		if n.claim != nil && n.claim.Epoch == l.epoch {
			n.claim.Answer(w.nodes[l.from].id, l.asked)
		}
	case 'n':
		n.highest = max(n.highest, l.epoch.Number)
	}
}

func (w *world) disturb() {
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	switch w.rng.IntN(600) {
	case 0: // a new life
		n.incarnation++
		n.claim, n.highest, n.voter = nil, 0, NewVoter(n.clock(w.now))
	case 1: // stopped for a while
		n.stopped = w.now + int64(w.rng.IntN(6000))*1e6
	case 2: // partition, perhaps in one direction only
		clear(w.cut)
		side := w.rng.Uint64()
		for a := range w.nodes {
			for b := range w.nodes {
				if side>>a&1 != side>>b&1 && (a < b || side>>63 == 0) {
					w.cut[[2]int{a, b}] = true
				}
			}
		}
	case 3, 4:
		clear(w.cut)
	}
}

func seed(t *testing.T) uint64 {
	s := uint64(time.Now().UnixNano())
	if text := os.Getenv("SLICER_SEED"); text != "" {
		var err error
		if s, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("SLICER_SEED=%d", s)
	return s
}

// Whatever happens, at most one incarnation of one node acts for a key at any moment.
func TestNeverTwoAct(t *testing.T) {
	first := seed(t)
	acted := 0
	for run := range uint64(20) {
		w := newWorld(first+run, 3+int(run%4))
		for range 6000 { // a minute
			if acting := w.step(); len(acting) > 1 {
				t.Fatalf("SLICER_SEED=%d: at %d ms %v act at once", first+run, w.now/1e6, acting)
			}
		}
		acted += w.acted
	}
	t.Logf("somebody acted in %d of %d steps", acted, 20*6000)
	if acted < 20*6000/10 {
		t.Errorf("somebody acted in only %d of %d steps: the test proves little", acted, 20*6000)
	}
}

// The worst that clocks may do: the claimant's is slow, the voter's fast, and no time passes on the way. There must be no moment for two.
func TestSlowClaimantEndsBeforeFastVoters(t *testing.T) {
	const slow, fast = 1000, 1000 + 10*MaxDriftPct // thousandths
	old, next := Epoch{1, "a", 1}, Epoch{2, "b", 1}
	v := &Voter{}
	if err := v.Grant(old, 0); err != nil {
		t.Fatal(err)
	}
	c := NewClaim(old)
	c.Answer("v", 0)
	acted := false
	for now := int64(0); ; now += 1e6 {
		acts := c.Acts(now*slow/1000, []gmg.NodeID{"v"})
		acted = acted || acts
		if v.Grant(next, now*fast/1000) == nil {
			if acts || !acted {
				t.Errorf("at %d ms the next epoch is granted, the old one acts: %v, it ever did: %v", now/1e6, acts, acted)
			}
			return
		}
	}
}
