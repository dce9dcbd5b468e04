package jinja

import (
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
)

// FuzzRender: whatever a template says, it is parsed and rendered within bounds, and all that goes wrong is an ErrTemplate that is no bug of the interpreter.
func FuzzRender(f *testing.F) {
	var record struct {
		Variables json.RawMessage
		Cases     []snippet
	}
	raw, err := os.ReadFile("testdata/snippets.json")
	if err == nil {
		err = json.Unmarshal(raw, &record)
	}
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range record.Cases {
		f.Add(c.Source)
	}
	for _, source := range hungry {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		text, err := renderJSON("fuzzed", source, record.Variables)
		if err != nil && (!errors.Is(err, ErrTemplate) || strings.Contains(err.Error(), "er failed: ")) {
			t.Fatalf("%q: %v", source, err)
		}
		if most := minOutputBytes + outputPerInput*len(record.Variables); len(text) > most {
			t.Fatalf("%d bytes of output, at most %d are allowed", len(text), most)
		}
	})
}

// hungry are templates that want much memory, time or stack.
var hungry = map[string]string{
	"lists in lists":      "{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
	"lists of twice":      "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l | tojson }}",
	"twice compared":      "{% set ns = namespace(l=[1], m=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% set ns.m = [ns.m, ns.m] %}{% endfor %}{{ ns.l == ns.m }}",
	"twice a key":         "{% set ns = namespace(l=(1,)) %}{% for i in range(60) %}{% set ns.l = (ns.l, ns.l) %}{% endfor %}{{ {ns.l: 1} }}",
	"deep key":            "{% set ns = namespace(l=(1,)) %}{% for i in range(5000) %}{% set ns.l = (ns.l,) %}{% endfor %}{{ {ns.l: 1} }}",
	"long key":            "{% set t = 'x' * 1000000 %}{{ {(t, t, t, t, t, t, t, t): 1} }}",
	"itself":              "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}",
	"many texts":          "{% set t = 'x' * 1000000 %}{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = ns.l + [t ~ i] %}{% endfor %}",
	"growing list":        "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
	"many characters":     "{% set t = 'é' * 500000 %}{% for i in range(100000) %}{% if t[-1 - i] == 'x' %}{% endif %}{{ t[400000] }}{% endfor %}",
	"searches":            "{% set t = 'x' * 1000000 %}{% for i in range(100000) %}{% if 'y' in t or t.find('y') > 0 %}{% endif %}{% endfor %}",
	"replacements":        "{{ ('x' * 100000).replace('x', 'y' * 100000) }}",
	"joins":               "{{ ('y' * 100000).join('x' * 100000) }}",
	"padding":             "{{ 'x'.center(100000000) }}",
	"format widths":       "{{ '%100000000d' % 1 }}",
	"format of many":      "{{ ('{:60000}' * 1000).format(1) }}",
	"indented":            "{{ ('\n' * 500000) | indent(50000) }}",
	"indented JSON":       "{{ [[[[1]]]] | tojson(indent=60000) }}{{ range(100000) | list | tojson(indent=60000) }}",
	"ranges":              "{% set ns = namespace(n=0) %}{% for i in range(100000) %}{% set ns.n = ns.n + range(100000) | length %}{% endfor %}",
	"slices":              "{% set t = 'x' * 1000000 %}{% for i in range(100000) %}{% set u = t[::-1] %}{% endfor %}",
	"powers":              "{{ 10 ** 1000000000 }}",
	"nested brackets":     strings.Repeat("{{ "+strings.Repeat("(", 400)+"1", 1),
	"nested tags":         strings.Repeat("{% if 1 %}", 5000),
	"long chain":          "{{ 1" + strings.Repeat("+1", 200000) + " }}",
	"long chain of dots":  "{{ a" + strings.Repeat(".a", 200000) + " }}",
	"nested nots":         "{{ " + strings.Repeat("not ", 100000) + "1 }}",
	"nested signs":        "{{ " + strings.Repeat("-", 100000) + "1 }}",
	"recursive loop":      "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
	"generators of each":  "{% set ns = namespace(g=[1]) %}{% for i in range(50000) %}{% set ns.g = ns.g | map('string') %}{% endfor %}{{ ns.g | list }}",
	"filtered deep":       "{% set ns = namespace(g=[1]) %}{% for i in range(50000) %}{% set ns.g = ns.g | select %}{% endfor %}{{ ns.g | list }}",
	"sorting":             "{% for i in range(100000) %}{% set x = range(60000) | sort %}{% endfor %}",
	"lookups of a scope":  "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
	"names of namespaces": "{% set ns = namespace(d={}) %}{% for i in range(100000) %}{% set ns.d = dict(ns.d, **{'k' ~ i: 'x' * 10000}) %}{% endfor %}",
	"calls with many":     "{% macro m() %}{{ varargs | length }}{% endmacro %}{% set l = [1] * 60000 %}{% for i in range(10000) %}{{ m(*l, *l) }}{% endfor %}",
	"titles":              "{% for i in range(100000) %}{% set x = ('ab ' * 100000) | title %}{% endfor %}",
}

// TestHungryTemplates: what wants too much gets an error, with little memory in use at the end.
func TestHungryTemplates(t *testing.T) {
	const mostBytes = 1 << 30
	for name, source := range hungry {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			out, err := render(source, nil)
			runtime.ReadMemStats(&after)
			if !errors.Is(err, ErrTemplate) || strings.Contains(err.Error(), "er failed: ") {
				t.Errorf("%d bytes of output, error %v", len(out), err)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > mostBytes {
				t.Errorf("%d bytes asked for in all, at most %d are wanted", got, mostBytes)
			}
		})
	}
}
