package jinja

import (
	"strings"
	"time"
)

// run is one rendering: where its output goes, and what it may still use.
type run struct {
	out      *strings.Builder
	now      func() time.Time
	until    time.Time
	limit    int // bytes of output, of a text, and places in a list
	alloc    int // bytes that may still be asked for
	work     int
	unlooked int // work since the last look at the clock
	steps    int
	calls    int // macros within each other now
	nested   int // nodes within each other now
	line     int
}

func newRun(now func() time.Time, inputBytes int) *run {
	return &run{out: &strings.Builder{}, now: now, until: now().Add(maxRender), limit: minOutputBytes + outputPerInput*inputBytes,
		alloc: minAllocBytes + allocPerInput*inputBytes, work: maxWork, steps: maxSteps}
}

// spend takes work, in bytes touched, off the budget.
func (r *run) spend(n int) {
	r.work -= n
	r.unlooked += n
	if r.work < 0 {
		fail("more work than a rendering may do")
	}
	if r.unlooked >= clockWork {
		r.look()
	}
}

func (r *run) look() {
	r.unlooked = 0
	if r.now().After(r.until) {
		fail("not done after %v", maxRender)
	}
}

// step is a loop's turn or a macro's call.
func (r *run) step() {
	r.steps--
	if r.steps < 0 {
		fail("more than %d steps", maxSteps)
	}
	r.look()
}

// text accounts for a new text of n bytes before it is made.
func (r *run) text(n int) {
	if n > r.limit || n < 0 {
		fail("a text of more than %d bytes", r.limit)
	}
	r.take(n)
}

// places accounts for n places of a new list before it is made.
func (r *run) places(n int) {
	const placeBytes = 16
	if n > r.limit/placeBytes || n < 0 {
		fail("a list of more than %d places", r.limit/placeBytes)
	}
	r.take(n * placeBytes)
}

func (r *run) take(bytes int) {
	r.spend(bytes)
	r.alloc -= bytes
	if r.alloc < 0 {
		fail("more memory than a rendering may use")
	}
}

func (r *run) write(text string) {
	if r.out.Len()+len(text) > r.limit {
		fail("output of more than %d bytes", r.limit)
	}
	r.take(len(text))
	r.out.WriteString(text)
}

// captured returns what f writes.
func (r *run) captured(f func()) string {
	outer := r.out
	r.out = &strings.Builder{}
	f()
	text := r.out.String()
	r.out = outer
	return text
}

func (r *run) enter() {
	r.nested++
	if r.nested > maxEvaluation {
		fail("expressions and tags are nested more than %d deep", maxEvaluation)
	}
	r.spend(nodeWork)
}

func (r *run) leave() { r.nested-- }

// eval evaluates an expression.
func (r *run) eval(e expr, s *scope) any {
	r.enter()
	v := e.eval(r, s)
	r.leave()
	return v
}

// block runs statements until one leaves the loop around them.
func (r *run) block(body []stmt, s *scope) flow {
	for _, st := range body {
		r.enter()
		f := st.exec(r, s)
		r.leave()
		if f != flowOn {
			return f
		}
	}
	return flowOn
}

// flow says how a statement went on.
type flow uint8

const (
	flowOn flow = iota
	flowBreak
	flowContinue
)

// scope holds variables that were set in a template, a macro or a loop's turn.
type scope struct {
	vars   map[string]any
	parent *scope
}

func (s *scope) set(name string, v any) {
	if s.vars == nil {
		s.vars = make(map[string]any)
	}
	s.vars[name] = v
}

func (s *scope) lookup(name string) any {
	for at := s; at != nil; at = at.parent {
		if v, ok := at.vars[name]; ok {
			return v
		}
	}
	return &undefined{message: "'" + name + "' is undefined"}
}
