package jinja

import (
	"fmt"
	"math"
	"math/big"
	"strings"
)

// Values of templates are Go values: nil, bool, int64, *big.Int (numbers of JSON beyond 64 bits, which are only written), float64, string, and the types below.

// markup is a text that the filters safe and escape made: adding other text to it escapes that.
type markup string

type sequenceKind uint8

const (
	listKind sequenceKind = iota
	tupleKind
	rangeKind
	keysKind // what dicts' methods return: these have a length, but no places
	valuesKind
	itemsKind
)

// sequence is a list, a tuple or a view of a dict. It never changes.
type sequence struct {
	kind  sequenceKind
	items []any
	// group says that it is one of groupby's pairs, whose places have names.
	group bool
}

func list(items ...any) *sequence { return &sequence{kind: listKind, items: items} }

func tuple(items ...any) *sequence { return &sequence{kind: tupleKind, items: items} }

// indexed says whether places of the sequence can be asked for.
func (s *sequence) indexed() bool { return s.kind <= rangeKind }

// dict keeps the order in which its keys came.
type dict struct {
	keys, values []any
	index        map[any]int // by hashKey
}

func newDict() *dict { return &dict{index: make(map[any]int)} }

func (d *dict) set(key, value any) {
	h := hashKey(key)
	if i, ok := d.index[h]; ok {
		d.values[i] = value
		return
	}
	d.index[h] = len(d.keys)
	d.keys, d.values = append(d.keys, key), append(d.values, value)
}

func (d *dict) get(key any) (any, bool) {
	i, ok := d.index[hashKey(key)]
	if !ok {
		return nil, false
	}
	return d.values[i], true
}

// tupleKey is a tuple's hashKey.
type tupleKey string

// maxKeyParts is how many values a tuple that is a key may hold, in all tuples within it; keyPartBytes of text count as a value.
const (
	maxKeyParts  = 4096
	keyPartBytes = 256
)

// hashKey returns a comparable stand-in for a key: equal values have equal ones. Lists and dicts have none.
func hashKey(v any) any {
	parts := 0
	return hashPart(v, &parts)
}

func hashPart(v any, parts *int) any {
	*parts++
	if *parts > maxKeyParts {
		fail("a key of more than %d parts", maxKeyParts)
	}
	switch v := v.(type) {
	case bool:
		if v {
			return int64(1)
		}
		return int64(0)
	case markup:
		return string(v)
	case float64:
		if n := int64(v); float64(n) == v && math.Abs(v) < 1<<62 {
			return n
		}
		return v
	case *big.Int:
		return tupleKey("big " + v.String())
	case *undefined:
		return tupleKey("undefined")
	case *dict:
		fail("unhashable type: 'dict'")
	case *sequence:
		if v.kind == listKind || v.kind > rangeKind {
			fail("unhashable type: '%s'", typeName(v))
		}
		var out strings.Builder
		for _, item := range v.items {
			h := hashPart(item, parts)
			text := fmt.Sprint(h)
			*parts += len(text) / keyPartBytes
			fmt.Fprintf(&out, "%T%d:%s", h, len(text), text)
		}
		return tupleKey(out.String())
	}
	return v
}

// tooDeep bounds the nesting of data that is walked over.
func tooDeep(depth int) {
	if depth > maxData {
		fail("data nested more than %d deep", maxData)
	}
}

// undefined is what a name or a key gives that is not there. It prints as nothing; most other uses fail with the message.
type undefined struct{ message string }

// namespace is the one value that templates may change.
type namespace struct{ fields *dict }

// generator gives values one by one, once. They are not counted and have no places.
type generator struct{ next func() (any, bool) }

// function is a function or a method.
type function struct {
	name string
	call func(r *run, a *arguments) any
}

// typeName is the type's name in Python.
func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case markup:
		return "Markup"
	case *dict:
		return "dict"
	case *undefined:
		return "Undefined"
	case *namespace:
		return "Namespace"
	case *generator:
		return "generator"
	case *macro:
		return "Macro"
	case *loopContext:
		return "LoopContext"
	case *sequence:
		return [...]string{"list", "tuple", "range", "dict_keys", "dict_values", "dict_items"}[v.kind]
	}
	return "function"
}

// textOf returns a text's Go string.
func textOf(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case markup:
		return string(v), true
	}
	return "", false
}

// alike gives text the type that like has: what is made of markup is markup.
func alike(like any, text string) any {
	if _, ok := like.(markup); ok {
		return markup(text)
	}
	return text
}

func truth(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case *undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case markup:
		return v != ""
	case *sequence:
		return len(v.items) > 0
	case *dict:
		return len(v.keys) > 0
	}
	return true
}

// length returns len(v).
func (r *run) length(v any) int {
	switch v := v.(type) {
	case string:
		r.spend(len(v))
		return countRunes(v)
	case markup:
		r.spend(len(v))
		return countRunes(string(v))
	case *sequence:
		return len(v.items)
	case *dict:
		return len(v.keys)
	case *undefined:
		return 0
	case *loopContext:
		return v.length()
	}
	fail("object of type '%s' has no len()", typeName(v))
	return 0
}

// iterate returns a function that gives v's items one by one.
func (r *run) iterate(v any) func() (any, bool) {
	switch v := v.(type) {
	case *sequence:
		return over(v.items)
	case *dict:
		return over(v.keys)
	case *undefined:
		return over(nil)
	case *generator:
		return v.next
	case *loopContext:
		return v.iterate()
	}
	text, ok := textOf(v)
	if !ok {
		fail("'%s' object is not iterable", typeName(v))
	}
	return func() (any, bool) {
		if text == "" {
			return nil, false
		}
		c := text[:firstRune(text)]
		text = text[len(c):]
		return c, true
	}
}

func over(items []any) func() (any, bool) {
	at := 0
	return func() (any, bool) {
		if at == len(items) {
			return nil, false
		}
		at++
		return items[at-1], true
	}
}

// items returns all of v's items.
func (r *run) items(v any) []any {
	switch v := v.(type) {
	case *sequence:
		return v.items
	case *dict:
		return v.keys
	}
	var all []any
	next := r.iterate(v)
	for item, ok := next(); ok; item, ok = next() {
		r.places(1)
		all = append(all, item)
	}
	return all
}

// number returns a number as an integer or, if isFloat says so, as a float.
func number(v any) (n int64, f float64, isFloat, ok bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, 1, false, true
		}
		return 0, 0, false, true
	case int64:
		return v, float64(v), false, true
	case float64:
		return 0, v, true, true
	}
	return 0, 0, false, false
}

// integerOf returns an integer that an argument must be.
func integerOf(what string, v any) int {
	n, _, isFloat, ok := number(v)
	if !ok || isFloat {
		fail("%s must be an integer, got '%s'", what, typeName(v))
	}
	return int(n)
}
