package jinja

import (
	"math/big"
	"strings"
	"unicode"
)

// test is what stands behind "is".
type test func(r *run, v any, a *arguments) bool

// kindTest makes a test without arguments.
func kindTest(is func(v any) bool) test {
	return func(_ *run, v any, a *arguments) bool {
		a.bind("the test")
		return is(v)
	}
}

func comparison(op string) test {
	return func(r *run, v any, a *arguments) bool { return r.compare(op, v, a.bind("the test", "other")[0]) }
}

// leaves says whether v % by is rest.
func (r *run) leaves(v any, by, rest int64) bool { return r.equal(r.binary("%", v, by), rest) }

func isUndefined(v any) bool {
	_, ok := v.(*undefined)
	return ok
}

func isText(v any) bool {
	_, ok := textOf(v)
	return ok
}

func isInteger(v any) bool {
	switch v.(type) {
	case int64, *big.Int:
		return true
	}
	return false
}

func isBoolean(v any) bool {
	_, ok := v.(bool)
	return ok
}

func isFloat(v any) bool {
	_, ok := v.(float64)
	return ok
}

func isMapping(v any) bool {
	_, ok := v.(*dict)
	return ok
}

func isSequence(v any) bool {
	if s, ok := v.(*sequence); ok {
		return s.indexed()
	}
	return isText(v) || isMapping(v) || isUndefined(v)
}

func isIterable(v any) bool {
	switch v.(type) {
	case *sequence, *generator, *loopContext:
		return true
	}
	return isText(v) || isMapping(v) || isUndefined(v)
}

func isCallable(v any) bool {
	switch v.(type) {
	case *function, *macro, *loopContext, *undefined:
		return true
	}
	return false
}

// same is Python's "is" as far as it can be told.
func same(a, b any) bool {
	if typeName(a) != typeName(b) {
		return false
	}
	switch a := a.(type) {
	case nil, bool, int64, float64, string, markup:
		return a == b
	}
	return a == b
}

// textCase makes upper and lower: the text has cased characters and none of the other case.
func textCase(name string) test {
	return func(r *run, v any, a *arguments) bool {
		a.bind("the test")
		return truth(textMethods[name](r, r.str(v), a))
	}
}

// tests are Jinja2's tests. They are set by init, since some look others up.
var tests map[string]test

func init() {
	tests = map[string]test{
		"defined":   kindTest(func(v any) bool { return !isUndefined(v) }),
		"undefined": kindTest(isUndefined), "none": kindTest(func(v any) bool { return v == nil }),
		"boolean": kindTest(isBoolean), "true": kindTest(func(v any) bool { return v == true }), "false": kindTest(func(v any) bool { return v == false }),
		"integer": kindTest(isInteger), "float": kindTest(isFloat), "number": kindTest(func(v any) bool { return isInteger(v) || isFloat(v) || isBoolean(v) }),
		"string": kindTest(isText), "mapping": kindTest(isMapping), "sequence": kindTest(isSequence), "iterable": kindTest(isIterable), "callable": kindTest(isCallable),
		"escaped": kindTest(func(v any) bool { _, ok := v.(markup); return ok }),
		"odd":     func(r *run, v any, _ *arguments) bool { return r.leaves(v, 2, 1) },
		"even":    func(r *run, v any, _ *arguments) bool { return r.leaves(v, 2, 0) },
		"divisibleby": func(r *run, v any, a *arguments) bool {
			return r.leaves(v, int64(integerOf("the divisor", a.bind("divisibleby", "num")[0])), 0)
		},
		"eq": comparison("=="), "equalto": comparison("=="), "==": comparison("=="), "ne": comparison("!="), "!=": comparison("!="),
		"lt": comparison("<"), "lessthan": comparison("<"), "<": comparison("<"), "le": comparison("<="), "<=": comparison("<="),
		"gt": comparison(">"), "greaterthan": comparison(">"), ">": comparison(">"), "ge": comparison(">="), ">=": comparison(">="),
		"in": comparison("in"), "sameas": func(_ *run, v any, a *arguments) bool { return same(v, a.bind("sameas", "other")[0]) },
		"upper": textCase("isupper"), "lower": textCase("islower"),
		"filter": func(r *run, v any, _ *arguments) bool { _, ok := filters[r.str(v)]; return ok },
		"test":   func(r *run, v any, _ *arguments) bool { _, ok := tests[r.str(v)]; return ok },
	}
}

// wordCount counts runs of letters, digits and underscores.
func wordCount(text string) int64 {
	n := int64(0)
	for range strings.FieldsFuncSeq(text, func(c rune) bool { return !isWord(c) && !unicode.IsMark(c) }) {
		n++
	}
	return n
}
