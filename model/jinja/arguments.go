package jinja

import (
	"slices"
	"strings"
)

// arguments are a call's, evaluated.
type arguments struct {
	plain []any
	names []string
	named []any
}

func (a *arguments) name(name string, v any) {
	if slices.Contains(a.names, name) {
		fail("argument %q is given twice", name)
	}
	a.names, a.named = append(a.names, name), append(a.named, v)
}

// missing stands for an argument that was not given.
var missing = new(struct{ _ byte })

// bind sorts arguments by parameters, which end in "=" where they may be left out; the value is then missing.
func (a *arguments) bind(what string, params ...string) []any {
	if len(a.plain) > len(params) {
		fail("%s takes at most %d arguments, got %d", what, len(params), len(a.plain))
	}
	out := make([]any, len(params))
	copy(out, a.plain)
	for i := len(a.plain); i < len(params); i++ {
		out[i] = missing
	}
	for i, name := range a.names {
		at := slices.IndexFunc(params, func(p string) bool { return strings.TrimSuffix(p, "=") == name })
		switch {
		case at < 0:
			fail("%s takes no argument named %.40q", what, name)
		case at < len(a.plain):
			fail("%s got argument %q twice", what, name)
		}
		out[at] = a.named[i]
	}
	for i, p := range params {
		if out[i] == any(missing) && !strings.HasSuffix(p, "=") {
			fail("%s lacks its argument %q", what, p)
		}
	}
	return out
}

// or returns an argument, or other where it was not given.
func or(v, other any) any {
	if v == any(missing) {
		return other
	}
	return v
}

// textArgument returns an argument that must be a text.
func textArgument(what string, v any) string {
	text, ok := textOf(v)
	if !ok {
		failUndefined(v)
		fail("%s takes a string, got '%s'", what, typeName(v))
	}
	return text
}
