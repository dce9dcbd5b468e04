package server

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// fields are a request's, taken one by one. The first error stays; later reads then give zeros. A field that is null counts as absent.
type fields struct {
	raw  map[string]json.RawMessage
	used map[string]bool
	err  error
}

func (f *fields) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

// take returns a field's JSON, or nil.
func (f *fields) take(name string) json.RawMessage {
	f.used[name] = true
	raw := f.raw[name]
	if f.err != nil || isNull(raw) {
		return nil
	}
	return raw
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// decode reads a field into target, and says whether it was there. kind is what the field must be, for people.
func (f *fields) decode(name, kind string, target any) bool {
	raw := f.take(name)
	if raw == nil {
		return false
	}
	if err := json.Unmarshal(raw, target); err != nil {
		f.fail(wrongType(name, kind, raw))
		return false
	}
	return true
}

func wrongType(name, kind string, raw json.RawMessage) *apiError {
	e := badField(name, "must be %s, got %s", kind, kindOf(raw))
	e.code = "invalid_type"
	return e
}

// kindOf names a JSON value's kind; numbers are short enough to show.
func kindOf(raw json.RawMessage) string {
	switch {
	case isNull(raw):
		return "null"
	case raw[0] == '"':
		return "a string"
	case raw[0] == '{':
		return "an object"
	case raw[0] == '[':
		return "an array"
	case raw[0] == 't' || raw[0] == 'f':
		return "a boolean"
	case len(raw) > 32:
		return "a number of " + strconv.Itoa(len(raw)) + " digits"
	default:
		return string(raw)
	}
}

func (f *fields) text(name string) string {
	var v string
	f.decode(name, "a string", &v)
	return v
}

func (f *fields) flag(name string) bool {
	var v bool
	f.decode(name, "a boolean", &v)
	return v
}

// integer reads a whole number within from and to, or gives def.
func (f *fields) integer(name string, def, from, to int) int {
	v, ok := f.optionalInteger(name, from, to)
	if !ok {
		return def
	}
	return v
}

func (f *fields) optionalInteger(name string, from, to int) (v int, ok bool) {
	if !f.decode(name, "an integer", &v) {
		return 0, false
	}
	if v < from || v > to {
		f.fail(badField(name, "must be from %d to %d, got %d", from, to, v))
		return 0, false
	}
	return v, true
}

// number reads a finite number, or gives def. Its range is checked where it is used.
func (f *fields) number(name string, def float32) float32 {
	v := float64(def)
	if f.decode(name, "a finite number", &v) && math.Abs(v) > math.MaxFloat32 {
		f.fail(badField(name, "is out of range"))
	}
	return float32(v)
}

// ignore accepts fields that never change an answer.
func (f *fields) ignore(names ...string) {
	for _, n := range names {
		f.used[n] = true
	}
}

// only accepts fields with the values that ask for nothing special, and refuses all others by name.
func (f *fields) only(accepted map[string][]string) {
	for _, name := range slices.Sorted(maps.Keys(accepted)) {
		raw := f.take(name)
		if raw == nil {
			continue
		}
		var value bytes.Buffer
		if err := json.Compact(&value, raw); err != nil || !slices.Contains(accepted[name], value.String()) {
			f.fail(unsupported(name, value.String(), accepted[name]))
		}
	}
}

func unsupported(name, value string, accepted []string) *apiError {
	const shown = 80
	if len(value) > shown {
		value = strings.ToValidUTF8(value[:shown], "") + "…"
	}
	remedy := "leave it out"
	if len(accepted) > 0 {
		remedy += ", or give " + strings.Join(accepted, " or ")
	}
	return &apiError{status: http.StatusBadRequest, kind: typeInvalid, code: "unsupported_parameter", param: name,
		message: name + ": " + value + " is not supported; " + remedy}
}

// finish refuses what nobody asked for.
func (f *fields) finish() error {
	for _, name := range slices.Sorted(maps.Keys(f.raw)) {
		if !f.used[name] {
			f.fail(&apiError{status: http.StatusBadRequest, kind: typeInvalid, code: "unknown_parameter", param: name, message: name + ": unknown field"})
		}
	}
	return f.err
}
