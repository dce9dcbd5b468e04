package jinja

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// pythonCase is a template with its variables, as testdata/render.py reads it.
type pythonCase struct {
	Source    string          `json:"source"`
	Variables json.RawMessage `json:"variables"`
}

// reference is what Jinja2 made of a case: a text, or an error.
type reference struct {
	Text  string `json:"text,omitempty"`
	Error string `json:"error,omitempty"`
}

// jinja2 renders cases with Python's Jinja2, or skips the test where that is not there.
func jinja2(t *testing.T, cases []pythonCase) []reference {
	t.Helper()
	if out, err := exec.Command("python3", "-c", "import jinja2; assert jinja2.__version__ >= '3.1.6'").CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		t.Skipf("not compared with Jinja2: no python3 with jinja2 3.1.6 or newer (%v: %s)", err, lines[len(lines)-1])
	}
	in, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", "testdata/render.py")
	var problems bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &problems
	raw, err := cmd.Output()
	var out []reference
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil || len(out) != len(cases) {
		t.Fatalf("render.py: %v, %d of %d results, %s", err, len(out), len(cases), problems.Bytes())
	}
	return out
}

func writeJSON(t *testing.T, path string, v any) {
	t.Helper()
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err := e.Encode(v)
	if err == nil {
		err = os.WriteFile(path, out.Bytes(), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// snippet is a small template and what Jinja2 made of it.
type snippet struct {
	Source string `json:"source"`
	reference
}

// TestSnippets compares small templates, one for each corner of the language, with what Jinja2 made of them.
func TestSnippets(t *testing.T) {
	const path = "testdata/snippets.json"
	var record struct {
		Variables json.RawMessage `json:"variables"`
		Cases     []snippet       `json:"cases"`
	}
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, &record)
	}
	if err != nil || len(record.Cases) == 0 {
		t.Fatal(err)
	}
	if *update {
		var inputs []pythonCase
		for _, c := range record.Cases {
			inputs = append(inputs, pythonCase{c.Source, record.Variables})
		}
		for i, out := range jinja2(t, inputs) {
			record.Cases[i].reference = out
		}
		writeJSON(t, path, record)
	}
	for _, c := range record.Cases {
		text, err := renderJSON("snippet", c.Source, record.Variables)
		if diff := difference(c.reference, text, err); diff != "" {
			t.Errorf("%s\n%s", c.Source, diff)
		}
	}
}

// difference says how a rendering differs from Jinja2's. Both must fail, or both give the same text; the words of errors may differ.
func difference(want reference, text string, err error) string {
	switch {
	case err != nil && strings.Contains(err.Error(), "runtime error"):
		return "a bug: " + err.Error()
	case want.Error != "" && err == nil:
		return "got  " + strconv.Quote(text) + "\nwant the error " + want.Error
	case want.Error == "" && err != nil:
		return "got  " + err.Error() + "\nwant " + strconv.Quote(want.Text)
	case want.Error == "" && text != want.Text:
		return "got  " + strconv.Quote(text) + "\nwant " + strconv.Quote(want.Text)
	}
	return ""
}
