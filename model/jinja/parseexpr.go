package jinja

import (
	"slices"
	"strconv"
	"strings"
)

// literalNames are names that stand for values.
var literalNames = map[string]any{"true": true, "True": true, "false": false, "False": false, "none": nil, "None": nil}

// tuple parses an expression, or several with commas between them. end is a name that ends it, besides the ends of tags and ")".
func (p *parser) tuple(conditional bool, end string) expr {
	list, several := p.commaSeparated(conditional, end)
	switch {
	case several:
		return &listExpr{list, tupleKind}
	case len(list) == 0:
		fail("expected an expression, got %s", p.describe())
	}
	return list[0]
}

func (p *parser) commaSeparated(conditional bool, end string) (list []expr, several bool) {
	for {
		if k := p.current().kind; k == tokBlockEnd || k == tokVariableEnd || p.isOperator(")") || end != "" && p.isName(end) {
			return list, several
		}
		if conditional {
			list = append(list, p.expression())
		} else {
			list = append(list, p.or())
		}
		if !p.skipOperator(",") {
			return list, several
		}
		several = true
	}
}

func (p *parser) expression() expr {
	p.deeper()
	defer p.shallower()
	e := p.or()
	for p.skipName("if") {
		test := p.or()
		var otherwise expr
		if p.skipName("else") {
			otherwise = p.expression()
		}
		e = &conditionalExpr{test, e, otherwise}
	}
	return e
}

func (p *parser) or() expr {
	left := p.and()
	for p.skipName("or") {
		left = &logicExpr{left, p.and(), true}
	}
	return left
}

func (p *parser) and() expr {
	left := p.not()
	for p.skipName("and") {
		left = &logicExpr{left, p.not(), false}
	}
	return left
}

func (p *parser) not() expr {
	if !p.skipName("not") {
		return p.compare()
	}
	p.deeper()
	defer p.shallower()
	return &notExpr{p.not()}
}

func (p *parser) compare() expr {
	first := p.sum()
	c := &compareExpr{first: first}
	for {
		op := p.current().text
		switch {
		case p.current().kind == tokOperator && slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, op):
			p.next()
		case p.skipName("in"):
		case p.isName("not") && p.look() == (token{tokName, p.look().line, "in"}):
			p.next()
			p.next()
			op = "not in"
		case len(c.ops) == 0:
			return first
		default:
			return c
		}
		c.ops, c.rest = append(c.ops, op), append(c.rest, p.sum())
	}
}

// chainOf parses operands with left-associative operators between them.
func (p *parser) chainOf(operand func() expr, ops ...string) expr {
	left := operand()
	for p.current().kind == tokOperator && slices.Contains(ops, p.current().text) {
		op := p.next().text
		left = &binaryExpr{op, left, operand()}
	}
	return left
}

func (p *parser) sum() expr { return p.chainOf(p.concat, "+", "-") }

func (p *parser) concat() expr {
	list := []expr{p.product()}
	for p.skipOperator("~") {
		list = append(list, p.product())
	}
	if len(list) == 1 {
		return list[0]
	}
	return &concatExpr{list}
}

func (p *parser) product() expr { return p.chainOf(p.power, "*", "/", "//", "%") }

func (p *parser) power() expr {
	return p.chainOf(func() expr { return p.unary(true) }, "**")
}

// unary parses a sign, or an operand with what stands behind it; filters bind to the outermost sign.
func (p *parser) unary(filters bool) expr {
	p.deeper()
	defer p.shallower()
	var e expr
	switch {
	case p.skipOperator("-"):
		e = &signExpr{p.unary(false), true}
	case p.skipOperator("+"):
		e = &signExpr{p.unary(false), false}
	default:
		e = p.primary()
	}
	e = p.postfix(e)
	if filters {
		e = p.filters(e)
	}
	return e
}

func (p *parser) primary() expr {
	t := p.current()
	switch t.kind {
	case tokName:
		p.next()
		if v, ok := literalNames[t.text]; ok {
			return &constExpr{v}
		}
		p.uses.caller = p.uses.caller || t.text == "caller"
		p.uses.varargs = p.uses.varargs || t.text == "varargs"
		p.uses.kwargs = p.uses.kwargs || t.text == "kwargs"
		return &nameExpr{t.text}
	case tokString:
		var text strings.Builder
		for p.current().kind == tokString {
			text.WriteString(p.next().text)
		}
		return &constExpr{text.String()}
	case tokInteger, tokFloat:
		p.next()
		return &constExpr{numberOf(t)}
	}
	switch {
	case p.skipOperator("("):
		list, several := p.commaSeparated(true, "")
		p.expectOperator(")")
		if len(list) == 1 && !several {
			return list[0]
		}
		return &listExpr{list, tupleKind}
	case p.skipOperator("["):
		return &listExpr{p.listItems("]"), listKind}
	case p.skipOperator("{"):
		return p.object()
	}
	fail("unexpected %s", p.describe())
	return nil
}

func numberOf(t token) any {
	if t.kind == tokFloat {
		f, _ := strconv.ParseFloat(t.text, 64) // beyond the range it is an infinity, as in Python
		return f
	}
	n, err := strconv.ParseInt(t.text, 0, 64)
	if err != nil {
		fail("integer %.40s is beyond 64 bits", t.text)
	}
	return n
}

func (p *parser) listItems(end string) []expr {
	var list []expr
	for !p.isOperator(end) {
		if len(list) > 0 {
			p.expectOperator(",")
			if p.isOperator(end) {
				break
			}
		}
		list = append(list, p.expression())
	}
	p.expectOperator(end)
	return list
}

func (p *parser) object() expr {
	d := &dictExpr{}
	for !p.isOperator("}") {
		if len(d.keys) > 0 {
			p.expectOperator(",")
			if p.isOperator("}") {
				break
			}
		}
		d.keys = append(d.keys, p.expression())
		p.expectOperator(":")
		d.values = append(d.values, p.expression())
	}
	p.expectOperator("}")
	return d
}

func (p *parser) postfix(e expr) expr {
	for {
		switch {
		case p.skipOperator("."):
			t := p.next()
			switch t.kind {
			case tokName:
				e = &attributeExpr{e, t.text}
			case tokInteger:
				e = &itemExpr{e, &constExpr{numberOf(t)}}
			default:
				fail("expected a name or a number behind the dot")
			}
		case p.skipOperator("["):
			e = p.subscript(e)
		case p.isOperator("("):
			e = &callExpr{e, p.arguments()}
		default:
			return e
		}
	}
}

func (p *parser) subscript(of expr) expr {
	var list []expr
	var slice *sliceExpr
	for !p.isOperator("]") {
		if len(list) > 0 {
			p.expectOperator(",")
		}
		var from expr
		if !p.isOperator(":") {
			from = p.expression()
		}
		if !p.skipOperator(":") {
			list = append(list, from)
			continue
		}
		slice = &sliceExpr{of: of, from: from, to: p.bound()}
		if p.skipOperator(":") {
			slice.step = p.bound()
		}
		list = append(list, nil)
	}
	p.expectOperator("]")
	switch {
	case slice != nil && len(list) > 1:
		fail("a slice among several subscripts")
	case slice != nil:
		return slice
	case len(list) == 1:
		return &itemExpr{of, list[0]}
	}
	return &itemExpr{of, &listExpr{list, tupleKind}}
}

// bound parses a slice's bound, which may be left out.
func (p *parser) bound() expr {
	if p.isOperator(":") || p.isOperator("]") || p.isOperator(",") {
		return nil
	}
	return p.expression()
}

func (p *parser) arguments() *argumentList {
	a := &argumentList{}
	p.expectOperator("(")
	for count := 0; !p.isOperator(")"); count++ {
		if count > 0 {
			p.expectOperator(",")
			if p.isOperator(")") {
				break
			}
		}
		switch {
		case p.skipOperator("*"):
			if a.list != nil || a.dict != nil {
				fail("two lists of arguments in one call")
			}
			a.list = p.expression()
		case p.skipOperator("**"):
			if a.dict != nil {
				fail("two dicts of arguments in one call")
			}
			a.dict = p.expression()
		case p.current().kind == tokName && p.look().kind == tokOperator && p.look().text == "=":
			if a.dict != nil {
				fail("a named argument behind a dict of them")
			}
			name := p.next().text
			p.next()
			a.names, a.named = append(a.names, name), append(a.named, p.expression())
		default:
			if a.list != nil || a.dict != nil || len(a.names) > 0 {
				fail("an argument without a name behind named ones")
			}
			a.plain = append(a.plain, p.expression())
		}
	}
	p.expectOperator(")")
	return a
}

// filters parses filters, tests and calls behind an expression.
func (p *parser) filters(e expr) expr {
	for {
		switch {
		case p.isOperator("|"):
			e = p.filter(e, false)
		case p.isName("is"):
			e = p.test(e)
		case p.isOperator("("):
			e = &callExpr{e, p.arguments()}
		default:
			return e
		}
	}
}

// filter parses filters one behind the other. inline says that the first has no "|" before it.
func (p *parser) filter(e expr, inline bool) expr {
	for inline || p.skipOperator("|") {
		inline = false
		f := &filterExpr{of: e, name: p.dottedName(), args: &argumentList{}}
		if p.isOperator("(") {
			f.args = p.arguments()
		}
		e = f
	}
	return e
}

func (p *parser) dottedName() string {
	name := p.name()
	for p.skipOperator(".") {
		name += "." + p.name()
	}
	return name
}

func (p *parser) test(e expr) expr {
	p.next()
	negated := p.skipName("not")
	t := &testExpr{of: e, name: p.dottedName(), args: &argumentList{}, negated: negated}
	next := p.current()
	switch {
	case p.isOperator("("):
		t.args = p.arguments()
	case next.kind == tokString, next.kind == tokInteger, next.kind == tokFloat, p.isOperator("["), p.isOperator("{"),
		next.kind == tokName && !slices.Contains([]string{"else", "or", "and"}, next.text):
		if next.kind == tokName && next.text == "is" {
			fail("tests cannot be chained with is")
		}
		t.args = &argumentList{plain: []expr{p.postfix(p.primary())}}
	}
	return t
}
