package gmg

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// register is the place of one fact: shared facts have one for each key, others one for each key and owner.
type register struct {
	key   Key
	owner NodeID
}

func registerOf(f *Fact) register {
	if f.Key.Kind.Shared() {
		return register{key: f.Key}
	}
	return register{key: f.Key, owner: f.Version.Owner}
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.ID, b.ID))
}

func compareRegisters(a, b register) int {
	return cmp.Or(compareKeys(a.key, b.key), strings.Compare(string(a.owner), string(b.owner)))
}

func hashRegister(r register) uint64 {
	h := newHash64()
	h.byte(byte(r.key.Kind))
	h.string(r.key.ID)
	h.string(string(r.owner))
	return h.sum()
}

func compareNodes(a, b NodeID) int { return strings.Compare(string(a), string(b)) }

func hashNode(n NodeID) uint64 {
	h := newHash64()
	h.string(string(n))
	return h.sum()
}

// Store is one node's copy of the GMG: its own facts, which it alone writes, and what it has merged of the others'. It has a single owner and no locks;
// Snapshot gives views that any goroutine may read.
type Store struct {
	self        NodeID
	incarnation uint64
	seq         uint64
	taken       uint64 // sequence number up to which TakeDelta has handed out
	clock       Clock
	facts       tree[register, *Fact]
	vector      tree[NodeID, Point]
	digest      uint64
	pending     map[register]struct{}
	snapshot    *Snapshot // of the present state, nil after a change
}

// NewStore returns an empty store. The incarnation must exceed those of the node's earlier lives: the start time in nanoseconds serves.
func NewStore(self NodeID, incarnation uint64) *Store {
	s := &Store{
		self:        self,
		incarnation: incarnation,
		clock:       Clock{Node: self},
		facts:       tree[register, *Fact]{order: compareRegisters, hash: hashRegister},
		vector:      tree[NodeID, Point]{order: compareNodes, hash: hashNode},
		pending:     make(map[register]struct{}),
	}
	s.vector.put(self, Point{Incarnation: incarnation})
	return s
}

// Owner returns the node whose facts this store writes.
func (s *Store) Owner() NodeID { return s.self }

// Incarnation returns the incarnation under which it writes now.
func (s *Store) Incarnation() uint64 { return s.incarnation }

// Put sets a fact of this node. A key that another node holds is ErrNotOwner; see TakeOver. Shared kinds go through PutShared. A value that others
// couldn't read (a graph that contradicts itself, a bandwidth that is not a number) is ErrFact or ErrGraph.
func (s *Store) Put(v Value) error { return s.putOwned(v, false) }

// TakeOver is Put for a key that another node may hold: from now on this node's value is the one that is seen.
func (s *Store) TakeOver(v Value) error { return s.putOwned(v, true) }

func (s *Store) putOwned(v Value, force bool) error {
	key := v.Key()
	if key.Kind.Shared() {
		return fmt.Errorf("%w: put %v", ErrFact, key)
	}
	f := &Fact{Key: key, Value: v.clone()}
	if seen := visible(&s.facts, key); seen != nil {
		f.Claim = seen.Claim
		if seen.Version.Owner != s.self {
			if !seen.Deleted && !force {
				return fmt.Errorf("%w: %v belongs to %s", ErrNotOwner, key, seen.Version.Owner)
			}
			f.Claim++
		}
	}
	_, err := s.write(f)
	return err
}

// Delete withdraws a fact of this node; deleting what it doesn't hold does nothing.
func (s *Store) Delete(key Key) error {
	if key.Kind.Shared() {
		return fmt.Errorf("%w: delete %v", ErrFact, key)
	}
	old, ok := s.facts.get(register{key, s.self})
	if !ok || old.Deleted {
		return nil
	}
	_, err := s.write(&Fact{Key: key, Claim: old.Claim, Deleted: true})
	return err
}

// PutShared sets a shared fact and returns it, for the disk. nowNs is wall time.
func (s *Store) PutShared(v Value, nowNs int64) (Fact, error) {
	key := v.Key()
	if !key.Kind.Shared() {
		return Fact{}, fmt.Errorf("%w: put shared %v", ErrFact, key)
	}
	return s.write(&Fact{Key: key, Stamp: s.clock.Next(nowNs), Value: v.clone()})
}

// DeleteShared leaves a tombstone for a shared fact and returns it, for the disk.
func (s *Store) DeleteShared(key Key, nowNs int64) (Fact, error) {
	if !key.Kind.Shared() {
		return Fact{}, fmt.Errorf("%w: delete shared %v", ErrFact, key)
	}
	return s.write(&Fact{Key: key, Stamp: s.clock.Next(nowNs), Deleted: true})
}

// Restore takes in shared facts that were read from disk. They keep their stamps, so a newer one seen meanwhile wins, but travel as this node's.
func (s *Store) Restore(facts []Fact) error {
	for i := range facts {
		f := facts[i]
		if !f.Key.Kind.Shared() {
			return fmt.Errorf("%w: restore %v: only shared facts are kept on disk", ErrFact, f.Key)
		}
		if err := f.Validate(); err != nil {
			return err
		}
		s.clock.Observe(f.Stamp)
		if old, ok := s.facts.get(registerOf(&f)); !ok || f.Stamp.Compare(old.Stamp) > 0 {
			if _, err := s.write(&f); err != nil {
				return err
			}
		}
	}
	return nil
}

// write gives a fact the next version of this node and stores it, if it is valid.
func (s *Store) write(f *Fact) (Fact, error) {
	f.Version = Version{Owner: s.self, Incarnation: s.incarnation, Seq: s.seq + 1}
	if err := f.Validate(); err != nil {
		return Fact{}, err
	}
	s.seq++
	s.replace(f)
	s.vector.put(s.self, Point{s.incarnation, s.seq})
	s.pending[registerOf(f)] = struct{}{}
	s.checkInvariants()
	return *f, nil
}

// replace stores a fact in its register, whatever is there.
func (s *Store) replace(f *Fact) {
	r := registerOf(f)
	if old, ok := s.facts.get(r); ok {
		s.digest -= old.hash()
	}
	s.digest += f.hash()
	s.facts.put(r, f)
	s.snapshot = nil
}

// TakeDelta returns this node's facts written since the last call, each key once, with the span they complete. It is empty when nothing was.
func (s *Store) TakeDelta() Delta {
	if s.taken == s.seq {
		return Delta{}
	}
	d := Delta{Spans: []Span{{Owner: s.self, Incarnation: s.incarnation, After: s.taken, Through: s.seq}}}
	for r := range s.pending {
		if f, ok := s.facts.get(r); ok && f.Version.Owner == s.self {
			d.Facts = append(d.Facts, *f)
		}
	}
	sortFacts(d.Facts)
	clear(s.pending)
	s.taken = s.seq
	return d
}

// RemoveOwner drops the facts of a dead node's incarnation and all before it, for good: copies of them that come later are refused. Shared facts stay.
// It returns the keys that changed; the removal reaches other nodes with DeltaSince, or at once by Removal. What stays is the owner's point in the
// vector, some 100 bytes, so that nothing old comes back.
func (s *Store) RemoveOwner(owner NodeID, incarnation uint64) []Key {
	if owner == s.self {
		return nil
	}
	changed := make(map[Key]struct{})
	s.raise(owner, incarnation+1, changed)
	return sortedKeys(changed)
}

// Removal returns the delta that removes a dead node's facts elsewhere.
func Removal(owner NodeID, incarnation uint64) Delta {
	return Delta{Spans: []Span{{Owner: owner, Incarnation: incarnation + 1}}}
}

// raise makes incarnation the lowest whose facts count for an owner.
func (s *Store) raise(owner NodeID, incarnation uint64, changed map[Key]struct{}) {
	p, known := s.vector.get(owner)
	if known && p.Incarnation >= incarnation {
		return
	}
	s.vector.put(owner, Point{Incarnation: incarnation})
	s.snapshot = nil
	if !known {
		return // nor are there facts of it: each fact's owner is in the vector
	}
	var dead []register
	s.facts.ascend(register{}, func(r register, f *Fact) bool {
		if r.owner == owner && f.Version.Incarnation < incarnation {
			dead = append(dead, r)
			changed[r.key] = struct{}{}
			s.digest -= f.hash()
		}
		return true
	})
	for _, r := range dead {
		s.facts.remove(r)
	}
	s.checkInvariants()
}

// Reincarnate gives this node's facts a new incarnation and new sequence numbers. Its tombstones end with the old incarnation, so it also bounds their
// number.
func (s *Store) Reincarnate(incarnation uint64) error {
	if incarnation <= s.incarnation {
		return fmt.Errorf("%w: incarnation %d of %s is not above %d", ErrFact, incarnation, s.self, s.incarnation)
	}
	var mine []*Fact
	s.facts.ascend(register{}, func(r register, f *Fact) bool {
		if f.Version.Owner == s.self && (r.owner == "" || !f.Deleted) {
			mine = append(mine, f)
		}
		return true
	})
	s.raise(s.self, incarnation, make(map[Key]struct{}))
	s.incarnation, s.seq, s.taken = incarnation, 0, 0
	clear(s.pending)
	for _, f := range mine {
		again := *f
		if _, err := s.write(&again); err != nil {
			return err
		}
	}
	return nil
}

// Snapshot returns an immutable view of the present state. Its cost doesn't depend on the number of facts; unchanged state gives the same snapshot.
func (s *Store) Snapshot() *Snapshot {
	if s.snapshot == nil {
		s.snapshot = &Snapshot{facts: s.facts.freeze(), vector: s.vector.freeze(), digest: s.digest}
	}
	return s.snapshot
}

// AheadNs returns by how much shared facts' stamps run ahead of this node's wall clock.
func (s *Store) AheadNs(nowNs int64) int64 { return s.clock.AheadNs(nowNs) }

func sortedKeys(set map[Key]struct{}) []Key {
	keys := make([]Key, 0, len(set))
	for k := range set {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compareKeys)
	return keys
}
