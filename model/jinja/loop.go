package jinja

type forStmt struct {
	target    *targetExpr
	list      expr
	test      expr
	body      []stmt
	otherwise []stmt
	recursive bool
}

func (st *forStmt) exec(r *run, s *scope) flow {
	st.turns(r, s, r.eval(st.list, s), 0)
	return flowOn
}

// turns runs the loop over a list's items; depth counts the loops of the same tag around it.
func (st *forStmt) turns(r *run, s *scope, items any, depth int) {
	c := &loopContext{r: r, next: r.iterate(items), depth: depth, of: st, in: s}
	if st.test == nil {
		c.counted = items
	} else {
		c.next = st.filtered(r, s, c.next)
	}
	none := true
	for item, ok := c.advance(); ok; item, ok = c.advance() {
		none = false
		r.step()
		turn := &scope{parent: s}
		turn.set("loop", c)
		r.assign(st.target, item, turn)
		if r.block(st.body, turn) == flowBreak {
			break
		}
	}
	if none {
		r.block(st.otherwise, &scope{parent: s})
	}
}

// filtered leaves out the items for which the loop's test fails. Items are tested when they are asked for.
func (st *forStmt) filtered(r *run, s *scope, next func() (any, bool)) func() (any, bool) {
	return func() (any, bool) {
		for item, ok := next(); ok; item, ok = next() {
			r.step()
			turn := &scope{parent: s}
			r.assign(st.target, item, turn)
			if truth(r.eval(st.test, turn)) {
				return item, true
			}
		}
		return nil, false
	}
}

// loopContext is the variable loop.
type loopContext struct {
	r        *run
	next     func() (any, bool)
	ahead    []any // items that were looked at before their turn
	counted  any   // what has a length, or nil
	index    int   // from 1
	previous any
	at       any
	changed  []any
	depth    int
	of       *forStmt
	in       *scope
}

func (c *loopContext) advance() (any, bool) {
	item, ok := c.peek()
	if !ok {
		return nil, false
	}
	c.ahead = c.ahead[1:]
	c.previous, c.at = c.at, item
	c.index++
	return item, true
}

func (c *loopContext) peek() (any, bool) {
	if len(c.ahead) > 0 {
		return c.ahead[0], true
	}
	item, ok := c.next()
	if ok {
		c.ahead = append(c.ahead, item)
	}
	return item, ok
}

// length counts all items, also of what cannot be counted without going through it.
func (c *loopContext) length() int {
	switch c.counted.(type) {
	case string, markup, *sequence, *dict, *undefined:
		return c.r.length(c.counted)
	}
	for item, ok := c.next(); ok; item, ok = c.next() {
		c.r.places(1)
		c.ahead = append(c.ahead, item)
	}
	return c.index + len(c.ahead)
}

// iterate goes on with the loop's own items.
func (c *loopContext) iterate() func() (any, bool) { return c.advance }

func (c *loopContext) attribute(name string) (any, bool) {
	switch name {
	case "index":
		return int64(c.index), true
	case "index0":
		return int64(c.index - 1), true
	case "revindex":
		return int64(c.length() - c.index + 1), true
	case "revindex0":
		return int64(c.length() - c.index), true
	case "length":
		return int64(c.length()), true
	case "depth":
		return int64(c.depth + 1), true
	case "depth0":
		return int64(c.depth), true
	case "first":
		return c.index == 1, true
	case "last":
		_, more := c.peek()
		return !more, true
	case "previtem":
		if c.index == 1 {
			return &undefined{message: "there is no previous item"}, true
		}
		return c.previous, true
	case "nextitem":
		if item, ok := c.peek(); ok {
			return item, true
		}
		return &undefined{message: "there is no next item"}, true
	case "cycle":
		return &function{"cycle", c.cycle}, true
	case "changed":
		return &function{"changed", c.isChanged}, true
	}
	return nil, false
}

func (c *loopContext) cycle(_ *run, a *arguments) any {
	if len(a.plain) == 0 {
		fail("no items for cycling given")
	}
	return a.plain[(c.index-1)%len(a.plain)]
}

func (c *loopContext) isChanged(r *run, a *arguments) any {
	same := c.changed != nil && r.equal(list(c.changed...), list(a.plain...))
	c.changed = append(make([]any, 0, len(a.plain)+1), a.plain...)
	return !same
}

// call runs a recursive loop over other items and returns what it writes.
func (c *loopContext) call(r *run, a *arguments) any {
	if !c.of.recursive {
		fail("the loop must have the 'recursive' marker to be called")
	}
	items := a.bind("loop", "iterable")[0]
	r.calls++
	if r.calls > maxDepth {
		fail("loops call themselves more than %d deep", maxDepth)
	}
	text := r.captured(func() { c.of.turns(r, c.in, items, c.depth+1) })
	r.calls--
	return text
}
