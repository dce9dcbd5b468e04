package demo

import (
	"fmt"
	"io"
	"strings"
)

// Plain writes updates as lines for files and dumb terminals: each line belongs to one tenant and says so; a line is written when it is full.
type Plain struct {
	w       io.Writer
	names   []string
	width   int
	pending []string
}

// NewPlain returns a writer for tenants, with lines of at most width columns.
func NewPlain(w io.Writer, tenants []Tenant, width int) *Plain {
	p := &Plain{w: w, pending: make([]string, len(tenants))}
	longest := 0
	for _, t := range tenants {
		longest = max(longest, len(t.Spec.ID))
	}
	for _, t := range tenants {
		p.names = append(p.names, fmt.Sprintf("%-*s", longest, t.Spec.ID))
	}
	const markBytes = 3
	p.width = max(20, width-longest-markBytes)
	return p
}

// Show writes what an update completes.
func (p *Plain) Show(u Update) {
	switch {
	case u.Question != "":
		fmt.Fprintf(p.w, "%s > %s\n", p.names[u.Tenant], u.Question)
	case u.Done != nil:
		p.line(u.Tenant, p.pending[u.Tenant])
		p.pending[u.Tenant] = ""
	default:
		text := p.pending[u.Tenant] + u.Text
		for len(text) > p.width {
			at := strings.LastIndexByte(text[:p.width+1], ' ')
			if at <= 0 {
				break
			}
			p.line(u.Tenant, text[:at])
			text = text[at+1:]
		}
		p.pending[u.Tenant] = text
	}
}

func (p *Plain) line(tenant int, text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintf(p.w, "%s | %s\n", p.names[tenant], strings.TrimRight(line, "\n"))
	}
}
