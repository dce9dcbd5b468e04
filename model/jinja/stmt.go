package jinja

// stmt is a part of a template that is carried out.
type stmt interface {
	exec(r *run, s *scope) flow
}

type dataStmt struct{ text string }

func (st *dataStmt) exec(r *run, _ *scope) flow {
	r.write(st.text)
	return flowOn
}

type outputStmt struct {
	of   expr
	line int
}

func (st *outputStmt) exec(r *run, s *scope) flow {
	r.line = st.line
	r.write(r.str(r.eval(st.of, s)))
	return flowOn
}

// lineStmt is a tag in the source.
type lineStmt struct {
	line int
	stmt
}

func (st *lineStmt) exec(r *run, s *scope) flow {
	r.line = st.line
	return st.stmt.exec(r, s)
}

type groupStmt []stmt

func (st groupStmt) exec(r *run, s *scope) flow { return r.block(st, s) }

type flowStmt flow

func (st flowStmt) exec(*run, *scope) flow { return flow(st) }

type ifStmt struct {
	tests     []expr
	bodies    [][]stmt
	otherwise []stmt
}

func (st *ifStmt) exec(r *run, s *scope) flow {
	for i, test := range st.tests {
		if truth(r.eval(test, s)) {
			return r.block(st.bodies[i], s)
		}
	}
	return r.block(st.otherwise, s)
}

// targetExpr is what is assigned to: a name, a namespace's attribute, or parts of a sequence.
type targetExpr struct {
	name, attribute string
	parts           []*targetExpr
}

func (r *run) assign(to *targetExpr, v any, s *scope) {
	switch {
	case to.parts != nil:
		items := r.items(v)
		if len(items) != len(to.parts) {
			fail("%d values for %d names", len(items), len(to.parts))
		}
		for i, part := range to.parts {
			r.assign(part, items[i], s)
		}
	case to.attribute != "":
		ns, ok := s.lookup(to.name).(*namespace)
		if !ok {
			fail("cannot assign attribute on non-namespace object %.40q", to.name)
		}
		ns.set(r, to.attribute, v)
	default:
		s.set(to.name, v)
	}
}

type setStmt struct {
	to    *targetExpr
	value expr
}

func (st *setStmt) exec(r *run, s *scope) flow {
	r.assign(st.to, r.eval(st.value, s), s)
	return flowOn
}

type setBlockStmt struct {
	to     *targetExpr
	filter expr
	body   []stmt
}

func (st *setBlockStmt) exec(r *run, s *scope) flow {
	var f flow
	var v any = r.captured(func() { f = r.block(st.body, &scope{parent: s}) })
	if f != flowOn {
		return f
	}
	if filter, ok := st.filter.(*filterExpr); ok {
		v = filter.over(r, s, v)
	}
	r.assign(st.to, v, s)
	return flowOn
}

type filterStmt struct {
	filter expr
	body   []stmt
}

func (st *filterStmt) exec(r *run, s *scope) flow {
	var f flow
	text := r.captured(func() { f = r.block(st.body, &scope{parent: s}) })
	if f != flowOn {
		return f
	}
	if filter, ok := st.filter.(*filterExpr); ok {
		r.write(r.str(filter.over(r, s, text)))
	}
	return flowOn
}

type withStmt struct {
	targets []*targetExpr
	values  []expr
	body    []stmt
}

func (st *withStmt) exec(r *run, s *scope) flow {
	inner := &scope{parent: s}
	for i, to := range st.targets {
		r.assign(to, r.eval(st.values[i], s), inner)
	}
	return r.block(st.body, inner)
}

// generationStmt marks what a model would write, for training, and changes nothing in the text.
type generationStmt struct{ body []stmt }

func (st *generationStmt) exec(r *run, s *scope) flow {
	return r.block(st.body, &scope{parent: s})
}

type macroDefinition struct {
	name     string
	params   []string
	defaults []expr // of the last parameters
	body     []stmt
	uses     specialNames
}

// macro is a macro with the variables around its definition.
type macro struct {
	of *macroDefinition
	in *scope
}

type macroStmt struct{ of *macroDefinition }

func (st *macroStmt) exec(_ *run, s *scope) flow {
	s.set(st.of.name, &macro{st.of, s})
	return flowOn
}

func (m *macro) call(r *run, a *arguments) any {
	r.step()
	r.calls++
	if r.calls > maxDepth {
		fail("macros call each other more than %d deep", maxDepth)
	}
	line := r.line
	s := m.variables(r, a)
	text := r.captured(func() { r.block(m.of.body, s) })
	r.calls--
	r.line = line
	return text
}

// variables binds a call's arguments.
func (m *macro) variables(r *run, a *arguments) *scope {
	s := &scope{parent: m.in}
	of := m.of
	named := newDict()
	for i, name := range a.names {
		named.set(name, a.named[i])
	}
	given := min(len(a.plain), len(of.params))
	var absent []int
	for i, param := range of.params {
		switch v, ok := named.get(param); {
		case i < given:
			s.set(param, a.plain[i])
		case ok:
			s.set(param, v)
		default:
			absent = append(absent, i)
		}
	}
	rest := newDict()
	for i, name := range a.names {
		at := indexOf(of.params, name)
		switch {
		case at >= given:
		case name == "caller" && of.uses.caller:
			s.set(name, a.named[i])
		case of.uses.kwargs:
			rest.set(name, a.named[i])
		default:
			fail("macro '%s' takes no keyword argument '%.60s'", of.name, name)
		}
	}
	if of.uses.caller && s.vars["caller"] == nil {
		s.set("caller", &undefined{message: "no caller defined"})
	}
	if of.uses.kwargs {
		s.set("kwargs", rest)
	}
	if of.uses.varargs {
		s.set("varargs", &sequence{kind: tupleKind, items: a.plain[given:]})
	} else if len(a.plain) > given {
		fail("macro '%s' takes not more than %d arguments", of.name, len(of.params))
	}
	for _, i := range absent {
		s.set(of.params[i], m.absent(r, s, i))
	}
	return s
}

// absent is the value of a parameter that was not given.
func (m *macro) absent(r *run, s *scope, param int) any {
	if i := param - (len(m.of.params) - len(m.of.defaults)); i >= 0 {
		return r.eval(m.of.defaults[i], s)
	}
	return &undefined{message: "parameter '" + m.of.params[param] + "' was not provided"}
}

func indexOf(list []string, name string) int {
	for i, s := range list {
		if s == name {
			return i
		}
	}
	return -1
}

// callStmt calls a macro that gets the body as its caller.
type callStmt struct {
	call *callExpr
	body *macroDefinition
}

func (st *callStmt) exec(r *run, s *scope) flow {
	callee := r.eval(st.call.callee, s)
	a := st.call.args.eval(r, s)
	a.name("caller", &macro{st.body, s})
	r.write(r.str(r.call(callee, a)))
	return flowOn
}
