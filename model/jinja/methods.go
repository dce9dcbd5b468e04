package jinja

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// method is a method of a value.
type method func(r *run, self any, a *arguments) any

// dictChanges and listChanges are the methods that the sandbox keeps templates from.
var (
	dictChanges = map[string]bool{"clear": true, "pop": true, "popitem": true, "setdefault": true, "update": true}
	listChanges = map[string]bool{"append": true, "clear": true, "extend": true, "insert": true, "pop": true, "remove": true, "reverse": true, "sort": true}
)

func refused(*run, any, *arguments) any { return nil }

var dictMethods = map[string]method{
	"get": func(r *run, self any, a *arguments) any {
		args := a.bind("get", "key", "default=")
		if v, ok := self.(*dict).get(args[0]); ok {
			return v
		}
		return or(args[1], nil)
	},
	"keys": func(r *run, self any, a *arguments) any {
		a.bind("keys")
		return &sequence{kind: keysKind, items: self.(*dict).keys}
	},
	"values": func(r *run, self any, a *arguments) any {
		a.bind("values")
		return &sequence{kind: valuesKind, items: self.(*dict).values}
	},
	"items": func(r *run, self any, a *arguments) any {
		a.bind("items")
		return &sequence{kind: itemsKind, items: r.pairs(self.(*dict))}
	},
	"copy":  func(r *run, self any, a *arguments) any { return self },
	"clear": refused, "pop": refused, "popitem": refused, "setdefault": refused, "update": refused,
}

// pairs returns a dict's keys and values as tuples.
func (r *run) pairs(d *dict) []any {
	r.places(4 * len(d.keys))
	pairs := make([]any, len(d.keys))
	for i, key := range d.keys {
		pairs[i] = tuple(key, d.values[i])
	}
	return pairs
}

var listMethods = map[string]method{
	"count": func(r *run, self any, a *arguments) any {
		want, n := a.bind("count", "value")[0], int64(0)
		for _, item := range self.(*sequence).items {
			if r.equal(item, want) {
				n++
			}
		}
		return n
	},
	"index": func(r *run, self any, a *arguments) any {
		want := a.bind("index", "value")[0]
		for i, item := range self.(*sequence).items {
			if r.equal(item, want) {
				return int64(i)
			}
		}
		fail("%.60s is not in list", r.repr(want))
		return nil
	},
	"copy":   func(r *run, self any, a *arguments) any { return self },
	"append": refused, "clear": refused, "extend": refused, "insert": refused, "pop": refused, "remove": refused, "reverse": refused, "sort": refused,
}

var numberMethods = map[string]method{
	"is_integer": func(_ *run, self any, a *arguments) any {
		a.bind("is_integer")
		_, f, isFloat, _ := number(self)
		return !isFloat || f == float64(int64(f))
	},
}

// onText makes a method of a function that changes a text. What it makes of markup is markup. factor bounds how many times longer the text may get.
func onText(name string, factor int, change func(string) string) method {
	return func(r *run, self any, a *arguments) any {
		a.bind(name)
		text, _ := textOf(self)
		r.text(factor * len(text))
		return alike(self, change(text))
	}
}

// all makes a method that says whether a text is not empty and all its characters are of a kind.
func all(name string, kind func(rune) bool) method {
	return func(r *run, self any, a *arguments) any {
		a.bind(name)
		text, _ := textOf(self)
		r.spend(len(text))
		return text != "" && strings.IndexFunc(text, func(c rune) bool { return !kind(c) }) < 0
	}
}

// allCased makes isupper and islower: at least one cased character, and none of the other case.
func allCased(name string, other func(rune) bool) method {
	return func(r *run, self any, a *arguments) any {
		a.bind(name)
		text, _ := textOf(self)
		r.spend(len(text))
		return strings.IndexFunc(text, cased) >= 0 && strings.IndexFunc(text, func(c rune) bool { return other(c) || unicode.IsTitle(c) }) < 0
	}
}

// textMethods are Python's methods of strings. They are set by init, since some of them call others by way of the run.
var textMethods map[string]method

func init() {
	textMethods = map[string]method{
		"capitalize": onText("capitalize", 4, capitalize), "casefold": onText("casefold", 4, func(s string) string { return lower(strings.ReplaceAll(s, "ß", "ss")) }),
		"lower": onText("lower", 4, lower), "upper": onText("upper", 4, upper), "title": onText("title", 4, title), "swapcase": onText("swapcase", 4, swapCase),
		"strip": strip("strip", true, true), "lstrip": strip("lstrip", true, false), "rstrip": strip("rstrip", false, true),
		"startswith": affix("startswith", strings.HasPrefix), "endswith": affix("endswith", strings.HasSuffix),
		"removeprefix": removeAffix("removeprefix", strings.TrimPrefix), "removesuffix": removeAffix("removesuffix", strings.TrimSuffix),
		"find": find("find", strings.Index, false), "rfind": find("rfind", strings.LastIndex, false),
		"index": find("index", strings.Index, true), "rindex": find("rindex", strings.LastIndex, true),
		"split": split(false), "rsplit": split(true), "partition": partition("partition", strings.Index), "rpartition": partition("rpartition", strings.LastIndex),
		"replace": replaceMethod, "join": joinMethod, "count": countMethod, "splitlines": splitLinesMethod,
		"center": pad("center", 1, 1), "ljust": pad("ljust", 0, 1), "rjust": pad("rjust", 1, 0), "zfill": zfill,
		"format":  (*run).format,
		"isspace": all("isspace", isSpace), "isalpha": all("isalpha", unicode.IsLetter), "isascii": func(r *run, self any, a *arguments) any {
			text, _ := textOf(self)
			r.spend(len(text))
			return strings.IndexFunc(text, func(c rune) bool { return c > unicode.MaxASCII }) < 0
		},
		"isdigit": all("isdigit", unicode.IsDigit), "isdecimal": all("isdecimal", unicode.IsDigit), "isnumeric": all("isnumeric", unicode.IsNumber),
		"isalnum": all("isalnum", func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }),
		"isupper": allCased("isupper", unicode.IsLower), "islower": allCased("islower", unicode.IsUpper),
		"isprintable": func(r *run, self any, a *arguments) any {
			text, _ := textOf(self)
			r.spend(len(text))
			return strings.IndexFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }) < 0
		},
	}
}

func strip(name string, left, right bool) method {
	return func(r *run, self any, a *arguments) any {
		chars := a.bind(name, "chars=")[0]
		text, _ := textOf(self)
		r.spend(len(text))
		return alike(self, trimmed(text, or(chars, nil), left, right))
	}
}

// trimmed takes white space, or the characters of a text, off the ends.
func trimmed(text string, chars any, left, right bool) string {
	in := isSpace
	if chars != nil {
		set := textArgument("strip", chars)
		in = func(c rune) bool { return strings.ContainsRune(set, c) }
	}
	if left {
		text = strings.TrimLeftFunc(text, in)
	}
	if right {
		text = strings.TrimRightFunc(text, in)
	}
	return text
}

// between returns the part of a text between two places, and how many characters stand before it.
func between(text string, from, to any) (part string, before int) {
	n := countRunes(text)
	start, stop := sliceBounds(n, or(from, nil), or(to, nil), 1)
	return cutRunes(text, start, max(start, stop)), start
}

func affix(name string, has func(text, part string) bool) method {
	return func(r *run, self any, a *arguments) any {
		args := a.bind(name, "affix", "start=", "end=")
		text, _ := textOf(self)
		if len(a.plain) > 1 {
			r.spend(len(text))
			text, _ = between(text, args[1], args[2])
		}
		if several, ok := args[0].(*sequence); ok && several.kind == tupleKind {
			return slices.ContainsFunc(several.items, func(v any) bool { return has(text, textArgument(name, v)) })
		}
		return has(text, textArgument(name, args[0]))
	}
}

func removeAffix(name string, remove func(text, part string) string) method {
	return func(_ *run, self any, a *arguments) any {
		text, _ := textOf(self)
		return alike(self, remove(text, textArgument(name, a.bind(name, "affix")[0])))
	}
}

func find(name string, index func(text, part string) int, must bool) method {
	return func(r *run, self any, a *arguments) any {
		args := a.bind(name, "part", "start=", "end=")
		text, _ := textOf(self)
		r.spend(len(text))
		part, before := between(text, args[1], args[2])
		at := index(part, textArgument(name, args[0]))
		if at < 0 {
			if must {
				fail("substring not found")
			}
			return int64(-1)
		}
		return int64(before + countRunes(part[:at]))
	}
}

func countMethod(r *run, self any, a *arguments) any {
	args := a.bind("count", "part", "start=", "end=")
	text, _ := textOf(self)
	r.spend(len(text))
	part, _ := between(text, args[1], args[2])
	return int64(strings.Count(part, textArgument("count", args[0])))
}

func replaceMethod(r *run, self any, a *arguments) any {
	args := a.bind("replace", "old", "new", "count=")
	text, _ := textOf(self)
	by := r.within(self, args[1], textArgument("replace", args[1]))
	return alike(self, r.replace(text, textArgument("replace", args[0]), by, integerOf("count", or(args[2], int64(-1)))))
}

// within returns a text as it goes into another: escaped where that is markup and it is not.
func (r *run) within(other, v any, text string) string {
	_, safe := other.(markup)
	if _, alsoSafe := v.(markup); safe && !alsoSafe {
		return r.escape(text)
	}
	return text
}

func (r *run) replace(text, old, by string, count int) string {
	r.spend(len(text))
	hits := strings.Count(text, old)
	if count >= 0 {
		hits = min(hits, count)
	}
	if hits > 0 && len(by) > 0 && hits > r.limit/len(by) {
		fail("a text of more than %d bytes", r.limit)
	}
	r.text(len(text) + hits*(len(by)-len(old)))
	return strings.Replace(text, old, by, count)
}

func joinMethod(r *run, self any, a *arguments) any {
	sep, _ := textOf(self)
	var texts []string
	size := 0
	for _, item := range r.items(a.bind("join", "iterable")[0]) {
		text, ok := textOf(item)
		if !ok {
			fail("sequence item %d: expected str instance, %s found", len(texts), typeName(item))
		}
		text = r.within(self, item, text)
		texts = append(texts, text)
		size += len(text) + len(sep)
		r.text(size)
		r.alloc += size // it is asked for once, when all is known
	}
	r.text(size)
	return alike(self, strings.Join(texts, sep))
}

func partition(name string, index func(text, part string) int) method {
	return func(r *run, self any, a *arguments) any {
		sep := textArgument(name, a.bind(name, "sep")[0])
		text, _ := textOf(self)
		r.spend(len(text))
		at := index(text, sep)
		three := [3]string{text, "", ""}
		switch {
		case sep == "":
			fail("empty separator")
		case at >= 0:
			three = [3]string{text[:at], sep, text[at+len(sep):]}
		case name == "rpartition":
			three = [3]string{"", "", text}
		}
		return tuple(alike(self, three[0]), alike(self, three[1]), alike(self, three[2]))
	}
}

func split(fromRight bool) method {
	return func(r *run, self any, a *arguments) any {
		args := a.bind("split", "sep=", "maxsplit=")
		text, _ := textOf(self)
		limit := integerOf("maxsplit", or(args[1], int64(-1)))
		var parts []string
		if sep := or(args[0], nil); sep != nil {
			parts = r.splitAt(text, textArgument("split", sep), limit, fromRight)
		} else {
			parts = r.splitSpace(text, limit, fromRight)
		}
		out := make([]any, len(parts))
		for i, p := range parts {
			out[i] = alike(self, p)
		}
		return list(out...)
	}
}

func (r *run) splitAt(text, sep string, limit int, fromRight bool) []string {
	if sep == "" {
		fail("empty separator")
	}
	r.spend(len(text))
	hits := strings.Count(text, sep)
	if limit < 0 || limit > hits {
		limit = hits
	}
	r.places(2 * (limit + 1))
	if !fromRight {
		return strings.SplitN(text, sep, limit+1)
	}
	var parts []string
	for range limit {
		at := strings.LastIndex(text, sep)
		parts = append(parts, text[at+len(sep):])
		text = text[:at]
	}
	parts = append(parts, text)
	slices.Reverse(parts)
	return parts
}

// splitSpace splits at runs of white space into at most limit+1 parts, or any number if limit is negative.
func (r *run) splitSpace(text string, limit int, fromRight bool) []string {
	r.spend(len(text))
	if limit < 0 {
		parts := strings.FieldsFunc(text, isSpace)
		r.places(2 * len(parts))
		return parts
	}
	var parts []string
	if fromRight {
		for text = strings.TrimRightFunc(text, isSpace); text != ""; text = strings.TrimRightFunc(text, isSpace) {
			at := strings.LastIndexFunc(text, isSpace)
			if at < 0 || len(parts) == limit {
				parts = append(parts, text)
				break
			}
			r.places(2)
			behind := at + firstRune(text[at:])
			parts = append(parts, text[behind:])
			text = text[:at]
		}
		slices.Reverse(parts)
		return parts
	}
	for text = strings.TrimLeftFunc(text, isSpace); text != ""; text = strings.TrimLeftFunc(text, isSpace) {
		at := strings.IndexFunc(text, isSpace)
		if at < 0 || len(parts) == limit {
			return append(parts, text)
		}
		r.places(2)
		parts = append(parts, text[:at])
		text = text[at:]
	}
	return parts
}

func splitLinesMethod(r *run, self any, a *arguments) any {
	keep := truth(or(a.bind("splitlines", "keepends=")[0], false))
	text, _ := textOf(self)
	lines := r.splitLines(text, keep)
	out := make([]any, len(lines))
	for i, line := range lines {
		out[i] = alike(self, line)
	}
	return list(out...)
}

// splitLines splits at all that Python takes for a line's end.
func (r *run) splitLines(text string, keep bool) []string {
	r.spend(len(text))
	var lines []string
	for text != "" {
		at := strings.IndexFunc(text, func(c rune) bool {
			return c >= '\n' && c <= '\r' || c >= 0x1c && c <= 0x1e || c == 0x85 || c == 0x2028 || c == 0x2029
		})
		r.places(2)
		if at < 0 {
			return append(lines, text)
		}
		behind := at + firstRune(text[at:])
		if strings.HasPrefix(text[at:], "\r\n") {
			behind = at + 2
		}
		if keep {
			at = behind
		}
		lines = append(lines, text[:at])
		text = text[behind:]
	}
	return lines
}

// pad makes center, ljust and rjust, which fill up at the left, the right or both.
func pad(name string, left, right int) method {
	return func(r *run, self any, a *arguments) any {
		args := a.bind(name, "width", "fillchar=")
		fill := textArgument(name, or(args[1], " "))
		if utf8.RuneCountInString(fill) != 1 {
			fail("the fill character must be exactly one character long")
		}
		text, _ := textOf(self)
		return alike(self, r.padded(text, integerOf("width", args[0]), fill, left, right))
	}
}

func (r *run) padded(text string, width int, fill string, left, right int) string {
	if width > maxWidth {
		fail("a width of more than %d characters", maxWidth)
	}
	r.spend(len(text))
	missing := max(0, width-countRunes(text))
	before := missing * left / (left + right)
	if left == right && missing%2 == 1 && width%2 == 1 {
		before++ // Python puts the odd character of an odd width to the left
	}
	r.text(len(text) + missing*len(fill))
	return strings.Repeat(fill, before) + text + strings.Repeat(fill, missing-before)
}

func zfill(r *run, self any, a *arguments) any {
	text, _ := textOf(self)
	width := integerOf("width", a.bind("zfill", "width")[0])
	sign := ""
	if text != "" && (text[0] == '-' || text[0] == '+') {
		sign, text = text[:1], text[1:]
	}
	return alike(self, sign+r.padded(text, width-len(sign), "0", 1, 0))
}
