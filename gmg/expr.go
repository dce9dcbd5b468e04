package gmg

import (
	"fmt"
	"strconv"
	"strings"
)

// String writes the expression for people: "2048*T + 4*T*C". An empty expression is "0".
func (e Expr) String() string {
	var b strings.Builder
	for _, m := range e {
		text := m.String()
		switch {
		case b.Len() == 0:
			b.WriteString(text)
		case strings.HasPrefix(text, "-"):
			b.WriteString(" - " + text[1:])
		default:
			b.WriteString(" + " + text)
		}
	}
	if b.Len() == 0 {
		return "0"
	}
	return b.String()
}

// String writes one term: "4*T*C^2", the factor left out where it is 1.
func (m Term) String() string {
	var parts []string
	for _, v := range [...]struct {
		name  string
		power uint8
	}{{"T", m.PowT}, {"S", m.PowS}, {"C", m.PowC}} {
		switch v.power {
		case 0:
		case 1:
			parts = append(parts, v.name)
		default:
			parts = append(parts, fmt.Sprintf("%s^%d", v.name, v.power))
		}
	}
	factor := strconv.FormatFloat(m.Coef, 'f', -1, 64)
	switch {
	case len(parts) == 0:
		return factor
	case m.Coef == 1:
		return strings.Join(parts, "*")
	case m.Coef == -1:
		return "-" + strings.Join(parts, "*")
	}
	return factor + "*" + strings.Join(parts, "*")
}

var opKindNames = [...]string{"invalid", "embedding", "norm", "linear", "rope", "attention", "activation", "residual", "router", "experts",
	"head", "sample"}

// String returns the kind's name in listings.
func (k OpKind) String() string {
	if int(k) >= len(opKindNames) {
		return fmt.Sprintf("op(%d)", uint8(k))
	}
	return opKindNames[k]
}
