package jinja

import (
	"cmp"
	"math/big"
	"strings"
)

// equal is Python's ==.
func (r *run) equal(a, b any) bool { return r.equalAt(a, b, 0) }

func (r *run) equalAt(a, b any, depth int) bool {
	tooDeep(depth)
	r.spend(nodeWork)
	if x, ok := textOf(a); ok {
		y, ok := textOf(b)
		r.spend(min(len(x), len(y)))
		return ok && x == y
	}
	if _, _, _, ok := number(a); ok {
		if _, _, _, ok := number(b); !ok {
			return false
		}
		order, ok := compareNumbers(a, b)
		return ok && order == 0
	}
	switch a := a.(type) {
	case nil:
		return b == nil
	case *big.Int:
		b, ok := b.(*big.Int)
		return ok && a.Cmp(b) == 0
	case *undefined:
		_, ok := b.(*undefined)
		return ok
	case *sequence:
		b, ok := b.(*sequence)
		if !ok || a.kind != b.kind || len(a.items) != len(b.items) {
			return false
		}
		for i, item := range a.items {
			if !r.equalAt(item, b.items[i], depth+1) {
				return false
			}
		}
		return true
	case *dict:
		b, ok := b.(*dict)
		if !ok || len(a.keys) != len(b.keys) {
			return false
		}
		for i, key := range a.keys {
			if v, ok := b.get(key); !ok || !r.equalAt(a.values[i], v, depth+1) {
				return false
			}
		}
		return true
	}
	return a == b
}

// compareNumbers orders two numbers; ok is false where one is not a number at all.
func compareNumbers(a, b any) (order int, ok bool) {
	n, f, isFloat, _ := number(a)
	m, g, otherFloat, _ := number(b)
	if !isFloat && !otherFloat {
		return cmp.Compare(n, m), true
	}
	if f != f || g != g {
		return 0, false
	}
	return cmp.Compare(f, g), true
}

// order is Python's ordering of two values; ok is false where neither is less nor are they equal. Values of different kinds cannot be ordered.
func (r *run) order(a, b any, depth int) (order int, ok bool) {
	tooDeep(depth)
	r.spend(nodeWork)
	if x, isText := textOf(a); isText {
		if y, isText := textOf(b); isText {
			r.spend(min(len(x), len(y)))
			return strings.Compare(x, y), true
		}
	}
	if _, _, _, isNumber := number(a); isNumber {
		if _, _, _, isNumber := number(b); isNumber {
			return compareNumbers(a, b)
		}
	}
	x, isSequence := a.(*sequence)
	y, alsoSequence := b.(*sequence)
	if !isSequence || !alsoSequence || x.kind != y.kind || x.kind > tupleKind {
		fail("'<' not supported between instances of '%s' and '%s'", typeName(a), typeName(b))
	}
	for i := range min(len(x.items), len(y.items)) {
		if !r.equalAt(x.items[i], y.items[i], depth+1) {
			return r.order(x.items[i], y.items[i], depth+1)
		}
	}
	return cmp.Compare(len(x.items), len(y.items)), true
}

// compare carries out a comparing operator.
func (r *run) compare(op string, a, b any) bool {
	switch op {
	case "==":
		return r.equal(a, b)
	case "!=":
		return !r.equal(a, b)
	case "in":
		return r.contains(b, a)
	case "not in":
		return !r.contains(b, a)
	}
	for _, v := range [...]any{a, b} {
		if u, isUndefined := v.(*undefined); isUndefined {
			fail("%s", u.message)
		}
	}
	order, ok := r.order(a, b, 0)
	switch op {
	case "<":
		return ok && order < 0
	case "<=":
		return ok && order <= 0
	case ">":
		return ok && order > 0
	}
	return ok && order >= 0
}

// contains is Python's "item in within".
func (r *run) contains(within, item any) bool {
	if text, ok := textOf(within); ok {
		part, ok := textOf(item)
		if !ok {
			fail("'in <string>' requires string as left operand, not %s", typeName(item))
		}
		r.spend(len(text))
		return strings.Contains(text, part)
	}
	if d, ok := within.(*dict); ok {
		_, found := d.get(item)
		return found
	}
	next := r.iterate(within)
	for v, ok := next(); ok; v, ok = next() {
		if r.equal(v, item) {
			return true
		}
	}
	return false
}
