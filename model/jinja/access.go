package jinja

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// attribute is v.name as the sandbox reads it: an attribute of the type first, then a dict's key.
func (r *run) attribute(v any, name string) any {
	failUndefined(v)
	if m, ok := r.member(v, name); ok {
		return m
	}
	if d, ok := v.(*dict); ok {
		if value, ok := d.get(name); ok {
			return value
		}
	}
	return noMember(v, name)
}

// item is v[index] as the sandbox reads it: a key or a place first, then an attribute of the type.
func (r *run) item(v, index any) any {
	failUndefined(v)
	name, isText := textOf(index)
	switch of := v.(type) {
	case *dict:
		if hashable(index) {
			if value, ok := of.get(index); ok {
				return value
			}
		}
	case *sequence:
		if n, _, isFloat, ok := number(index); ok && !isFloat && of.indexed() {
			if n < 0 {
				n += int64(len(of.items))
			}
			if n >= 0 && n < int64(len(of.items)) {
				return of.items[n]
			}
		}
	case string, markup:
		if n, _, isFloat, ok := number(index); ok && !isFloat {
			text, _ := textOf(v)
			r.spend(len(text))
			if at, ok := runeAt(text, n); ok {
				return alike(v, at)
			}
		}
	}
	if isText {
		if m, ok := r.member(v, name); ok {
			return m
		}
		return noMember(v, name)
	}
	return &undefined{message: fmt.Sprintf("'%s' has no element %.60s", typeName(v), r.repr(index))}
}

// hashable says whether a value may be a dict's key.
func hashable(v any) bool {
	if s, ok := v.(*sequence); ok {
		return s.kind == tupleKind || s.kind == rangeKind
	}
	_, isDict := v.(*dict)
	return !isDict
}

func noMember(v any, name string) any {
	if v == nil {
		return &undefined{message: fmt.Sprintf("None has no attribute '%.60s'", name)}
	}
	return &undefined{message: fmt.Sprintf("'%s object' has no attribute '%.60s'", typeName(v), name)}
}

// member returns a type's own attribute. Those that would change a value, and Python's insides, are there but may not be used.
func (r *run) member(v any, name string) (any, bool) {
	if strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__") {
		return &undefined{message: fmt.Sprintf("access to attribute '%.60s' of '%s' object is unsafe", name, typeName(v))}, true
	}
	var m method
	switch v := v.(type) {
	case string, markup:
		m = textMethods[name]
	case *dict:
		m = dictMethods[name]
	case *sequence:
		if field, ok := groupField(v, name); ok {
			return field, true
		}
		if v.indexed() {
			m = listMethods[name]
		}
		if v.kind == tupleKind && listChanges[name] {
			m = nil
		}
	case *namespace:
		value, ok := v.fields.get(name)
		return value, ok
	case *loopContext:
		return v.attribute(name)
	case *macro:
		if name == "name" {
			return v.of.name, true
		}
	case *cycler:
		return v.attribute(name)
	case int64, float64, bool:
		m = numberMethods[name]
	}
	if m == nil {
		return nil, false
	}
	_, isDict := v.(*dict)
	if isDict && dictChanges[name] || !isDict && listChanges[name] {
		return &undefined{message: fmt.Sprintf("access to attribute '%s' of '%s' object is unsafe", name, typeName(v))}, true
	}
	return &function{name, func(r *run, a *arguments) any { return m(r, v, a) }}, true
}

// slice is v[from:to:step].
func (r *run) slice(v, from, to, step any) any {
	failUndefined(v)
	by := 1
	if step != nil {
		by = integerOf("a slice's step", step)
	}
	if by == 0 {
		fail("slice step cannot be zero")
	}
	switch of := v.(type) {
	case *sequence:
		if !of.indexed() {
			break
		}
		start, stop := sliceBounds(len(of.items), from, to, by)
		r.places(sliceLength(start, stop, by))
		return &sequence{kind: of.kind, items: sliced(of.items, start, stop, by)}
	case string, markup:
		text, _ := textOf(v)
		r.spend(len(text))
		n := countRunes(text)
		start, stop := sliceBounds(n, from, to, by)
		if by == 1 {
			return alike(v, cutRunes(text, start, max(start, stop)))
		}
		r.text(4 * n)
		return alike(v, string(sliced([]rune(text), start, stop, by)))
	}
	fail("'%s' object cannot be sliced", typeName(v))
	return nil
}

// sliceBounds resolves bounds as Python does.
func sliceBounds(n int, from, to any, by int) (start, stop int) {
	low, high := 0, n
	if by < 0 {
		low, high = -1, n-1
	}
	bound := func(v any, def int) int {
		if v == nil {
			return def
		}
		at := integerOf("a slice's bound", v)
		if at < 0 {
			at = max(at, math.MinInt/2) + n
		}
		return min(max(at, low), high)
	}
	if by < 0 {
		return bound(from, high), bound(to, low)
	}
	return bound(from, low), bound(to, high)
}

func sliceLength(start, stop, by int) int {
	if by > 0 && stop > start {
		return (stop-start-1)/by + 1
	}
	if by < 0 && start > stop {
		return (start-stop-1)/-max(by, -math.MaxInt) + 1
	}
	return 0
}

func sliced[T any](from []T, start, stop, by int) []T {
	out := make([]T, sliceLength(start, stop, by))
	for i := range out {
		out[i] = from[start+i*by]
	}
	return out
}

func countRunes(text string) int { return utf8.RuneCountInString(text) }

func firstRune(text string) int {
	_, size := utf8.DecodeRuneInString(text)
	return size
}

// runeAt returns the character at a place, counted from the end if negative.
func runeAt(text string, at int64) (string, bool) {
	if at < 0 {
		for text != "" {
			_, size := utf8.DecodeLastRuneInString(text)
			at++
			if at == 0 {
				return text[len(text)-size:], true
			}
			text = text[:len(text)-size]
		}
		return "", false
	}
	for text != "" {
		size := firstRune(text)
		if at == 0 {
			return text[:size], true
		}
		at--
		text = text[size:]
	}
	return "", false
}

// cutRunes returns the characters from start up to stop.
func cutRunes(text string, start, stop int) string {
	from, at := 0, 0
	for i := range text {
		if at == start {
			from = i
		}
		if at == stop {
			if start == stop {
				return ""
			}
			return text[from:i]
		}
		at++
	}
	if start >= at {
		return ""
	}
	return text[from:]
}
