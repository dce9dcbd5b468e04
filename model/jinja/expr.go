package jinja

import "strings"

// expr is an expression of a template.
type expr interface {
	eval(r *run, s *scope) any
}

type constExpr struct{ value any }

func (e *constExpr) eval(*run, *scope) any { return e.value }

type nameExpr struct{ name string }

func (e *nameExpr) eval(_ *run, s *scope) any { return s.lookup(e.name) }

type listExpr struct {
	items []expr
	kind  sequenceKind
}

func (e *listExpr) eval(r *run, s *scope) any {
	r.places(len(e.items))
	out := make([]any, len(e.items))
	for i, item := range e.items {
		out[i] = r.eval(item, s)
	}
	return &sequence{kind: e.kind, items: out}
}

type dictExpr struct{ keys, values []expr }

func (e *dictExpr) eval(r *run, s *scope) any {
	r.places(4 * len(e.keys))
	d := newDict()
	for i, key := range e.keys {
		k := r.eval(key, s)
		d.set(k, r.eval(e.values[i], s))
	}
	return d
}

type attributeExpr struct {
	of   expr
	name string
}

func (e *attributeExpr) eval(r *run, s *scope) any { return r.attribute(r.eval(e.of, s), e.name) }

type itemExpr struct{ of, index expr }

func (e *itemExpr) eval(r *run, s *scope) any {
	of := r.eval(e.of, s)
	return r.item(of, r.eval(e.index, s))
}

type sliceExpr struct{ of, from, to, step expr }

func (e *sliceExpr) eval(r *run, s *scope) any {
	of := r.eval(e.of, s)
	var bounds [3]any
	for i, b := range [...]expr{e.from, e.to, e.step} {
		if b != nil {
			bounds[i] = r.eval(b, s)
		}
	}
	return r.slice(of, bounds[0], bounds[1], bounds[2])
}

type conditionalExpr struct{ test, yes, no expr }

func (e *conditionalExpr) eval(r *run, s *scope) any {
	switch {
	case truth(r.eval(e.test, s)):
		return r.eval(e.yes, s)
	case e.no != nil:
		return r.eval(e.no, s)
	}
	return &undefined{message: "the inline if-expression evaluated to false and no else section was defined"}
}

// logicExpr is "or", or else "and".
type logicExpr struct {
	left, right expr
	or          bool
}

func (e *logicExpr) eval(r *run, s *scope) any {
	left := r.eval(e.left, s)
	if truth(left) == e.or {
		return left
	}
	return r.eval(e.right, s)
}

type notExpr struct{ of expr }

func (e *notExpr) eval(r *run, s *scope) any { return !truth(r.eval(e.of, s)) }

type signExpr struct {
	of    expr
	minus bool
}

func (e *signExpr) eval(r *run, s *scope) any {
	v := r.eval(e.of, s)
	n, f, isFloat, ok := number(v)
	switch {
	case !ok:
		failUndefined(v)
		fail("bad operand type for a sign: '%s'", typeName(v))
	case isFloat && e.minus:
		return -f
	case isFloat:
		return f
	case e.minus:
		return subtract(0, n)
	}
	return n
}

type compareExpr struct {
	first expr
	ops   []string
	rest  []expr
}

func (e *compareExpr) eval(r *run, s *scope) any {
	left := r.eval(e.first, s)
	for i, op := range e.ops {
		right := r.eval(e.rest[i], s)
		if !r.compare(op, left, right) {
			return false
		}
		left = right
	}
	return true
}

type binaryExpr struct {
	op          string
	left, right expr
}

func (e *binaryExpr) eval(r *run, s *scope) any {
	left := r.eval(e.left, s)
	return r.binary(e.op, left, r.eval(e.right, s))
}

type concatExpr struct{ parts []expr }

func (e *concatExpr) eval(r *run, s *scope) any {
	texts, size := make([]string, len(e.parts)), 0
	for i, part := range e.parts {
		texts[i] = r.str(r.eval(part, s))
		size += len(texts[i])
	}
	r.text(size)
	return strings.Join(texts, "")
}

// argumentList are a call's arguments: those without a name, those with one, a list and a dict of more.
type argumentList struct {
	plain      []expr
	names      []string
	named      []expr
	list, dict expr
}

func (a *argumentList) eval(r *run, s *scope) *arguments {
	out := &arguments{}
	for _, e := range a.plain {
		out.plain = append(out.plain, r.eval(e, s))
	}
	for i, e := range a.named {
		out.name(a.names[i], r.eval(e, s))
	}
	if a.list != nil {
		out.plain = append(out.plain, r.items(r.eval(a.list, s))...)
	}
	if a.dict != nil {
		d, ok := r.eval(a.dict, s).(*dict)
		if !ok {
			fail("arguments behind ** must be a mapping")
		}
		for i, key := range d.keys {
			name, ok := textOf(key)
			if !ok {
				fail("keywords must be strings")
			}
			out.name(name, d.values[i])
		}
	}
	return out
}

type callExpr struct {
	callee expr
	args   *argumentList
}

func (e *callExpr) eval(r *run, s *scope) any {
	callee := r.eval(e.callee, s)
	return r.call(callee, e.args.eval(r, s))
}

// call calls a function, a method, a macro or a recursive loop.
func (r *run) call(callee any, a *arguments) any {
	r.spend(nodeWork)
	switch f := callee.(type) {
	case *function:
		return f.call(r, a)
	case *macro:
		return f.call(r, a)
	case *loopContext:
		return f.call(r, a)
	}
	failUndefined(callee)
	fail("'%s' object is not callable", typeName(callee))
	return nil
}

func failUndefined(v any) {
	if u, ok := v.(*undefined); ok {
		fail("%s", u.message)
	}
}

// filterExpr applies a filter. Within a filter block or a set block, of is nil at the innermost.
type filterExpr struct {
	of   expr
	name string
	args *argumentList
}

func (e *filterExpr) eval(r *run, s *scope) any {
	if e.of == nil {
		fail("filter %s has nothing to work on", e.name)
	}
	v := r.eval(e.of, s)
	return r.filter(e.name, v, e.args.eval(r, s))
}

// over applies the filter, and those before it, to a body's text.
func (e *filterExpr) over(r *run, s *scope, text any) any {
	if inner, ok := e.of.(*filterExpr); ok {
		text = inner.over(r, s, text)
	}
	return r.filter(e.name, text, e.args.eval(r, s))
}

func (r *run) filter(name string, v any, a *arguments) any {
	f, ok := filters[name]
	if !ok {
		fail("no filter named %.40q", name)
	}
	r.spend(nodeWork)
	return f(r, v, a)
}

type testExpr struct {
	of      expr
	name    string
	args    *argumentList
	negated bool
}

func (e *testExpr) eval(r *run, s *scope) any {
	v := r.eval(e.of, s)
	return r.test(e.name, v, e.args.eval(r, s)) != e.negated
}

func (r *run) test(name string, v any, a *arguments) bool {
	f, ok := tests[name]
	if !ok {
		fail("no test named %.40q", name)
	}
	r.spend(nodeWork)
	return f(r, v, a)
}
