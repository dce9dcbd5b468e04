package jinja

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
)

var (
	seed   = flag.Uint64("seed", 0, "seed of random templates; 0 for one of the clock")
	random = flag.Int("random", 500, "random templates to compare with Jinja2's renderings")
)

// templateWriter writes random templates over the variables of testdata/snippets.json.
type templateWriter struct{ *rand.Rand }

func (w templateWriter) pick(from ...string) string { return from[w.IntN(len(from))] }

// expression writes an expression; most are of kinds that fit together, so that not all of them fail.
func (w templateWriter) expression(depth int) string {
	if depth <= 0 {
		return w.pick("s", "u", "l", "d", "nested", "pairs", "people", "missing", "none", "true", "0", "1", "2.5", "-3", "'a'", "'x y'", "''", "[]", "{}", "x", "loop.index", "(1, 2)",
			"' é\\n'", "people[0]", "tree", "1e17", "'Ab-c'", "'7'")
	}
	sub := func() string { return w.expression(depth - 1 - w.IntN(2)) }
	switch w.IntN(13) {
	case 0:
		return fmt.Sprintf("(%s %s %s)", sub(), w.pick("+", "-", "*", "/", "//", "%", "~", "~", "~"), sub())
	case 1:
		return fmt.Sprintf("(%s %s %s)", sub(), w.pick("==", "!=", "<", ">=", "in", "not in", "and", "or"), sub())
	case 2:
		return fmt.Sprintf("(%s if %s else %s)", sub(), sub(), sub())
	case 3:
		if w.IntN(2) == 0 { // Jinja2 folds slices of constants into nothing where they fail, so only variables are sliced
			return w.pick("s", "u", "l", "pairs", "people", "missing", "d", "x") + w.pick("[1:]", "[:-1]", "[::-1]", "[1:2]", "[-2:]", "[::2]")
		}
		return fmt.Sprintf("%s[%s]", sub(), w.pick("0", "-1", "'a'", "'name'", sub()))
	case 4:
		return fmt.Sprintf("[%s, %s]", sub(), sub())
	case 5:
		return fmt.Sprintf("{'a': %s, %s: %s}", sub(), w.pick("1", "'b'", "none", "s"), sub())
	case 6:
		return "not " + sub()
	case 7:
		return fmt.Sprintf("(%s is %s%s)", sub(), w.pick("", "not "), w.pick("defined", "none", "string", "mapping", "sequence", "iterable", "number", "integer", "float",
			"boolean", "odd", "even", "true", "false", "undefined", "divisibleby 2", "eq 1", "in l", "lower", "upper", "callable", "sameas none"))
	case 8, 9:
		return sub() + w.pick(".strip()", ".split()", ".upper()", ".lower()", ".title()", ".replace('a', 'bb')", ".startswith('a')", ".get('a')", ".get('q', 4)", ".items()",
			".keys()", ".name", ".a", ".split('a', 1)", ".count('a')", ".find('a')", ".join(l)", ".capitalize()", ".rsplit(none, 1)", ".format(1, s)", ".zfill(5)", ".isdigit()",
			".partition(' ')", ".splitlines()", ".index('a')", ".swapcase()", ".center(8, '.')")
	default:
		return "(" + sub() + " | " + w.pick("upper", "lower", "trim", "length", "list", "first", "last", "join(',')", "tojson", "tojson(indent=2)", "string", "int", "float", "default('z')",
			"default(1, true)", "reverse | list", "sort", "unique | list", "sum", "min", "max", "title", "capitalize", "replace('a', 'b')", "dictsort", "items | list", "map('upper') | list",
			"select('defined') | list", "map(attribute='name') | list", "selectattr('age', 'defined') | list", "indent", "abs", "round", "round(1)", "escape", "safe", "batch(2) | list",
			"slice(2) | list", "groupby('name')", "count", "wordcount", "truncate(4)", "urlencode", "reject('none') | list", "center(9)", "string | safe", "e", "attr('name')",
			"map('string') | join('|')", "sort(attribute='age')", "sort(reverse=true)", "format(1)") + ")"
	}
}

func (w templateWriter) body(depth int) string {
	var out strings.Builder
	for range 1 + w.IntN(3) {
		out.WriteString(w.pick("", " ", "\n", "  \n  ", "a", "b\n", "\t"))
		open, shut := w.pick("{%", "{%-", "{%", "{%+"), w.pick("%}", "-%}", "%}", "+%}")
		tag := func(text string) { out.WriteString(open + " " + text + " " + shut) }
		kind := w.IntN(10)
		if depth <= 0 {
			kind = 0
		}
		switch kind {
		case 1:
			tag("if " + w.expression(1))
			out.WriteString(w.body(depth - 1))
			tag("else")
			out.WriteString(w.body(depth - 1))
			tag("endif")
		case 2:
			tag("for x in " + w.expression(1) + w.pick("", "", " if x", " if x is string"))
			out.WriteString(w.body(depth-1) + w.pick("", "{{ loop.last }}{{ loop.length }}", "{% if loop.index > 2 %}{% break %}{% endif %}"))
			tag("endfor")
		case 3:
			tag("set x = " + w.expression(2))
		case 4:
			tag("macro m(x, y=" + w.expression(1) + ")")
			out.WriteString(w.body(depth - 1))
			tag("endmacro")
			out.WriteString("{{ m(" + w.expression(1) + ") }}")
		case 5:
			tag("set x" + w.pick("", " | upper"))
			out.WriteString(w.body(depth - 1))
			tag("endset")
			out.WriteString("{{ x }}")
		case 6:
			out.WriteString("{#" + w.pick("", "-") + " c " + w.pick("", "-") + "#}")
		default:
			out.WriteString(w.pick("{{", "{{-", "{{") + " " + w.expression(3) + " " + w.pick("}}", "-}}", "}}"))
		}
	}
	return out.String()
}

// TestRandomTemplates compares renderings of random templates with Jinja2's.
func TestRandomTemplates(t *testing.T) {
	var record struct{ Variables json.RawMessage }
	raw, err := os.ReadFile("testdata/snippets.json")
	if err == nil {
		err = json.Unmarshal(raw, &record)
	}
	if err != nil {
		t.Fatal(err)
	}
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("go test -run TestRandomTemplates -seed %d", *seed)
	w := templateWriter{rand.New(rand.NewPCG(*seed, 0))}
	var cases []pythonCase
	for range *random {
		cases = append(cases, pythonCase{w.body(2), record.Variables})
	}
	texts, refusals, unequal := 0, 0, 0
	for i, want := range jinja2(t, cases) {
		text, err := renderJSON("random", cases[i].Source, record.Variables)
		if diff := difference(want, text, err); diff != "" {
			unequal++
			if unequal < 10 {
				t.Errorf("%s\n%s", cases[i].Source, diff)
			}
		}
		if want.Error == "" {
			texts++
		} else {
			refusals++
		}
	}
	t.Logf("%d texts and %d refusals of Jinja2's compared, %d differ", texts, refusals, unequal)
	if texts < *random/20 {
		t.Errorf("only %d of %d random templates render at all", texts, *random)
	}
}
