package jinja

import (
	"fmt"
	"strings"
	"time"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// refusal is a template's own word that it cannot render what it was given.
type refusal struct{ message string }

func (r *refusal) Error() string { return r.message }

// raiseException is what templates call on conversations that the model was not made for.
func raiseException(_ *exec.Evaluator, args *exec.VarArgs) *exec.Value {
	message := "the template refuses this conversation"
	if len(args.Args) > 0 {
		message = args.Args[0].String()
	}
	return exec.AsValue(&refusal{message})
}

// boundedRange is Python's range as a list of limited length.
func boundedRange(_ *exec.Evaluator, args *exec.VarArgs) ([]int, error) {
	bounds := [3]int{0, 0, 1}
	n := len(args.Args)
	if n < 1 || n > 3 {
		return nil, fmt.Errorf("range takes one to three integers")
	}
	for i, a := range args.Args {
		if !a.IsInteger() {
			return nil, fmt.Errorf("range takes integers")
		}
		bounds[i] = a.Integer()
	}
	start, stop, step := bounds[0], bounds[1], bounds[2]
	if n == 1 {
		start, stop = 0, bounds[0]
	}
	if step == 0 {
		return nil, fmt.Errorf("range with a step of 0")
	}
	var out []int
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		if len(out) == maxRange {
			return nil, fmt.Errorf("range of more than %d numbers", maxRange)
		}
		out = append(out, i)
	}
	return out, nil
}

// strftime formats a time by the directives of C's strftime that templates use; others stay as they are.
func strftime(t time.Time, format string) string {
	layouts := map[byte]string{'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'd': "02", 'e': "_2", 'H': "15", 'I': "03", 'j': "002", 'm': "01", 'M': "04",
		'p': "PM", 'S': "05", 'y': "06", 'Y': "2006", 'Z': "MST", 'z': "-0700", 'F': "2006-01-02", 'T': "15:04:05"}
	var out strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			out.WriteByte(format[i])
			continue
		}
		i++
		switch layout, ok := layouts[format[i]]; {
		case ok:
			out.WriteString(t.Format(layout))
		case format[i] == '%':
			out.WriteByte('%')
		case format[i] == '-' && i+1 < len(format) && layouts[format[i+1]] != "":
			i++
			out.WriteString(strings.TrimLeft(t.Format(layouts[format[i]]), "0 "))
		default:
			out.WriteByte('%')
			out.WriteByte(format[i])
		}
	}
	return out.String()
}
