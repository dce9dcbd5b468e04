package replica

import (
	"fmt"
	"slices"
	"testing"

	"slicescheduler/gmg"
)

// everywhere says whether all living nodes see a value.
func (s *sim) everywhere(owner gmg.NodeID, value int64) func() bool {
	return func() bool {
		return !slices.ContainsFunc(s.alive(), func(n *simNode) bool { return !n.sees(owner, value) })
	}
}

func TestSixteenNodesSeeAnUpdateWithin50Ms(t *testing.T) {
	s := clusterOf(t, seedOf(t), 16)
	worst := int64(0)
	for i := range 200 {
		n := s.alive()[i%16]
		s.put(n, int64(i+1))
		worst = max(worst, s.runUntil(50*ms, fmt.Sprintf("update %d is seen everywhere", i), s.everywhere(n.id, int64(i+1))))
		s.run(s.now + int64(s.rng.IntN(40))*ms)
	}
	t.Logf("at most %d ms", worst/ms)
}

func TestLossesAreRepaired(t *testing.T) {
	s := clusterOf(t, seedOf(t), 16)
	s.loss, s.repeat, s.delayNs, s.silent = 0.1, 0.1, 20*ms, true // gaps and reminders must do
	for i := range 100 {
		s.put(s.alive()[i%16], int64(i+1))
		s.run(s.now + int64(s.rng.IntN(20))*ms)
	}
	s.loss = 0.01
	took := s.runUntil(10*sec, "what was lost has come", s.converged)
	t.Logf("converged %d ms after the last update", took/ms)
}

// The last delta of an owner has no successor that would show that it was lost: the reminder does.
func TestLostLastDeltaIsNoticedByTheReminder(t *testing.T) {
	s := clusterOf(t, seedOf(t), 3)
	s.drop = func(_, _ gmg.NodeID, m *Message) bool { return m.Kind == KindDelta && len(m.Delta.Facts) > 0 }
	n := s.alive()[0]
	s.put(n, 1)
	s.run(s.now + 30*ms)
	s.drop = nil
	took := s.runUntil(300*ms, "the update is seen", s.everywhere(n.id, 1))
	t.Logf("repaired after %d ms", took/ms)
}

func TestTreeOfManyNodes(t *testing.T) {
	for _, size := range []int{33, 200, 1000} {
		members := names(size)
		roots, deepest, most := 0, 0, 0
		children := make(map[gmg.NodeID]int)
		for _, n := range members {
			depth := 0
			for at := n; ; depth++ {
				parent := parentOf(at, members, nil)
				if parent == "" {
					break
				}
				if at == n {
					children[parent]++
				}
				if at = parent; depth > size {
					t.Fatalf("%d nodes: %s is in a circle", size, n)
				}
			}
			if depth == 0 {
				roots++
			}
			deepest = max(deepest, depth)
		}
		for _, c := range children {
			most = max(most, c)
		}
		t.Logf("%d nodes: at most %d links deep, at most %d children", size, deepest, most)
		if roots != 1 || deepest > 8 || most > 80 {
			t.Errorf("%d nodes: %d roots, depth %d, %d children", size, roots, deepest, most)
		}
		moved := 0
		for _, n := range members {
			if parentOf(n, members, nil) != parentOf(n, append(slices.Clone(members), "new"), nil) {
				moved++
			}
		}
		if moved > 80 {
			t.Errorf("%d nodes: one more moves %d links", size, moved)
		}
		if p := parentOf(members[0], members, map[gmg.NodeID]int64{parentOf(members[0], members, nil): 1}); p == parentOf(members[0], members, nil) && p != "" {
			t.Error("a shunned parent is chosen")
		}
	}
}

// A thousand nodes that know each other; one more joins.
func TestThousandNodesConvergeAfterAJoin(t *testing.T) {
	size := 1000
	if testing.Short() {
		size = 150
	}
	s := newSim(t, seedOf(t))
	var all gmg.Delta
	for _, id := range names(size) {
		n := s.start(id, false)
		all = join(all, n.store.Snapshot().DeltaSince(nil))
		n.replica.Take()
	}
	for _, n := range s.alive() {
		if _, err := n.store.Merge(all); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range s.alive() {
		s.members(n)
	}
	s.run(3 * sec)
	if !s.converged() {
		t.Fatal("the cluster has not settled")
	}
	s.measure = true
	joiner := s.start("joiner", true)
	s.at(s.now+200*ms, func() { s.members(joiner) })
	took := s.runUntil(10*sec, "all know the joiner and it knows all", s.converged)
	most := int64(0)
	for _, n := range s.alive() {
		most = max(most, n.sent)
	}
	t.Logf("%d nodes converge %d ms after a join; no node sent more than %d KiB", size+1, took/ms, most>>10)
	s.put(joiner, 7)
	took = s.runUntil(sec, "its update is seen", s.everywhere("joiner", 7))
	t.Logf("an update is seen everywhere after %d ms", took/ms)
}

func TestDeadNodesFactsLeaveAndStayAway(t *testing.T) {
	s := clusterOf(t, seedOf(t), 5)
	victim, isolated := gmg.NodeID("n0000"), gmg.NodeID("n0004")
	s.put(s.nodes[victim], 1)
	s.runUntil(sec, "the fact is everywhere", s.everywhere(victim, 1))
	s.partition(func(a, b gmg.NodeID) bool { return a == isolated || b == isolated })
	s.run(s.now + 3*sec)
	s.kill(victim)
	died := s.now
	has := func(n *simNode) bool { _, found := n.store.Snapshot().Node(victim); return found }
	s.run(died + DeadAfterNs - sec)
	for _, n := range s.alive() {
		if !has(n) {
			t.Errorf("%s dropped the facts before the stated time", n.id)
		}
	}
	s.run(died + DeadAfterNs + 4*sec)
	for _, n := range s.alive() {
		if has(n) != (n.id == isolated) {
			t.Errorf("%s has the dead node's facts: %v", n.id, has(n))
		}
	}
	s.partition(nil) // the isolated one still holds the old copy
	s.check = func(n *simNode) {
		if n.id != isolated && has(n) {
			t.Errorf("%s: the dead node's facts are back", n.id)
			s.check = nil
		}
	}
	s.run(s.now + 15*sec)
	if s.check = nil; has(s.nodes[isolated]) {
		t.Error("the isolated node keeps the old copy")
	}
	s.start(victim, true)
	s.at(s.now+500*ms, func() { s.members(s.nodes[victim]) })
	s.put(s.nodes[victim], 2)
	s.runUntil(10*sec, "its new life is seen", s.everywhere(victim, 2))
}

func TestLeaverTakesItsFactsAlong(t *testing.T) {
	s := clusterOf(t, seedOf(t), 3)
	leaver := s.nodes["n0001"]
	old := leaver.store.Incarnation()
	leaver.dead = true
	n := s.nodes["n0000"]
	n.replica.Gone(leaver.id, old, s.now)
	s.members(n)
	s.run(s.now + 100*ms)
	for _, n := range s.alive() {
		if _, found := n.store.Snapshot().Node(leaver.id); found {
			t.Errorf("%s still has its facts", n.id)
		}
	}
	s.start(leaver.id, true)
	s.members(s.nodes[leaver.id])
	s.runUntil(5*sec, "it is back", s.converged)
	if changed := n.replica.Gone(leaver.id, old, s.now); len(changed) > 0 {
		t.Errorf("news of the old life's end removed the new life: %v", changed)
	}
}

// Both sides go on writing while they are apart; afterwards every tenant's spec is everywhere, and of two the later one.
func TestPartitionOfAMinuteHeals(t *testing.T) {
	s := clusterOf(t, seedOf(t), 16)
	left := func(n gmg.NodeID) bool { return n < "n0005" }
	s.partition(func(a, b gmg.NodeID) bool { return left(a) != left(b) })
	for i := range 60 {
		s.run(s.now + sec)
		n := s.alive()[s.rng.IntN(16)]
		s.put(n, int64(i))
		s.submit(n, fmt.Sprintf("t%d", i%20), fmt.Sprintf("m%d", i))
	}
	if s.converged() {
		t.Fatal("the partition let everything through")
	}
	for _, n := range s.alive() {
		if !left(n.id) {
			continue
		}
		if _, found := n.store.Snapshot().Node("n0009"); !found {
			t.Errorf("%s, in the minority, dropped the majority's facts", n.id)
		}
	}
	s.partition(nil)
	took := s.runUntil(20*sec, "one cluster again", s.converged)
	t.Logf("one cluster %d ms after the partition healed", took/ms)
	snapshot := s.alive()[0].store.Snapshot()
	if got := len(snapshot.Tenants()); got != 20 {
		t.Errorf("%d tenants, want 20", got)
	}
	if got := len(snapshot.Nodes()); got != 16 {
		t.Errorf("%d nodes, want 16", got)
	}
}

func TestConfirmedMeansKeptEverywhere(t *testing.T) {
	s := clusterOf(t, seedOf(t), 8)
	s.loss = 0.2
	n := s.alive()[3]
	for i := range 20 {
		s.submit(n, fmt.Sprintf("t%d", i), "m")
		seq := n.replica.Confirm(s.now)
		s.settle(n)
		took := s.runUntil(10*sec, "the spec is confirmed", func() bool { return n.replica.Confirmed(seq) })
		for _, other := range s.alive() {
			if _, found := other.store.Snapshot().Tenant(gmg.TenantID(fmt.Sprintf("t%d", i))); !found {
				t.Errorf("spec %d was confirmed after %d ms, and %s does not have it", i, took/ms, other.id)
			}
		}
	}
}

// Everything at once: kills, restarts, partitions, losses, repeats and delays. When peace comes, all hold the same, and nothing of the dead.
func TestChaosEndsInAgreement(t *testing.T) {
	first := seedOf(t)
	runs := 12
	if testing.Short() {
		runs = 3
	}
	for run := range uint64(runs) {
		t.Run(fmt.Sprint(first+run), func(t *testing.T) { chaos(t, first+run, 6+int(run%3)*16) })
	}
}

func chaos(t *testing.T, seed uint64, size int) {
	s := clusterOf(t, seed, size)
	s.loss, s.repeat, s.delayNs = 0.1, 0.1, 50*ms
	last := make(map[gmg.NodeID]int64)
	specs := make(map[string]bool)
	for i := range 300 {
		s.run(s.now + int64(s.rng.IntN(300))*ms)
		n := s.nodes[s.order[s.rng.IntN(size)]]
		switch {
		case n.dead && s.rng.IntN(3) == 0:
			n = s.start(n.id, true)
			s.at(s.now+sec, func() { s.members(n) })
			last[n.id] = 0
		case n.dead:
		case s.rng.IntN(12) == 0 && len(s.alive()) > size/2+1:
			s.kill(n.id)
		case s.rng.IntN(25) == 0:
			side := s.rng.Uint64()
			s.partition(func(a, b gmg.NodeID) bool {
				return side>>(a[len(a)-1]%16)&1 != side>>(b[len(b)-1]%16)&1
			})
		case s.rng.IntN(15) == 0:
			s.partition(nil)
		case s.rng.IntN(4) == 0:
			spec := fmt.Sprintf("t%d", i)
			s.submit(n, spec, "m")
			seq := n.replica.Confirm(s.now)
			if s.settle(n); len(s.alive()) > 1 && n.replica.Confirmed(seq) {
				specs[spec] = true
			}
		default:
			last[n.id] = int64(i)
			s.put(n, int64(i))
		}
	}
	s.loss, s.repeat = 0, 0
	s.partition(nil)
	s.run(s.now + DeadAfterNs + 5*sec)
	s.runUntil(60*sec, "all hold the same", s.converged)
	snapshot := s.alive()[0].store.Snapshot()
	for _, id := range s.order {
		n := s.nodes[id]
		if _, found := snapshot.Node(id); found == n.dead {
			t.Errorf("%s: dead %v, listed %v", id, n.dead, found)
		}
		if !n.dead && last[id] > 0 && !s.alive()[0].sees(id, last[id]) {
			t.Errorf("%s: its last update is missing", id)
		}
	}
	for spec := range specs {
		if _, found := snapshot.Tenant(gmg.TenantID(spec)); !found {
			t.Errorf("spec %s was confirmed and is lost", spec)
		}
	}
}

func TestSimulationRepeatsItself(t *testing.T) {
	trace := func() (out []string) {
		s := clusterOf(t, 5, 8)
		s.loss = 0.2
		s.check = func(n *simNode) { out = append(out, fmt.Sprint(s.now, n.id, n.store.Snapshot().Digest())) }
		for i := range 20 {
			s.put(s.alive()[i%8], int64(i))
			s.run(s.now + 30*ms)
		}
		return out
	}
	if a, b := trace(), trace(); !slices.Equal(a, b) || len(a) == 0 {
		t.Error("equal seeds gave two runs that differ")
	}
}
