// Package jinja renders chat templates, which are Jinja programs that come with model files, within bounds: no files, no endless loops or recursion, no output
// beyond a limit.
package jinja

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/loaders"
)

// ErrTemplate is a template that cannot be parsed or rendered, or that refuses what it was given. It is wrapped with the template's name and the reason.
var ErrTemplate = errors.New("chat template failed")

// Limits of templates.
const (
	maxSourceBytes = 1 << 20
	maxReasonBytes = 512
	maxSteps       = 1 << 18 // loop turns and macro calls of one rendering
	maxDepth       = 64      // macro calls within each other
	maxRange       = 1 << 16
	maxReplaced    = 1 << 24 // bytes that replacements may put into a text
	maxRender      = 2 * time.Second
	minOutputBytes = 1 << 20 // output allowed whatever the input's size
	outputPerInput = 8       // output allowed for each byte of input
)

// Template is a parsed template. It is safe for concurrent use.
type Template struct {
	name string
	exec *exec.Template
	now  func() time.Time
}

// Parse parses a template; name stands for it in errors. now is the clock of strftime_now.
func Parse(name, source string, now func() time.Time) (t *Template, err error) {
	defer func() {
		if p := recover(); p != nil {
			t, err = nil, fmt.Errorf("%w: %s: parser failed: %v", ErrTemplate, name, p)
		}
	}()
	if len(source) > maxSourceBytes {
		return nil, fmt.Errorf("%w: %s: %d bytes of source, at most %d are read", ErrTemplate, name, len(source), maxSourceBytes)
	}
	c := config.New()
	// These are what the transformers library sets, and what model authors test with.
	c.TrimBlocks, c.LeftStripBlocks, c.KeepTrailingNewline = true, true, false
	env, err := environment(now)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrTemplate, name, err)
	}
	inner, err := exec.NewTemplate(name, c, loader{name, source}, env)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %s", ErrTemplate, name, reason(err, source))
	}
	return &Template{name: name, exec: inner, now: now}, nil
}

// reason is an error's text without the template's source, which the library puts into it. Of a long one the end is kept: the cause comes last.
func reason(err error, source string) string {
	text := strings.TrimSpace(strings.ReplaceAll(err.Error(), "failed to parse template '"+source+"': ", ""))
	if len(text) > maxReasonBytes {
		text = "... " + strings.ToValidUTF8(text[len(text)-maxReasonBytes:], "")
	}
	return text
}

// Render renders the template over variables. inputBytes is the size of what they hold; the output may be some times larger, not more.
func (t *Template) Render(variables map[string]any, inputBytes int) (text string, err error) {
	defer func() {
		if p := recover(); p != nil {
			text, err = "", fmt.Errorf("%w: %s: renderer failed: %v", ErrTemplate, t.name, p)
		}
	}()
	limit := minOutputBytes + outputPerInput*inputBytes
	b := &budget{until: t.now().Add(maxRender), now: t.now, steps: maxSteps, bytes: limit}
	ctx := exec.NewContext(map[string]any{budgetKey: b})
	for k, v := range variables {
		ctx.Set(k, v)
	}
	out := &limitedBuffer{limit: limit}
	if err := t.exec.Execute(out, ctx); err != nil {
		var refused *refusal
		if errors.As(err, &refused) {
			return "", fmt.Errorf("%w: %s: %s", ErrTemplate, t.name, refused.message)
		}
		return "", fmt.Errorf("%w: %s: %s", ErrTemplate, t.name, reason(err, ""))
	}
	return out.String(), nil
}

// limitedBuffer refuses to grow beyond its limit.
type limitedBuffer struct {
	bytes.Buffer
	limit int
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.limit {
		return 0, fmt.Errorf("output of more than %d bytes", b.limit)
	}
	return b.Buffer.Write(p)
}

// WriteString keeps io.WriteString from going round the limit.
func (b *limitedBuffer) WriteString(s string) (int, error) { return b.Write([]byte(s)) }

// loader knows the template itself and no other file.
type loader struct{ name, source string }

func (l loader) Read(path string) (io.Reader, error) {
	if path != l.name {
		return nil, fmt.Errorf("a chat template cannot read %q", path)
	}
	return strings.NewReader(l.source), nil
}

func (l loader) Resolve(path string) (string, error) { return path, nil }

func (l loader) Inherit(string) (loaders.Loader, error) { return l, nil }

// environment is what templates may use: the language's own filters, tests and methods, without those that reach files or make output from nothing.
func environment(now func() time.Time) (*exec.Environment, error) {
	filters := exec.NewFilterSet(map[string]exec.FilterFunction{}).Update(builtins.Filters)
	if err := filters.Replace("tojson", toJSON); err != nil {
		return nil, err
	}
	methods := builtins.Methods
	methods.Str = textMethods()
	functions := exec.EmptyContext().Update(builtins.GlobalFunctions)
	functions.Set("range", boundedRange)
	functions.Set("lipsum", nil)
	functions.Set("raise_exception", raiseException)
	functions.Set("strftime_now", func(format string) string { return strftime(now(), format) })
	return &exec.Environment{Context: functions, Filters: filters, Tests: builtins.Tests, ControlStructures: controlStructures(), Methods: methods}, nil
}
