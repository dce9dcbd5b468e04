package jinja

import (
	"math"
	"net/url"
	"strconv"
	"strings"
	"unicode"
)

// filter is what stands behind "|".
type filter func(r *run, v any, a *arguments) any

// filters are Jinja2's filters, without those that draw random numbers or write HTML. They are set by init, since some look others up.
var filters map[string]filter

func init() {
	filters = map[string]filter{
		"abs": absFilter, "attr": attrFilter, "batch": batchFilter, "slice": sliceFilter, "capitalize": viaText("capitalize"), "center": centerFilter,
		"count": lengthFilter, "length": lengthFilter, "d": defaultFilter, "default": defaultFilter, "dictsort": dictSortFilter, "e": escapeFilter, "escape": escapeFilter,
		"first": firstFilter, "last": lastFilter, "float": floatFilter, "int": intFilter, "forceescape": forceEscapeFilter, "format": formatFilter,
		"groupby": groupByFilter, "indent": indentFilter, "items": itemsFilter, "join": joinFilter, "list": listFilter, "lower": viaText("lower"), "upper": viaText("upper"),
		"map": mapFilter, "max": extremeFilter(">"), "min": extremeFilter("<"), "reject": selectFilter(false, false), "rejectattr": selectFilter(false, true),
		"select": selectFilter(true, false), "selectattr": selectFilter(true, true), "replace": replaceFilter, "reverse": reverseFilter, "round": roundFilter,
		"safe": safeFilter, "sort": sortFilter, "string": stringFilter, "sum": sumFilter, "title": titleFilter, "tojson": toJSON, "trim": trimFilter,
		"truncate": truncateFilter, "unique": uniqueFilter, "urlencode": urlEncodeFilter, "wordcount": wordCountFilter,
	}
}

// soft is v as a text; markup stays markup.
func (r *run) soft(v any) any {
	if isText(v) {
		return v
	}
	return r.str(v)
}

// viaText makes a filter of a text's method.
func viaText(name string) filter {
	return func(r *run, v any, a *arguments) any { return textMethods[name](r, r.soft(v), a) }
}

func absFilter(_ *run, v any, a *arguments) any {
	a.bind("abs")
	n, f, isFloat, ok := number(v)
	switch {
	case !ok:
		fail("bad operand type for abs(): '%s'", typeName(v))
	case isFloat:
		return math.Abs(f)
	case n < 0:
		return subtract(0, n)
	}
	return n
}

func attrFilter(r *run, v any, a *arguments) any {
	name := textArgument("attr", a.bind("attr", "name")[0])
	failUndefined(v)
	if m, ok := r.member(v, name); ok {
		return m
	}
	return noMember(v, name)
}

func centerFilter(r *run, v any, a *arguments) any {
	v = r.soft(v)
	text, _ := textOf(v)
	return alike(v, r.padded(text, integerOf("width", or(a.bind("center", "width=")[0], int64(80))), " ", 1, 1))
}

func lengthFilter(r *run, v any, a *arguments) any {
	a.bind("length")
	return int64(r.length(v))
}

func defaultFilter(_ *run, v any, a *arguments) any {
	args := a.bind("default", "default_value=", "boolean=")
	if isUndefined(v) || truth(or(args[1], false)) && !truth(v) {
		return or(args[0], "")
	}
	return v
}

var htmlEscapes = strings.NewReplacer("&", "&amp;", ">", "&gt;", "<", "&lt;", "'", "&#39;", "\"", "&#34;")

func (r *run) escape(text string) string {
	const longest = 5
	r.text(longest * len(text))
	return htmlEscapes.Replace(text)
}

func escapeFilter(r *run, v any, a *arguments) any {
	a.bind("escape")
	if m, ok := v.(markup); ok {
		return m
	}
	return markup(r.escape(r.str(v)))
}

func forceEscapeFilter(r *run, v any, a *arguments) any {
	a.bind("forceescape")
	return markup(r.escape(r.str(v)))
}

func safeFilter(r *run, v any, a *arguments) any {
	a.bind("safe")
	return markup(r.str(v))
}

func stringFilter(r *run, v any, a *arguments) any {
	a.bind("string")
	return r.soft(v)
}

func floatFilter(r *run, v any, a *arguments) any {
	def := or(a.bind("float", "default=")[0], 0.0)
	if text, ok := textOf(v); ok {
		f, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimFunc(text, isSpace), "_", ""), 64)
		if err != nil && !math.IsInf(f, 0) {
			return def
		}
		return f
	}
	failUndefined(v)
	if _, f, _, ok := number(v); ok {
		return f
	}
	return def
}

func intFilter(r *run, v any, a *arguments) any {
	args := a.bind("int", "default=", "base=")
	def := or(args[0], int64(0))
	text, isText := textOf(v)
	n, f, isFloat, isNumber := number(v)
	switch {
	case isText:
		text = strings.TrimFunc(text, isSpace)
		base := integerOf("base", or(args[1], int64(10)))
		if base < 0 || base == 1 || base > 36 {
			return def
		}
		if n, err := strconv.ParseInt(strings.ReplaceAll(withoutPrefix(text, base), "_", ""), base, 64); err == nil {
			return n
		}
		if f, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(f, 0) && f == f {
			return wholeOf(f)
		}
		return def
	case isNumber && isFloat:
		if f != f || math.IsInf(f, 0) {
			return def
		}
		return wholeOf(f)
	case isNumber:
		return n
	}
	failUndefined(v)
	return def
}

// withoutPrefix takes 0x and the like off, which Python allows before digits of that base.
func withoutPrefix(text string, base int) string {
	prefix := map[int]string{16: "0x", 8: "0o", 2: "0b"}[base]
	if prefix != "" && len(text) > 2 && strings.EqualFold(text[:2], prefix) {
		return text[2:]
	}
	return text
}

func formatFilter(r *run, v any, a *arguments) any {
	var values any = &sequence{kind: tupleKind, items: a.plain}
	if len(a.names) > 0 {
		if len(a.plain) > 0 {
			fail("can't handle positional and keyword arguments at the same time")
		}
		values = dictOf(r, a)
	}
	return r.percent(r.soft(v), values)
}

func indentFilter(r *run, v any, a *arguments) any {
	args := a.bind("indent", "width=", "first=", "blank=")
	indention, ok := textOf(or(args[0], int64(4)))
	if !ok {
		width := integerOf("width", or(args[0], int64(4)))
		indention = r.padded("", width, " ", 1, 0)
	}
	text := textArgument("indent", v)
	r.spend(len(text))
	lines := r.splitLines(text+"\n", false)
	r.text(len(text) + len(lines)*(len(indention)+1))
	var out strings.Builder
	if truth(or(args[1], false)) {
		out.WriteString(indention)
	}
	for i, line := range lines {
		if i > 0 {
			out.WriteByte('\n')
			if line != "" || truth(or(args[2], false)) {
				out.WriteString(indention)
			}
		}
		out.WriteString(line)
	}
	return alike(v, out.String())
}

func joinFilter(r *run, v any, a *arguments) any {
	args := a.bind("join", "d=", "attribute=")
	sep := r.str(or(args[0], ""))
	read := r.reader(or(args[1], nil), false, nil)
	var out strings.Builder
	next := r.iterate(v)
	for i := 0; ; i++ {
		item, ok := next()
		if !ok {
			return out.String()
		}
		text := r.str(read(item))
		before := out.Len()
		r.text(len(text))
		if i > 0 {
			out.WriteString(sep)
		}
		out.WriteString(text)
		r.grown(&out, before)
	}
}

func replaceFilter(r *run, v any, a *arguments) any {
	args := a.bind("replace", "old", "new", "count=")
	count := -1
	if c := or(args[2], nil); c != nil {
		count = integerOf("count", c)
	}
	return r.replace(r.str(v), r.str(args[0]), r.str(args[1]), count)
}

func roundFilter(_ *run, v any, a *arguments) any {
	args := a.bind("round", "precision=", "method=")
	precision := integerOf("precision", or(args[0], int64(0)))
	n, f, isFloat, ok := number(v)
	if !ok {
		fail("round of a value of type '%s'", typeName(v))
	}
	scale := math.Pow(10, float64(precision))
	switch textArgument("round", or(args[1], "common")) {
	case "ceil":
		return math.Ceil(f*scale) / scale
	case "floor":
		return math.Floor(f*scale) / scale
	case "common":
	default:
		fail("method must be common, ceil or floor")
	}
	if !isFloat {
		return roundInteger(n, precision)
	}
	if precision >= 0 && precision < 300 {
		rounded, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', precision, 64), 64) // to the nearest, as exact decimals
		return rounded
	}
	return math.RoundToEven(f*scale) / scale
}

// roundInteger rounds to a power of ten, halves to the even one.
func roundInteger(n int64, precision int) int64 {
	if precision >= 0 {
		return n
	}
	if precision < -18 {
		return 0
	}
	unit := int64(math.Pow10(-precision))
	down := n - n%unit
	if n%unit < 0 {
		down -= unit
	}
	switch rest := n - down; {
	case rest > unit-rest, rest == unit-rest && down/unit%2 != 0:
		return add(down, unit)
	}
	return down
}

// titleFilter is Jinja2's own title: words begin behind white space, hyphens and opening brackets.
func titleFilter(r *run, v any, a *arguments) any {
	a.bind("title")
	text := r.str(v)
	r.text(4 * len(text))
	separator := func(c rune) bool { return isSpace(c) || strings.ContainsRune("-({[<", c) }
	var out strings.Builder
	begin := true
	for text != "" {
		c := text[:firstRune(text)]
		r, _ := utf8Rune(c)
		switch {
		case separator(r):
			out.WriteString(c)
			begin = true
			text = text[len(c):]
		default:
			end := strings.IndexFunc(text, separator)
			if end < 0 {
				end = len(text)
			}
			if begin {
				out.WriteString(upper(c))
				out.WriteString(lower(text[len(c):end]))
			}
			begin = false
			text = text[end:]
		}
	}
	return out.String()
}

func utf8Rune(c string) (rune, bool) {
	for _, r := range c {
		return r, true
	}
	return unicode.ReplacementChar, false
}

func trimFilter(r *run, v any, a *arguments) any {
	chars := or(a.bind("trim", "chars=")[0], nil)
	v = r.soft(v)
	text, _ := textOf(v)
	r.spend(len(text))
	return alike(v, trimmed(text, chars, true, true))
}

func truncateFilter(r *run, v any, a *arguments) any {
	args := a.bind("truncate", "length=", "killwords=", "end=", "leeway=")
	length, end := integerOf("length", or(args[0], int64(255))), textArgument("truncate", or(args[2], "..."))
	leeway := 5
	if l := or(args[3], nil); l != nil {
		leeway = integerOf("leeway", l)
	}
	keep := length - countRunes(end)
	if keep < 0 || leeway < 0 {
		fail("expected length >= %d and leeway >= 0", countRunes(end))
	}
	if r.length(v) <= length+leeway {
		return v
	}
	text := textArgument("truncate", v)
	r.text(len(text) + len(end))
	text = cutRunes(text, 0, keep)
	if !truth(or(args[1], false)) {
		if at := strings.LastIndexByte(text, ' '); at >= 0 {
			text = text[:at]
		}
	}
	return text + end
}

func urlEncodeFilter(r *run, v any, a *arguments) any {
	a.bind("urlencode")
	quote := func(v any, query bool) string {
		const longest = 3
		text := r.str(v)
		r.text(longest * len(text))
		out := strings.ReplaceAll(strings.ReplaceAll(url.QueryEscape(text), "+", "%20"), "%2F", "/")
		if query {
			out = strings.ReplaceAll(strings.ReplaceAll(out, "/", "%2F"), "%20", "+")
		}
		return strings.ReplaceAll(out, "%7E", "~")
	}
	if isText(v) || !isIterable(v) {
		return quote(v, false)
	}
	pairs := v
	if d, ok := v.(*dict); ok {
		pairs = list(r.pairs(d)...)
	}
	var out []string
	for _, item := range r.items(pairs) {
		pair := r.items(item)
		if len(pair) != 2 {
			fail("urlencode takes pairs")
		}
		out = append(out, quote(pair[0], true)+"="+quote(pair[1], true))
	}
	return strings.Join(out, "&")
}

func wordCountFilter(r *run, v any, a *arguments) any {
	a.bind("wordcount")
	text := r.str(v)
	r.spend(len(text))
	return wordCount(text)
}
