package jinja

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// builtins are the functions that templates find without being given them.
func builtins(r *run) map[string]any {
	functions := map[string]func(*run, *arguments) any{
		"range": rangeOf, "dict": dictOf, "namespace": namespaceOf, "cycler": newCycler, "joiner": newJoiner,
		"raise_exception": func(r *run, a *arguments) any {
			fail("%s", r.str(a.bind("raise_exception", "message")[0]))
			return nil
		},
		"strftime_now": func(r *run, a *arguments) any {
			text := strftime(r.now(), textArgument("strftime_now", a.bind("strftime_now", "format")[0]))
			r.text(len(text))
			return text
		},
	}
	out := make(map[string]any, len(functions))
	for name, f := range functions {
		out[name] = &function{name, f}
	}
	return out
}

// rangeOf is Python's range, of limited length.
func rangeOf(r *run, a *arguments) any {
	if len(a.plain) < 1 || len(a.plain) > 3 || len(a.names) > 0 {
		fail("range takes one to three integers")
	}
	bounds := [3]int{0, 0, 1}
	for i, v := range a.plain {
		bounds[i] = integerOf("range's argument", v)
		if bounds[i] > math.MaxInt32 || bounds[i] < math.MinInt32 {
			fail("range's argument %d is too large", bounds[i])
		}
	}
	start, stop, step := bounds[0], bounds[1], bounds[2]
	if len(a.plain) == 1 {
		start, stop = 0, bounds[0]
	}
	if step == 0 {
		fail("range with a step of 0")
	}
	n := sliceLength(start, stop, step)
	if n > maxRange {
		fail("range of more than %d numbers", maxRange)
	}
	r.places(n)
	items := make([]any, n)
	for i := range items {
		items[i] = int64(start + i*step)
	}
	return &sequence{kind: rangeKind, items: items}
}

// dictOf is Python's dict: of a dict or of pairs, and of named arguments.
func dictOf(r *run, a *arguments) any {
	d := newDict()
	if len(a.plain) > 1 {
		fail("dict takes at most one argument without a name")
	}
	if len(a.plain) == 1 {
		if from, ok := a.plain[0].(*dict); ok {
			r.places(4 * len(from.keys))
			for i, key := range from.keys {
				d.set(key, from.values[i])
			}
		} else {
			for _, item := range r.items(a.plain[0]) {
				pair := r.items(item)
				if len(pair) != 2 {
					fail("dict takes pairs, got %d values", len(pair))
				}
				r.places(4)
				d.set(pair[0], pair[1])
			}
		}
	}
	r.places(4 * len(a.names))
	for i, name := range a.names {
		d.set(name, a.named[i])
	}
	return d
}

func namespaceOf(r *run, a *arguments) any {
	n := &namespace{dictOf(r, a).(*dict)}
	for _, key := range n.fields.keys {
		checkField(key)
	}
	return n
}

func (n *namespace) set(r *run, name string, v any) {
	checkField(name)
	r.places(1)
	n.fields.set(name, v)
}

func checkField(name any) {
	if text, ok := textOf(name); ok && strings.HasPrefix(text, "_") {
		fail("cannot store underscore-prefixed attribute %.40q on a namespace", text)
	}
}

// cycler gives its items in turn, again and again.
type cycler struct {
	items []any
	at    int
}

func newCycler(_ *run, a *arguments) any {
	if len(a.plain) == 0 {
		fail("at least one item has to be provided")
	}
	return &cycler{items: a.plain}
}

func (c *cycler) attribute(name string) (any, bool) {
	switch name {
	case "current":
		return c.items[c.at], true
	case "next":
		return &function{name, func(*run, *arguments) any {
			v := c.items[c.at]
			c.at = (c.at + 1) % len(c.items)
			return v
		}}, true
	case "reset":
		return &function{name, func(*run, *arguments) any { c.at = 0; return nil }}, true
	}
	return nil, false
}

// newJoiner returns a function that gives nothing the first time and a separator from then on.
func newJoiner(_ *run, a *arguments) any {
	sep := or(a.bind("joiner", "sep=")[0], ", ")
	used := false
	return &function{"joiner", func(*run, *arguments) any {
		if used {
			return sep
		}
		used = true
		return ""
	}}
}

// strftime formats a time by the directives of C's strftime; those that are not known stay as they are. A "-" in a directive leaves out what fills up numbers.
func strftime(t time.Time, format string) string {
	layouts := map[byte]string{'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'h': "Jan", 'd': "02", 'e': "_2", 'H': "15", 'I': "03", 'j': "002", 'm': "01",
		'M': "04", 'p': "PM", 'S': "05", 'y': "06", 'Y': "2006", 'Z': "MST", 'z': "-0700", 'F': "2006-01-02", 'T': "15:04:05", 'R': "15:04", 'D': "01/02/06",
		'c': "Mon Jan _2 15:04:05 2006", 'x': "01/02/06", 'X': "15:04:05"}
	var out strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			out.WriteByte(format[i])
			continue
		}
		i++
		switch layout, ok := layouts[format[i]]; {
		case ok:
			out.WriteString(t.Format(layout))
		case format[i] == '%':
			out.WriteByte('%')
		case format[i] == 'f':
			fmt.Fprintf(&out, "%06d", t.Nanosecond()/1000)
		case format[i] == 's':
			fmt.Fprint(&out, t.Unix())
		case format[i] == 'u':
			fmt.Fprint(&out, (int(t.Weekday())+6)%7+1)
		case format[i] == 'w':
			fmt.Fprint(&out, int(t.Weekday()))
		case format[i] == '-' && i+1 < len(format) && layouts[format[i+1]] != "":
			i++
			text := strings.TrimLeft(t.Format(layouts[format[i]]), "0 ")
			if text == "" {
				text = "0"
			}
			out.WriteString(text)
		default:
			out.WriteByte('%')
			out.WriteByte(format[i])
		}
	}
	return out.String()
}
