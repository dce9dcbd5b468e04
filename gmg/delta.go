package gmg

import (
	"cmp"
	"fmt"
	"slices"
)

// Point is how far an owner's history is known: everything up to Seq of this incarnation that still counts.
type Point struct {
	Incarnation uint64
	Seq         uint64
}

// Before says whether p knows less than o.
func (p Point) Before(o Point) bool {
	return p.Incarnation < o.Incarnation || p.Incarnation == o.Incarnation && p.Seq < o.Seq
}

// Vector is a version vector: how far each owner's history is known.
type Vector map[NodeID]Point

// Span says that a delta holds every fact that still counts of an owner's sequence numbers in (After, Through]. A span without facts, with After and
// Through zero, raises the owner's incarnation, which is how the removal of a dead node travels.
type Span struct {
	Owner          NodeID
	Incarnation    uint64
	After, Through uint64
}

// Validate checks that a span is one.
func (s Span) Validate() error {
	if s.Owner == "" || s.After > s.Through || s.Incarnation > maxIncarnation+1 {
		return fmt.Errorf("%w: span (%d, %d] of %q, incarnation %d", ErrFact, s.After, s.Through, s.Owner, s.Incarnation)
	}
	return nil
}

// Delta is a list of facts, with the spans of their owners' histories that it completes. Merging one twice, or several in any order, gives the same facts.
type Delta struct {
	Facts []Fact // by owner, incarnation, sequence number
	Spans []Span // by owner
}

// Empty says that there is nothing in the delta.
func (d Delta) Empty() bool { return len(d.Facts) == 0 && len(d.Spans) == 0 }

// Gap is a hole in an owner's history: Have is known, the next that was seen begins after After. Whoever has the owner's facts fills it with
// DeltaSince.
type Gap struct {
	Owner NodeID
	Have  Point
	After Point
}

// Merged says what a merge did.
type Merged struct {
	Changed []Key // keys whose value was replaced, set or deleted, in order
	Lost    []Key // keys this store's owner wrote that another owner's fact now outranks: delete them or take them over
	Gaps    []Gap
	// Reincarnated says that the owner of this store was declared dead by others, or an earlier life of it came back; its facts were given a new
	// incarnation and wait in TakeDelta.
	Reincarnated bool
}

func sortFacts(facts []Fact) {
	slices.SortFunc(facts, func(a, b Fact) int {
		return cmp.Or(cmp.Compare(a.Version.Owner, b.Version.Owner), compareVersions(a.Version, b.Version))
	})
}

// Split cuts a delta into pieces whose facts' sizes add up to at most limit, but never less than one fact a piece. Each piece is a valid delta with the
// spans that it completes.
func (d Delta) Split(limit int, size func(*Fact) int) []Delta {
	facts := slices.Clone(d.Facts)
	sortFacts(facts)
	rest := make(map[NodeID]Span, len(d.Spans))
	for _, s := range d.Spans {
		rest[s.Owner] = s
	}
	var pieces []Delta
	var piece Delta
	var used int
	for i := range facts {
		f := &facts[i]
		n := size(f)
		if len(piece.Facts) > 0 && used+n > limit {
			pieces = append(pieces, piece.closed(rest, f.Version.Owner))
			piece, used = Delta{}, 0
		}
		piece.Facts = append(piece.Facts, *f)
		used += n
	}
	piece = piece.closed(rest, "")
	for _, s := range d.Spans { // owners without facts
		if left, ok := rest[s.Owner]; ok {
			piece.Spans = append(piece.Spans, left)
		}
	}
	slices.SortFunc(piece.Spans, func(a, b Span) int { return cmp.Compare(a.Owner, b.Owner) })
	if piece.Empty() {
		return pieces
	}
	return append(pieces, piece)
}

// closed returns the piece with the spans that its facts complete, and takes those from rest; next is the owner of the facts that follow.
func (d Delta) closed(rest map[NodeID]Span, next NodeID) Delta {
	for i := range d.Facts {
		owner := d.Facts[i].Version.Owner
		last := i+1 == len(d.Facts)
		if !last && d.Facts[i+1].Version.Owner == owner {
			continue
		}
		span, ok := rest[owner]
		if !ok {
			continue
		}
		if !last || owner != next {
			delete(rest, owner)
			d.Spans = append(d.Spans, span)
			continue
		}
		part := span
		part.Through = span.After
		if v := d.Facts[i].Version; v.Incarnation == span.Incarnation {
			part.Through = min(span.Through, max(span.After, v.Seq))
		}
		span.After = part.Through
		rest[owner] = span
		if part.After < part.Through {
			d.Spans = append(d.Spans, part)
		}
	}
	return d
}
