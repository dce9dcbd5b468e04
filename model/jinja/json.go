package jinja

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// jsonWriter writes values as Python's json.dumps does with ensure_ascii=False.
type jsonWriter struct {
	r         *run
	out       strings.Builder
	indent    string
	lines     bool // items stand on lines of their own
	comma     string
	colon     string
	sortKeys  bool
	ascii     bool
	accounted int
}

// toJSON is the filter tojson as the transformers library defines it.
func toJSON(r *run, v any, a *arguments) any {
	args := a.bind("tojson", "ensure_ascii=", "indent=", "separators=", "sort_keys=")
	w := &jsonWriter{r: r, comma: ", ", colon: ": ", ascii: truth(or(args[0], false)), sortKeys: truth(or(args[3], false))}
	if indent := or(args[1], nil); indent != nil {
		w.lines, w.comma = true, ","
		if text, ok := textOf(indent); ok {
			w.indent = text
		} else {
			w.indent = r.padded("", integerOf("indent", indent), " ", 1, 0)
		}
	}
	if separators := or(args[2], nil); separators != nil {
		pair := r.items(separators)
		if len(pair) != 2 {
			fail("separators are a pair of strings")
		}
		w.comma, w.colon = textArgument("separators", pair[0]), textArgument("separators", pair[1])
	}
	w.value(v, 0)
	w.account()
	return w.out.String()
}

// account takes what was written off the budget.
func (w *jsonWriter) account() {
	w.r.grown(&w.out, w.accounted)
	w.accounted = w.out.Len()
}

func (w *jsonWriter) newLine(depth int) {
	if w.lines {
		w.r.text(len(w.indent) * depth)
		w.out.WriteByte('\n')
		w.out.WriteString(strings.Repeat(w.indent, depth))
	}
}

func (w *jsonWriter) value(v any, depth int) {
	tooDeep(depth)
	w.account()
	w.r.spend(nodeWork)
	switch v := v.(type) {
	case nil:
		w.out.WriteString("null")
	case bool:
		w.out.WriteString(strconv.FormatBool(v))
	case int64:
		w.out.WriteString(strconv.FormatInt(v, 10))
	case *big.Int:
		w.out.WriteString(v.String())
	case float64:
		w.out.WriteString(jsonFloat(v))
	case string:
		w.text(v)
	case markup:
		w.text(string(v))
	case *sequence:
		if v.kind > tupleKind {
			fail("Object of type %s is not JSON serializable", typeName(v))
		}
		w.list(v.items, depth)
	case *dict:
		w.dict(v, depth)
	default:
		fail("Object of type %s is not JSON serializable", typeName(v))
	}
}

func jsonFloat(f float64) string {
	switch text := floatRepr(f); text {
	case "inf":
		return "Infinity"
	case "-inf":
		return "-Infinity"
	case "nan":
		return "NaN"
	default:
		return text
	}
}

func (w *jsonWriter) list(items []any, depth int) {
	if len(items) == 0 {
		w.out.WriteString("[]")
		return
	}
	w.out.WriteByte('[')
	for i, item := range items {
		if i > 0 {
			w.out.WriteString(w.comma)
		}
		w.newLine(depth + 1)
		w.value(item, depth+1)
	}
	w.newLine(depth)
	w.out.WriteByte(']')
}

func (w *jsonWriter) dict(d *dict, depth int) {
	if len(d.keys) == 0 {
		w.out.WriteString("{}")
		return
	}
	order := make([]any, len(d.keys))
	for i := range order {
		order[i] = int64(i)
	}
	if w.sortKeys {
		order = w.r.sorted(order, func(i any) any { return d.keys[i.(int64)] }, false)
	}
	w.out.WriteByte('{')
	for n, i := range order {
		if n > 0 {
			w.out.WriteString(w.comma)
		}
		w.newLine(depth + 1)
		w.text(jsonKey(d.keys[i.(int64)]))
		w.out.WriteString(w.colon)
		w.value(d.values[i.(int64)], depth+1)
	}
	w.newLine(depth)
	w.out.WriteByte('}')
}

func jsonKey(key any) string {
	switch k := key.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(k)
	case int64:
		return strconv.FormatInt(k, 10)
	case float64:
		return jsonFloat(k)
	}
	text, ok := textOf(key)
	if !ok {
		fail("keys must be str, int, float, bool or None, not %s", typeName(key))
	}
	return text
}

func (w *jsonWriter) text(text string) {
	w.r.text(len(text))
	w.out.WriteByte('"')
	plain := func(c rune) bool { return c < ' ' || c == '"' || c == '\\' || w.ascii && c >= utf8.RuneSelf }
	for {
		at := strings.IndexFunc(text, plain)
		if at < 0 {
			break
		}
		w.out.WriteString(text[:at])
		c, size := utf8.DecodeRuneInString(text[at:])
		w.escaped(c)
		text = text[at+size:]
	}
	w.out.WriteString(text)
	w.out.WriteByte('"')
}

func (w *jsonWriter) escaped(c rune) {
	short := slices.Index([]rune{'"', '\\', '\n', '\r', '\t', '\f', '\b'}, c)
	switch {
	case short >= 0:
		w.out.WriteByte('\\')
		w.out.WriteByte(`"\nrtfb`[short])
	case c > 0xffff:
		const planes, low, half = 0x10000, 0x3ff, 10
		fmt.Fprintf(&w.out, `\u%04x\u%04x`, 0xd800+(c-planes)>>half, 0xdc00+(c-planes)&low)
	default:
		fmt.Fprintf(&w.out, `\u%04x`, c)
	}
}
