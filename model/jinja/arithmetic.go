package jinja

import (
	"math"
	"math/bits"
	"strings"
)

func overflow() { fail("an integer beyond 64 bits") }

func add(a, b int64) int64 {
	sum := a + b
	if (sum > a) != (b > 0) {
		overflow()
	}
	return sum
}

func subtract(a, b int64) int64 {
	difference := a - b
	if (difference < a) != (b > 0) {
		overflow()
	}
	return difference
}

func multiply(a, b int64) int64 {
	abs := func(n int64) uint64 {
		if n < 0 {
			return -uint64(n)
		}
		return uint64(n)
	}
	high, low := bits.Mul64(abs(a), abs(b))
	if high != 0 || low > math.MaxInt64 {
		overflow()
	}
	return a * b
}

// binary carries out an arithmetic operator.
func (r *run) binary(op string, a, b any) any {
	if isText(a) && op == "%" {
		return r.percent(a, b)
	}
	failUndefined(a)
	failUndefined(b)
	n, f, isFloat, ok := number(a)
	m, g, otherFloat, also := number(b)
	switch {
	case ok && also && (isFloat || otherFloat || op == "/"):
		return floatOperation(op, f, g)
	case ok && also:
		return integerOperation(op, n, m)
	}
	text, isString := textOf(a)
	switch op {
	case "+":
		if isString {
			return r.joinTexts(a, b)
		}
		x, isSequence := a.(*sequence)
		y, also := b.(*sequence)
		if isSequence && also && x.kind == y.kind && x.kind <= tupleKind {
			r.places(len(x.items) + len(y.items))
			return &sequence{kind: x.kind, items: append(append(make([]any, 0, len(x.items)+len(y.items)), x.items...), y.items...)}
		}
	case "*":
		if ok && !isFloat {
			a, b, m = b, a, n
			text, isString = textOf(a)
		}
		if _, _, isFloat, isNumber := number(b); isNumber && !isFloat {
			return r.repeated(a, text, isString, int(m))
		}
	}
	fail("unsupported operand types for %s: '%s' and '%s'", op, typeName(a), typeName(b))
	return nil
}

// joinTexts is a + b of a text; text that is added to markup is escaped.
func (r *run) joinTexts(a, b any) any {
	x, _ := textOf(a)
	y, ok := textOf(b)
	if !ok {
		fail(`can only concatenate str (not "%s") to str`, typeName(b))
	}
	_, safe := a.(markup)
	_, alsoSafe := b.(markup)
	switch {
	case safe && !alsoSafe:
		y = r.escape(y)
	case !safe && alsoSafe:
		x = r.escape(x)
	}
	r.text(len(x) + len(y))
	if safe || alsoSafe {
		return markup(x + y)
	}
	return x + y
}

func (r *run) repeated(v any, text string, isText bool, times int) any {
	times = max(times, 0)
	s, isSequence := v.(*sequence)
	size := len(text)
	if isSequence {
		size = len(s.items)
	}
	if size > 0 && times > r.limit/size {
		fail("a repetition of more than %d bytes or places", r.limit)
	}
	switch {
	case isText:
		r.text(size * times)
		return alike(v, strings.Repeat(text, times))
	case isSequence && s.kind <= tupleKind:
		r.places(size * times)
		out := make([]any, 0, size*times)
		for range times {
			if size == 0 {
				break
			}
			out = append(out, s.items...)
		}
		return &sequence{kind: s.kind, items: out}
	}
	fail("can't multiply '%s' by an integer", typeName(v))
	return nil
}

func floatOperation(op string, f, g float64) any {
	if g == 0 && (op == "/" || op == "//" || op == "%") {
		fail("division by zero")
	}
	switch op {
	case "+":
		return f + g
	case "-":
		return f - g
	case "*":
		return f * g
	case "/":
		return f / g
	case "//":
		return math.Floor(f / g)
	case "%":
		rest := math.Mod(f, g)
		if rest != 0 && (rest < 0) != (g < 0) {
			rest += g
		}
		return rest
	}
	if f == 0 && g < 0 || f < 0 && g != math.Trunc(g) {
		fail("a power that is not a real number")
	}
	return math.Pow(f, g)
}

func integerOperation(op string, n, m int64) any {
	switch op {
	case "+":
		return add(n, m)
	case "-":
		return subtract(n, m)
	case "*":
		return multiply(n, m)
	case "**":
		return power(n, m)
	}
	if m == 0 {
		fail("division by zero")
	}
	if n == math.MinInt64 && m == -1 {
		overflow()
	}
	quotient, rest := n/m, n%m
	if rest != 0 && (rest < 0) != (m < 0) {
		quotient, rest = quotient-1, rest+m
	}
	if op == "//" {
		return quotient
	}
	return rest
}

func power(n, m int64) any {
	if m < 0 {
		return floatOperation("**", float64(n), float64(m))
	}
	switch {
	case m == 0 || n == 1:
		return int64(1)
	case n == 0:
		return int64(0)
	case n == -1:
		return 1 - 2*(m%2)
	}
	out := int64(1)
	for range m { // at most 63 turns before it overflows
		out = multiply(out, n)
	}
	return out
}
