// Package jinja renders chat templates, which are Jinja2 programs that come with model files, as the transformers library does: Jinja2 in its sandbox without mutable
// values, with trimmed blocks, loop controls, {% generation %} and a tojson without escapes for HTML. A rendering is bounded: no files, no endless loops or recursion,
// no output or memory beyond a limit.
package jinja

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrTemplate is a template that cannot be parsed or rendered, or that refuses what it was given. It is wrapped with the template's name and the reason.
var ErrTemplate = errors.New("chat template failed")

// Limits of templates.
const (
	maxSourceBytes = 1 << 20
	maxReasonBytes = 512
	maxNesting     = 200     // of tags and expressions within each other in the source
	maxSteps       = 1 << 18 // loop turns and macro calls of one rendering
	maxWork        = 1 << 30 // bytes touched and, by nodeWork each, nodes evaluated
	maxDepth       = 64      // macro calls within each other
	maxEvaluation  = 10000   // nodes within each other while rendering
	maxData        = 500     // lists and objects within each other
	maxRange       = 100_000 // Jinja2's own limit
	maxWidth       = 1 << 16 // of padding
	maxRender      = 2 * time.Second
	minOutputBytes = 1 << 20 // output, and each text or list, whatever the input's size
	outputPerInput = 8       // output allowed for each byte of input
	minAllocBytes  = 1 << 26 // memory that one rendering may ask for, all together
	allocPerInput  = 256
	nodeWork       = 16
	clockWork      = 1 << 16 // work between two looks at the clock
)

// Template is a parsed template. It is safe for concurrent use.
type Template struct {
	name string
	body []stmt
	now  func() time.Time
}

// failure is how the package's own code gives up; it is raised as a panic and becomes an error at the package's edge.
type failure struct{ message string }

func (f *failure) Error() string { return f.message }

// fail gives up with a message for people.
func fail(format string, args ...any) {
	panic(&failure{fmt.Sprintf(format, args...)})
}

// caught turns a panic into an error that names the template. line is where it happened, if known.
func caught(p any, name, doing string, line int) error {
	f, ok := p.(*failure)
	if !ok {
		return fmt.Errorf("%w: %s: %s failed: %v", ErrTemplate, name, doing, p)
	}
	message := f.message
	if len(message) > maxReasonBytes {
		message = strings.ToValidUTF8(message[:maxReasonBytes], "") + " ..."
	}
	if line > 0 {
		return fmt.Errorf("%w: %s: line %d: %s", ErrTemplate, name, line, message)
	}
	return fmt.Errorf("%w: %s: %s", ErrTemplate, name, message)
}

// Parse parses a template; name stands for it in errors. now is the clock of strftime_now.
func Parse(name, source string, now func() time.Time) (t *Template, err error) {
	if len(source) > maxSourceBytes {
		return nil, fmt.Errorf("%w: %s: %d bytes of source, at most %d are read", ErrTemplate, name, len(source), maxSourceBytes)
	}
	line := 0
	defer func() {
		if p := recover(); p != nil {
			t, err = nil, caught(p, name, "parser", line)
		}
	}()
	p := &parser{tokens: lex(source, &line), line: &line}
	return &Template{name: name, body: p.template(), now: now}, nil
}

// Render renders the template over variables: nil, booleans, numbers, strings, slices, maps with string keys (whose keys come sorted) and Objects (whose order stays).
// inputBytes is the size of what they hold; the output may be some times larger, not more.
func (t *Template) Render(variables map[string]any, inputBytes int) (text string, err error) {
	r := newRun(t.now, inputBytes)
	defer func() {
		if p := recover(); p != nil {
			text, err = "", caught(p, t.name, "renderer", r.line)
		}
	}()
	root := &scope{vars: make(map[string]any, len(variables)+8)}
	for k, v := range builtins(r) {
		root.vars[k] = v
	}
	for k, v := range variables {
		root.vars[k] = fromGo(v, 0)
	}
	r.block(t.body, &scope{parent: root})
	return r.out.String(), nil
}
