package jinja

import "slices"

// parser turns tokens into statements, by Jinja2's grammar.
type parser struct {
	tokens []token
	pos    int
	line   *int
	nested int
	// loops counts the loops around the place in the same macro, which break and continue need.
	loops int
	// uses are the special names that the macro around the place reads.
	uses specialNames
}

// specialNames are the variables that a macro has only if its body reads them.
type specialNames struct{ caller, varargs, kwargs bool }

func (p *parser) current() token { return p.tokens[p.pos] }

func (p *parser) look() token { return p.tokens[min(p.pos+1, len(p.tokens)-1)] }

// next returns the current token and goes on to the one behind it.
func (p *parser) next() token {
	t := p.current()
	if t.kind != tokEOF {
		p.pos++
	}
	*p.line = p.current().line
	return t
}

func (p *parser) is(kind tokenKind, text string) bool {
	t := p.current()
	return t.kind == kind && t.text == text
}

func (p *parser) isOperator(text string) bool { return p.is(tokOperator, text) }
func (p *parser) isName(text string) bool     { return p.is(tokName, text) }

func (p *parser) skip(kind tokenKind, text string) bool {
	if !p.is(kind, text) {
		return false
	}
	p.next()
	return true
}

func (p *parser) skipOperator(text string) bool { return p.skip(tokOperator, text) }
func (p *parser) skipName(text string) bool     { return p.skip(tokName, text) }

func (p *parser) expectOperator(text string) {
	if !p.skipOperator(text) {
		fail("expected %q, got %s", text, p.describe())
	}
}

func (p *parser) expectName(text string) {
	if !p.skipName(text) {
		fail("expected %q, got %s", text, p.describe())
	}
}

func (p *parser) name() string {
	if p.current().kind != tokName {
		fail("expected a name, got %s", p.describe())
	}
	return p.next().text
}

func (p *parser) describe() string {
	t := p.current()
	switch t.kind {
	case tokEOF:
		return "the end of the template"
	case tokBlockEnd, tokVariableEnd:
		return "the end of the tag"
	case tokString:
		return "a string"
	}
	if len(t.text) > 40 {
		return "a long word"
	}
	return "\"" + t.text + "\""
}

// deeper bounds the nesting of what is parsed, and with it the parser's own stack; the caller calls shallower when done.
func (p *parser) deeper() {
	p.nested++
	if p.nested > maxNesting {
		fail("tags and expressions are nested more than %d deep", maxNesting)
	}
}

func (p *parser) shallower() { p.nested-- }

func (p *parser) template() []stmt {
	body := p.statements()
	if p.current().kind != tokEOF {
		fail("unexpected %s", p.describe())
	}
	return body
}

// statements parses up to a tag whose name is one of ends, which becomes the current token, or up to the template's end if there are none.
func (p *parser) statements(ends ...string) []stmt {
	p.deeper()
	defer p.shallower()
	var body []stmt
	for {
		t := p.current()
		switch t.kind {
		case tokEOF:
			if len(ends) > 0 {
				fail("the template ends where %v was expected", ends)
			}
			return body
		case tokData:
			p.next()
			body = append(body, &dataStmt{t.text})
		case tokVariableBegin:
			p.next()
			body = append(body, &outputStmt{p.tuple(true, ""), t.line})
			if p.next().kind != tokVariableEnd {
				fail("expected the end of the expression's tag")
			}
		default:
			p.next()
			if p.current().kind == tokName && slices.Contains(ends, p.current().text) {
				return body
			}
			body = append(body, &lineStmt{t.line, p.statement()})
			p.blockEnd()
		}
	}
}

func (p *parser) blockEnd() {
	if p.current().kind != tokBlockEnd {
		fail("expected the end of the tag, got %s", p.describe())
	}
	p.next()
}

// body parses statements behind the end of the current tag up to one of ends, and returns which it was. The current token stands behind its name.
func (p *parser) body(ends ...string) ([]stmt, string) {
	p.skipOperator(":")
	p.blockEnd()
	list := p.statements(ends...)
	return list, p.next().text
}

func (p *parser) statement() stmt {
	if p.current().kind != tokName {
		fail("expected a tag's name, got %s", p.describe())
	}
	switch name := p.next().text; name {
	case "for":
		return p.forLoop()
	case "if":
		return p.branches()
	case "set":
		return p.assignment()
	case "macro":
		return p.macro()
	case "call":
		return p.callBlock()
	case "filter":
		f := p.filter(nil, true)
		body, _ := p.body("endfilter")
		return &filterStmt{f, body}
	case "with":
		return p.with()
	case "print":
		var list []stmt
		for p.current().kind != tokBlockEnd {
			if len(list) > 0 {
				p.expectOperator(",")
			}
			list = append(list, &outputStmt{p.expression(), p.current().line})
		}
		return groupStmt(list)
	case "generation":
		return &generationStmt{p.apart("endgeneration")}
	case "break", "continue":
		if p.loops == 0 {
			fail("%s outside of a loop", name)
		}
		if name == "break" {
			return flowStmt(flowBreak)
		}
		return flowStmt(flowContinue)
	case "include", "import", "from", "extends", "block":
		fail("a chat template cannot use other templates: {%% %s %%}", name)
	default:
		fail("unknown tag %.40q", name)
	}
	return nil
}

// apart parses a body that is a function of its own: loops around it are out of reach.
func (p *parser) apart(end string) []stmt {
	loops := p.loops
	p.loops = 0
	body, _ := p.body(end)
	p.loops = loops
	return body
}

func (p *parser) forLoop() stmt {
	f := &forStmt{target: p.target("in", false)}
	p.expectName("in")
	f.list = p.tuple(false, "recursive")
	if p.skipName("if") {
		f.test = p.expression()
	}
	f.recursive = p.skipName("recursive")
	p.loops++
	var end string
	f.body, end = p.body("endfor", "else")
	p.loops--
	if end == "else" {
		f.otherwise, _ = p.body("endfor")
	}
	return f
}

func (p *parser) branches() stmt {
	s := &ifStmt{}
	for {
		test := p.tuple(false, "")
		body, end := p.body("elif", "else", "endif")
		s.tests, s.bodies = append(s.tests, test), append(s.bodies, body)
		switch end {
		case "else":
			s.otherwise, _ = p.body("endif")
			return s
		case "endif":
			return s
		}
	}
}

func (p *parser) assignment() stmt {
	to := p.target("", true)
	if p.skipOperator("=") {
		return &setStmt{to, p.tuple(true, "")}
	}
	var filter expr
	if p.isOperator("|") {
		filter = p.filter(nil, false)
	}
	body, _ := p.body("endset")
	return &setBlockStmt{to, filter, body}
}

func (p *parser) with() stmt {
	s := &withStmt{}
	for p.current().kind != tokBlockEnd {
		if len(s.targets) > 0 {
			p.expectOperator(",")
		}
		s.targets = append(s.targets, p.target("", false))
		p.expectOperator("=")
		s.values = append(s.values, p.expression())
	}
	s.body, _ = p.body("endwith")
	return s
}

func (p *parser) macro() stmt {
	m := &macroDefinition{name: p.name()}
	p.signature(m)
	p.macroBody(m, "endmacro")
	return &macroStmt{m}
}

func (p *parser) callBlock() stmt {
	m := &macroDefinition{name: "caller"}
	if p.isOperator("(") {
		p.signature(m)
	}
	call, ok := p.expression().(*callExpr)
	if !ok {
		fail("expected a call behind call")
	}
	p.macroBody(m, "endcall")
	return &callStmt{call, m}
}

func (p *parser) macroBody(m *macroDefinition, end string) {
	outer := p.uses
	p.uses = specialNames{}
	m.body = p.apart(end)
	m.uses = p.uses
	p.uses = specialNames{outer.caller || m.uses.caller, outer.varargs || m.uses.varargs, outer.kwargs || m.uses.kwargs}
}

func (p *parser) signature(m *macroDefinition) {
	p.expectOperator("(")
	for !p.isOperator(")") {
		if len(m.params) > 0 {
			p.expectOperator(",")
		}
		m.params = append(m.params, p.assignable())
		switch {
		case p.skipOperator("="):
			m.defaults = append(m.defaults, p.expression())
		case len(m.defaults) > 0:
			fail("a parameter without a default behind one that has one")
		}
	}
	p.expectOperator(")")
}

// assignable parses a name that may be set.
func (p *parser) assignable() string {
	name := p.name()
	if _, literal := literalNames[name]; literal {
		fail("can't assign to %q", name)
	}
	return name
}

// target parses what is assigned to: a name, a namespace's attribute where allowed, or several of them. end is the name that ends it.
func (p *parser) target(end string, namespaces bool) *targetExpr {
	p.deeper()
	defer p.shallower()
	var parts []*targetExpr
	several := false
	for {
		if p.current().kind == tokBlockEnd || p.isOperator(")") || end != "" && p.isName(end) {
			break
		}
		if p.skipOperator("(") {
			inner := p.target("", namespaces)
			p.expectOperator(")")
			parts = append(parts, inner)
		} else {
			part := &targetExpr{name: p.assignable()}
			if namespaces && p.skipOperator(".") {
				part.attribute = p.name()
			}
			parts = append(parts, part)
		}
		if !p.skipOperator(",") {
			break
		}
		several = true
	}
	if len(parts) == 1 && !several {
		return parts[0]
	}
	if len(parts) == 0 {
		fail("expected what to assign to, got %s", p.describe())
	}
	return &targetExpr{parts: parts}
}
