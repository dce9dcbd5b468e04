package jinja

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// str is Python's str(v): what an expression prints.
func (r *run) str(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case markup:
		return string(v)
	case *undefined:
		return ""
	}
	return r.repr(v)
}

// repr is Python's repr(v).
func (r *run) repr(v any) string {
	var out strings.Builder
	r.writeRepr(&out, v, 0)
	return out.String()
}

func (r *run) writeRepr(out *strings.Builder, v any, depth int) {
	tooDeep(depth)
	before := out.Len()
	switch v := v.(type) {
	case nil:
		out.WriteString("None")
	case bool:
		if v {
			out.WriteString("True")
		} else {
			out.WriteString("False")
		}
	case int64:
		out.WriteString(strconv.FormatInt(v, 10))
	case *big.Int:
		out.WriteString(v.String())
	case float64:
		out.WriteString(floatRepr(v))
	case string:
		r.text(len(v))
		writeQuoted(out, v)
	case markup:
		r.text(len(v))
		out.WriteString("Markup(")
		writeQuoted(out, string(v))
		out.WriteByte(')')
	case *undefined:
		out.WriteString("Undefined")
	case *sequence:
		r.writeSequence(out, v, depth)
		return
	case *dict:
		r.writeDict(out, v, depth)
		return
	case *namespace:
		out.WriteString("<Namespace ")
		r.writeDict(out, v.fields, depth+1)
		out.WriteByte('>')
		return
	case *function:
		out.WriteString("<function " + v.name + ">")
	case *macro:
		fmt.Fprintf(out, "<Macro '%s'>", v.of.name)
	case *loopContext:
		fmt.Fprintf(out, "<LoopContext %d/%d>", v.index, v.length())
	default:
		out.WriteString("<" + typeName(v) + " object>")
	}
	r.grown(out, before)
}

// grown accounts for what was written to out.
func (r *run) grown(out *strings.Builder, before int) {
	if out.Len() > r.limit {
		fail("a text of more than %d bytes", r.limit)
	}
	r.take(out.Len() - before)
}

func (r *run) writeSequence(out *strings.Builder, s *sequence, depth int) {
	r.spend(nodeWork)
	if s.kind == rangeKind {
		out.WriteString(rangeRepr(s))
		return
	}
	begin, end := "[", "]"
	switch {
	case s.kind == tupleKind:
		begin, end = "(", ")"
		if len(s.items) == 1 {
			end = ",)"
		}
	case s.kind > rangeKind:
		begin, end = typeName(s)+"([", "])"
	}
	out.WriteString(begin)
	for i, item := range s.items {
		if i > 0 {
			out.WriteString(", ")
		}
		r.writeRepr(out, item, depth+1)
	}
	out.WriteString(end)
	r.grown(out, out.Len()-len(begin)-len(end))
}

// rangeRepr writes a range by its bounds, of which only what it gives is known.
func rangeRepr(s *sequence) string {
	if len(s.items) == 0 {
		return "range(0, 0)"
	}
	first, step := s.items[0].(int64), int64(1)
	if len(s.items) > 1 {
		step = s.items[1].(int64) - first
	}
	last := s.items[len(s.items)-1].(int64)
	if step == 1 {
		return fmt.Sprintf("range(%d, %d)", first, last+1)
	}
	return fmt.Sprintf("range(%d, %d, %d)", first, last+step, step)
}

func (r *run) writeDict(out *strings.Builder, d *dict, depth int) {
	tooDeep(depth)
	r.spend(nodeWork)
	out.WriteByte('{')
	for i, key := range d.keys {
		if i > 0 {
			out.WriteString(", ")
		}
		r.writeRepr(out, key, depth+1)
		out.WriteString(": ")
		r.writeRepr(out, d.values[i], depth+1)
	}
	out.WriteByte('}')
	r.grown(out, out.Len()-1)
}

// writeQuoted writes a text as Python's repr does.
func writeQuoted(out *strings.Builder, text string) {
	quote := '\''
	if strings.ContainsRune(text, '\'') && !strings.ContainsRune(text, '"') {
		quote = '"'
	}
	out.WriteRune(quote)
	for _, c := range text {
		switch {
		case c == quote || c == '\\':
			out.WriteByte('\\')
			out.WriteRune(c)
		case c == '\n':
			out.WriteString(`\n`)
		case c == '\r':
			out.WriteString(`\r`)
		case c == '\t':
			out.WriteString(`\t`)
		case unicode.IsPrint(c):
			out.WriteRune(c)
		case c < 0x100:
			fmt.Fprintf(out, `\x%02x`, c)
		case c < 0x10000:
			fmt.Fprintf(out, `\u%04x`, c)
		default:
			fmt.Fprintf(out, `\U%08x`, c)
		}
	}
	out.WriteRune(quote)
}

// floatRepr writes a float with as few digits as tell it from others, as Python does.
func floatRepr(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case f != f:
		return "nan"
	}
	if f != 0 && (math.Abs(f) < 1e-4 || math.Abs(f) >= 1e16) {
		text := strconv.FormatFloat(f, 'e', -1, 64)
		return text // Go writes exponents of two digits at least, like Python
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
