package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Field is one entry of an Object.
type Field struct {
	Name  string
	Value any
}

// Object is a variable's dict whose keys come in order, as templates that write JSON need it.
type Object []Field

// ErrJSON is text that is not one JSON value, or is nested too deep.
var ErrJSON = errors.New("invalid JSON")

// DecodeJSON decodes a JSON value as Python does: Objects keep their keys' order, numbers are int64, *big.Int or float64.
func DecodeJSON(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := decodeValue(d, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrJSON, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: more than one value", ErrJSON)
	}
	return v, nil
}

func decodeValue(d *json.Decoder, depth int) (any, error) {
	if depth > maxData/2 {
		return nil, fmt.Errorf("nested more than %d deep", maxData/2)
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Number:
		return jsonNumber(t.String())
	case json.Delim:
		if t == '[' {
			return decodeList(d, depth)
		}
		return decodeObject(d, depth)
	}
	return t, nil
}

func jsonNumber(text string) (any, error) {
	if strings.ContainsAny(text, ".eE") {
		f, _ := strconv.ParseFloat(text, 64) // beyond the range it is an infinity, as in Python
		return f, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	const mostDigits = 1000 // reading more takes more than linear time
	n, ok := new(big.Int).SetString(text, 10)
	if len(text) > mostDigits || !ok {
		return nil, fmt.Errorf("a number of %d digits", len(text))
	}
	return n, nil
}

func decodeList(d *json.Decoder, depth int) (any, error) {
	out := []any{}
	for d.More() {
		v, err := decodeValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	_, err := d.Token()
	return out, err
}

func decodeObject(d *json.Decoder, depth int) (any, error) {
	out := Object{}
	at := make(map[string]int)
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := key.(string)
		v, err := decodeValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		if i, again := at[name]; again {
			out[i].Value = v
			continue
		}
		at[name] = len(out)
		out = append(out, Field{name, v})
	}
	_, err := d.Token()
	return out, err
}

// fromGo turns a variable into a template's value.
func fromGo(v any, depth int) any {
	tooDeep(depth)
	switch v := v.(type) {
	case nil, bool, int64, float64, string, *big.Int:
		return v
	case int:
		return int64(v)
	case Object:
		d := newDict()
		for _, f := range v {
			d.set(f.Name, fromGo(f.Value, depth+1))
		}
		return d
	case map[string]any:
		d := newDict()
		for _, key := range slices.Sorted(maps.Keys(v)) {
			d.set(key, fromGo(v[key], depth+1))
		}
		return d
	}
	of := reflect.ValueOf(v)
	switch {
	case of.Kind() == reflect.Slice:
		items := make([]any, of.Len())
		for i := range items {
			items[i] = fromGo(of.Index(i).Interface(), depth+1)
		}
		return list(items...)
	case of.CanInt():
		return of.Int()
	case of.CanFloat():
		return of.Float()
	}
	fail("a variable of type %T", v)
	return nil
}
