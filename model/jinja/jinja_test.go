package jinja

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// moment is the clock of tests.
func moment() time.Time { return time.Date(2026, 12, 1, 7, 5, 9, 0, time.UTC) }

func render(source string, variables map[string]any) (string, error) {
	t, err := Parse("test.jinja", source, moment)
	if err != nil {
		return "", err
	}
	return t.Render(variables, 0)
}

func TestRender(t *testing.T) {
	messages := []map[string]any{{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}}
	for source, want := range map[string]string{
		"{% for m in messages %}\n  {% if m.role == 'user' %}\nU:{{ m.content }}\n  {% endif %}\n{% endfor %}\n": "U:Hi\n",
		"{{ messages[-1]['content'] | upper }}":                                              "HO",
		"{% generation %}{{ messages[0].content }}{% endgeneration %}!":                      "Hi!",
		"{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m(1) }}{{ m(2) }}":                        "[1][2]",
		"{% for i in range(3) %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}": "02",
		"{{ range(5, 0, -2) | join(',') }}":                                                  "5,3,1",
		"{{ {'a': ['<b>', 1, true]} | tojson }}":                                             `{"a": ["<b>", 1, true]}`,
		"{{ 'say \"a, b: c\"' | tojson }}":                                                   `"say \"a, b: c\""`,
		"{{ {'a': 1} | tojson(indent=2) }}":                                                  "{\n  \"a\": 1\n}",
		"[{{ ' \n x \t'.strip() }}][{{ '  x '.lstrip() }}][{{ ' x  '.rstrip() }}][{{ 'xxaxx'.strip('x') }}][{{ '\n\na\n'.lstrip('\n') }}]":                                                   "[x][x ][ x][a][a\n]",
		"{{ 'aaa'.replace('a', 'b') }} {{ 'aaa'.replace('a', 'b', 1) }} {{ ' a  b '.split() | join('/') }} {{ 'a,b,c'.split(',', 1) | join('/') }} {{ 'a b c'.split(None, 1) | join('/') }}": "bbb baa a/b a/b,c a/b c",
		"{{ strftime_now('%d %b %Y %H:%M:%S %A %% %-d %Q') }}":                                                "01 Dec 2026 07:05:09 Tuesday % 1 %Q",
		"{{ undefined_thing }}x{% if nothing is defined %}y{% endif %}":                                       "x",
		"{% set ns = namespace(n=0) %}{% for i in range(4) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}": "6",
	} {
		got, err := render(source, map[string]any{"messages": messages})
		if err != nil || got != want {
			t.Errorf("%s: got %q (%v), want %q", source, got, err, want)
		}
	}
}

// TestBounds: programs that would never end, or fill memory, or look around, end with an error that names the template.
func TestBounds(t *testing.T) {
	nested := strings.Repeat("{% for i in range(1000) %}", 5) + strings.Repeat("{% endfor %}", 5)
	doubling := "{% set s = 'xxxxxxxxxxxxxxxx' %}" + strings.Repeat("{% set s = s ~ s %}", 60)
	for name, source := range map[string]string{
		"nested loops":       nested,
		"much output":        "{% for i in range(60000) %}" + strings.Repeat("x", 1000) + "{% endfor %}",
		"long range":         "{{ range(1000000000) | length }}",
		"endless range":      "{{ range(0, 10, 0) }}",
		"recursion":          "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
		"mutual recursion":   "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}",
		"recursion by call":  "{% macro f() %}{% call f() %}x{% endcall %}{% endmacro %}{{ f() }}",
		"doubling":           doubling,
		"doubling namespace": "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
		"include":            "{% include '/etc/hostname' %}",
		"import":             "{% import '/etc/hostname' as x %}",
		"extends":            "{% extends '/etc/hostname' %}",
		"lipsum":             "{{ lipsum(100000) }}",
		"raise":              "{{ raise_exception('roles must alternate') }}",
		"broken":             "{% for %}",
		"unclosed":           "{% if true %}",
		"large source":       strings.Repeat("x", maxSourceBytes+1),
	} {
		t.Run(name, func(t *testing.T) {
			out, err := render(source, nil)
			if !errors.Is(err, ErrTemplate) || !strings.Contains(err.Error(), "test.jinja") {
				t.Fatalf("%d bytes of output, error %v", len(out), err)
			}
			if len(err.Error()) > 1024 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			if name == "raise" && !strings.Contains(err.Error(), "roles must alternate") {
				t.Errorf("the template's own words are lost: %v", err)
			}
		})
	}
}

func TestTimeIsBounded(t *testing.T) {
	now := moment()
	clock := func() time.Time { now = now.Add(time.Millisecond); return now }
	tmpl, err := Parse("slow", "{% for i in range(60000) %}{% endfor %}", clock)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tmpl.Render(nil, 0); !errors.Is(err, ErrTemplate) || !strings.Contains(err.Error(), "not done after") {
		t.Errorf("got %v", err)
	}
}

func TestConcurrentRenderings(t *testing.T) {
	tmpl, err := Parse("shared", "{% set n = who %}{% for i in range(20) %}{{ n }}{% endfor %}", moment)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			who := fmt.Sprint(i)
			if got, err := tmpl.Render(map[string]any{"who": who}, 1); err != nil || got != strings.Repeat(who, 20) {
				t.Errorf("%s: %q %v", who, got, err)
			}
		})
	}
	group.Wait()
}
