package jinja

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
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
