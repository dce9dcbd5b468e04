package jinja

import (
	"slices"
	"strconv"
	"strings"
)

// reader returns a function that reads an attribute, which may be a path with dots; nil reads the item itself. fold makes text lower case. other stands for what is
// undefined, unless it is nil.
func (r *run) reader(attribute any, fold bool, other any) func(any) any {
	var parts []any
	if text, ok := textOf(attribute); ok {
		for part := range strings.SplitSeq(text, ".") {
			if n, err := strconv.ParseInt(part, 10, 64); err == nil && n >= 0 {
				parts = append(parts, n)
			} else {
				parts = append(parts, part)
			}
		}
	} else if attribute != nil {
		parts = []any{attribute}
	}
	return func(v any) any {
		for _, part := range parts {
			v = r.item(v, part)
			if other != nil && isUndefined(v) {
				v = other
			}
		}
		if text, ok := textOf(v); ok && fold {
			r.text(2 * len(text))
			return lower(text)
		}
		return v
	}
}

func batchFilter(r *run, v any, a *arguments) any {
	args := a.bind("batch", "linecount", "fill_with=")
	n := integerOf("linecount", args[0])
	if n < 1 {
		fail("batch takes a count of at least 1")
	}
	var out []any
	items := r.items(v)
	r.places(2 * len(items))
	for part := range slices.Chunk(items, n) {
		part = slices.Clone(part)
		if fill := or(args[1], nil); fill != nil && len(part) < n {
			r.places(n - len(part))
			for len(part) < n {
				part = append(part, fill)
			}
		}
		out = append(out, list(part...))
	}
	return generate(out)
}

func sliceFilter(r *run, v any, a *arguments) any {
	args := a.bind("slice", "slices", "fill_with=")
	n := integerOf("slices", args[0])
	items := r.items(v)
	if n < 1 {
		fail("slice takes a count of at least 1")
	}
	r.places(2*n + 2*len(items))
	each, more := len(items)/n, len(items)%n
	var out []any
	at := 0
	for i := range n {
		size := each
		if i < more {
			size++
		}
		part := slices.Clone(items[at : at+size])
		at += size
		if fill := or(args[1], nil); fill != nil && i >= more && more > 0 {
			part = append(part, fill)
		}
		out = append(out, list(part...))
	}
	return generate(out)
}

// generate returns a generator over items.
func generate(items []any) *generator { return &generator{over(items)} }

func dictSortFilter(r *run, v any, a *arguments) any {
	args := a.bind("dictsort", "case_sensitive=", "by=", "reverse=")
	by := textArgument("dictsort", or(args[1], "key"))
	if by != "key" && by != "value" {
		fail(`you can only sort by either "key" or "value"`)
	}
	d, ok := v.(*dict)
	if !ok {
		failUndefined(v)
		fail("dictsort of a value of type '%s'", typeName(v))
	}
	place := int64(0)
	if by == "value" {
		place = 1
	}
	return list(r.sorted(r.pairs(d), r.reader(place, !truth(or(args[0], false)), nil), truth(or(args[2], false)))...)
}

// sorted sorts as Python does: equal items stay in order, also when the order is reversed.
func (r *run) sorted(items []any, key func(any) any, reverse bool) []any {
	r.places(6 * len(items))
	type keyed struct{ key, item any }
	all := make([]keyed, len(items))
	for i, item := range items {
		all[i] = keyed{key(item), item}
	}
	slices.SortStableFunc(all, func(x, y keyed) int {
		order, _ := r.order(x.key, y.key, 0)
		if reverse {
			return -order
		}
		return order
	})
	out := make([]any, len(items))
	for i, k := range all {
		out[i] = k.item
	}
	return out
}

func sortFilter(r *run, v any, a *arguments) any {
	args := a.bind("sort", "reverse=", "case_sensitive=", "attribute=")
	fold := !truth(or(args[1], false))
	attribute := or(args[2], nil)
	paths := []any{attribute}
	if text, ok := textOf(attribute); ok {
		paths = nil
		for part := range strings.SplitSeq(text, ",") {
			paths = append(paths, part)
		}
	}
	readers := make([]func(any) any, len(paths))
	for i, path := range paths {
		readers[i] = r.reader(path, fold, nil)
	}
	key := func(v any) any {
		r.places(len(readers))
		keys := make([]any, len(readers))
		for i, read := range readers {
			keys[i] = read(v)
		}
		return list(keys...)
	}
	return list(r.sorted(r.items(v), key, truth(or(args[0], false)))...)
}

func firstFilter(r *run, v any, a *arguments) any {
	a.bind("first")
	if item, ok := r.iterate(v)(); ok {
		return item
	}
	return &undefined{message: "no first item, sequence was empty"}
}

func lastFilter(r *run, v any, a *arguments) any {
	a.bind("last")
	if _, ok := v.(*generator); ok {
		fail("'generator' object is not reversible")
	}
	if text, ok := textOf(v); ok {
		if c, ok := runeAt(text, -1); ok {
			return alike(v, c)
		}
	} else if items := r.items(v); len(items) > 0 {
		return items[len(items)-1]
	}
	return &undefined{message: "no last item, sequence was empty"}
}

// groupByFilter sorts by an attribute and returns a group for each value: a pair of the value and the items, which are also called grouper and list.
func groupByFilter(r *run, v any, a *arguments) any {
	args := a.bind("groupby", "attribute", "default=", "case_sensitive=")
	other := or(args[1], nil)
	folded, plain := r.reader(args[0], !truth(or(args[2], false)), other), r.reader(args[0], false, other)
	var out []any
	var group []any
	var key any
	add := func() {
		if len(group) > 0 {
			r.places(4 + len(group))
			pair := tuple(plain(group[0]), list(group...))
			pair.group = true
			out = append(out, pair)
		}
	}
	for _, item := range r.sorted(r.items(v), folded, false) {
		k := folded(item)
		if len(group) == 0 || !r.equal(k, key) {
			add()
			group, key = nil, k
		}
		group = append(group, item)
	}
	add()
	return list(out...)
}

func itemsFilter(r *run, v any, a *arguments) any {
	a.bind("items")
	switch v := v.(type) {
	case *undefined:
		return generate(nil)
	case *dict:
		return generate(r.pairs(v))
	}
	fail("can only get item pairs from a mapping, not from '%s'", typeName(v))
	return nil
}

func listFilter(r *run, v any, a *arguments) any {
	a.bind("list")
	items := r.items(v)
	r.places(len(items))
	return list(slices.Clone(items)...)
}

// each returns a generator of what change makes of v's items, as far as it says that it is to be kept.
func (r *run) each(v any, change func(any) (any, bool)) *generator {
	if !truth(v) {
		return generate(nil)
	}
	return r.through(v, change)
}

// through is each also for what is false, which may not be iterable.
func (r *run) through(v any, change func(any) (any, bool)) *generator {
	next := r.iterate(v)
	return &generator{func() (any, bool) {
		r.enter() // generators of generators are as deep as they are many
		defer r.leave()
		for item, ok := next(); ok; item, ok = next() {
			r.step()
			if out, keep := change(item); keep {
				return out, true
			}
		}
		return nil, false
	}}
}

func mapFilter(r *run, v any, a *arguments) any {
	if at := indexOf(a.names, "attribute"); at >= 0 && len(a.plain) == 0 {
		args := a.bind("map", "attribute=", "default=")
		read := r.reader(args[0], false, or(args[1], nil))
		return r.each(v, func(item any) (any, bool) { return read(item), true })
	}
	if len(a.plain) == 0 {
		fail("map requires a filter argument")
	}
	name := textArgument("map", a.plain[0])
	rest := &arguments{a.plain[1:], a.names, a.named}
	return r.each(v, func(item any) (any, bool) { return r.filter(name, item, rest), true })
}

// selectFilter makes select, reject and their forms that look at an attribute.
func selectFilter(keep, byAttribute bool) filter {
	return func(r *run, v any, a *arguments) any {
		rest := &arguments{a.plain, a.names, a.named}
		read := func(item any) any { return item }
		if byAttribute {
			if len(a.plain) == 0 {
				fail("missing parameter for attribute name")
			}
			read, rest.plain = r.reader(a.plain[0], false, nil), a.plain[1:]
		}
		is := truth
		if len(rest.plain) > 0 {
			name := textArgument("select", rest.plain[0])
			rest.plain = rest.plain[1:]
			is = func(v any) bool { return r.test(name, v, rest) }
		}
		return r.each(v, func(item any) (any, bool) { return item, is(read(item)) == keep })
	}
}

// extremeFilter makes min and max: the first item that no other is less, or greater, than.
func extremeFilter(op string) filter {
	return func(r *run, v any, a *arguments) any {
		args := a.bind("min", "case_sensitive=", "attribute=")
		key := r.reader(or(args[1], nil), !truth(or(args[0], false)), nil)
		next := r.iterate(v)
		best, ok := next()
		if !ok {
			return &undefined{message: "no aggregated item, sequence was empty"}
		}
		for item, ok := next(); ok; item, ok = next() {
			if r.compare(op, key(item), key(best)) {
				best = item
			}
		}
		return best
	}
}

func reverseFilter(r *run, v any, a *arguments) any {
	a.bind("reverse")
	text, ok := textOf(v)
	if ok {
		r.text(5 * len(text))
		runes := []rune(text)
		slices.Reverse(runes)
		return alike(v, string(runes))
	}
	items := slices.Clone(r.items(v))
	r.places(len(items))
	slices.Reverse(items)
	if _, isGenerator := v.(*generator); isGenerator {
		return list(items...)
	}
	return generate(items)
}

func sumFilter(r *run, v any, a *arguments) any {
	args := a.bind("sum", "attribute=", "start=")
	read := r.reader(or(args[0], nil), false, nil)
	total := or(args[1], int64(0))
	if isText(total) {
		fail("sum() can't sum strings")
	}
	next := r.iterate(v)
	for item, ok := next(); ok; item, ok = next() {
		total = r.binary("+", total, read(item))
	}
	return total
}

func uniqueFilter(r *run, v any, a *arguments) any {
	args := a.bind("unique", "case_sensitive=", "attribute=")
	key := r.reader(or(args[1], nil), !truth(or(args[0], false)), nil)
	seen := make(map[any]bool)
	return r.through(v, func(item any) (any, bool) {
		h := hashKey(key(item))
		if seen[h] {
			return nil, false
		}
		r.places(2)
		seen[h] = true
		return item, true
	})
}

// groupField reads the names of groupby's pairs.
func groupField(s *sequence, name string) (any, bool) {
	if !s.group {
		return nil, false
	}
	switch name {
	case "grouper":
		return s.items[0], true
	case "list":
		return s.items[1], true
	}
	return nil, false
}
