package jinja

import (
	"fmt"
	"time"

	"github.com/nikolalohinski/gonja/v2/builtins"
	controls "github.com/nikolalohinski/gonja/v2/builtins/control_structures"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/parser"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// budgetKey is where a rendering's budget lies among its variables. No template can name it: it is not an identifier.
const budgetKey = " budget"

// budget is what a rendering may still use.
type budget struct {
	until time.Time
	now   func() time.Time
	steps int
	depth int
	bytes int // of one variable
}

// step is a node that stands at the beginning of every loop's and macro's body, and at the end of macros, where it takes the depth back.
type step struct {
	at    *tokens.Token
	depth int
}

func (s *step) Position() *tokens.Token { return s.at }
func (s *step) String() string          { return "step" }

func budgetOf(r *exec.Renderer) (*budget, error) {
	v, _ := r.Environment.Context.Get(budgetKey)
	b, ok := v.(*budget)
	if !ok {
		return nil, fmt.Errorf("rendering without a budget")
	}
	return b, nil
}

// Execute takes one step of the budget.
func (s *step) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	b, err := budgetOf(r)
	if err != nil {
		return err
	}
	b.steps--
	b.depth += s.depth
	switch {
	case b.steps < 0:
		return fmt.Errorf("more than %d steps", maxSteps)
	case b.depth > maxDepth:
		return fmt.Errorf("macros call each other more than %d deep", maxDepth)
	case b.now().After(b.until):
		return fmt.Errorf("not done after %v", maxRender)
	}
	return nil
}

func stepNode(at *tokens.Token, depth int) nodes.Node {
	return &nodes.ControlStructureBlock{Location: at, Name: "step", ControlStructure: &step{at, depth}}
}

// controlStructures are the language's own without those that read other templates, with loops, macros and variables under a budget.
func controlStructures() *exec.ControlStructureSet {
	set := make(map[string]parser.ControlStructureParser)
	for _, name := range [...]string{"autoescape", "filter", "if", "raw", "with", "do", "break", "continue", "call"} {
		if p, ok := builtins.ControlStructures.Get(name); ok {
			set[name] = p
		}
	}
	set["for"] = wrapped("for", func(c nodes.ControlStructure) nodes.ControlStructure {
		if f, ok := c.(*controls.ForControlStructure); ok {
			// A loop that calls itself could go deeper than any stack, and break would go round a count of its depth.
			f.Recursive = false
			f.BodyWrapper.Nodes = append([]nodes.Node{stepNode(f.BodyWrapper.Location, 0)}, f.BodyWrapper.Nodes...)
		}
		return c
	})
	set["macro"] = wrapped("macro", func(c nodes.ControlStructure) nodes.ControlStructure {
		if m, ok := c.(*controls.MacroControlStructure); ok {
			body := append([]nodes.Node{stepNode(m.Location, 1)}, m.Wrapper.Nodes...)
			m.Wrapper.Nodes = append(body, stepNode(m.Location, -1))
		}
		return c
	})
	set["set"] = boundedSet
	set["generation"] = generation
	return exec.NewControlStructureSet(set)
}

// wrapped parses with the language's own parser and changes what comes out.
func wrapped(name string, change func(nodes.ControlStructure) nodes.ControlStructure) parser.ControlStructureParser {
	return func(p, args *parser.Parser) (nodes.ControlStructure, error) {
		inner, ok := builtins.ControlStructures.Get(name)
		if !ok {
			return nil, fmt.Errorf("no control structure %q", name)
		}
		c, err := inner(p, args)
		if err != nil {
			return nil, err
		}
		return change(c), nil
	}
}

// assignment is a set whose variable may not outgrow the budget: doubling a text forty times would fill any memory.
type assignment struct {
	nodes.ControlStructure
	inner exec.ControlStructure
	name  string
}

// Execute assigns, then looks at what became of the variable, or of a namespace's variables.
func (a *assignment) Execute(r *exec.Renderer, tag *nodes.ControlStructureBlock) error {
	b, err := budgetOf(r)
	if err != nil {
		return err
	}
	if err := a.inner.Execute(r, tag); err != nil {
		return err
	}
	v, _ := r.Environment.Context.Get(a.name)
	size := sizeOf(v)
	if fields, ok := v.(map[string]any); ok {
		for _, f := range fields {
			size = max(size, sizeOf(f))
		}
	}
	if size > b.bytes {
		return fmt.Errorf("variable %q holds more than %d bytes", a.name, b.bytes)
	}
	return nil
}

// sizeOf returns the bytes of a text and the length of a list.
func sizeOf(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case []any:
		return len(v)
	case *exec.Value:
		if v.IsString() {
			return len(v.String())
		}
		if v.IsList() {
			return v.Len()
		}
	}
	return 0
}

func boundedSet(p, args *parser.Parser) (nodes.ControlStructure, error) {
	name := ""
	if t := args.Current(tokens.Name); t != nil {
		name = t.Val
	}
	return wrapped("set", func(c nodes.ControlStructure) nodes.ControlStructure {
		if inner, ok := c.(exec.ControlStructure); ok {
			return &assignment{c, inner, name}
		}
		return c
	})(p, args)
}

// passage is {% generation %}: it marks what a model would write, for training, and changes nothing in the text.
type passage struct{ body *nodes.Wrapper }

func (g *passage) Position() *tokens.Token { return g.body.Location }
func (g *passage) String() string          { return "generation" }

// Execute renders the body.
func (g *passage) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	return r.ExecuteWrapper(g.body)
}

func generation(p, args *parser.Parser) (nodes.ControlStructure, error) {
	if !args.End() {
		return nil, args.Error("generation takes no arguments", nil)
	}
	body, _, err := p.WrapUntil("endgeneration")
	if err != nil {
		return nil, err
	}
	return &passage{body}, nil
}
