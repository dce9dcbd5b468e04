package jinja

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/exec"
)

// stringMethod is a method of Python's strings.
type stringMethod = exec.Method[string]

// textMethods are the library's methods of strings, with those that templates of chats use most put right: white space is stripped and split at when nothing else is named, and replace counts.
func textMethods() *exec.MethodSet[string] {
	set := make(map[string]stringMethod)
	for _, name := range [...]string{"capitalize", "casefold", "center", "count", "encode", "endswith", "expandtabs", "find", "format", "index", "isalnum", "isalpha", "isascii", "isdecimal", "isdigit",
		"isidentifier", "islower", "isnumeric", "isprintable", "isspace", "istitle", "isupper", "join", "ljust", "lower", "partition", "removeprefix", "removesuffix", "rfind", "rindex",
		"rjust", "rpartition", "rsplit", "splitlines", "startswith", "swapcase", "title", "upper", "zfill"} {
		if m, ok := builtins.Methods.Str.Get(name); ok {
			set[name] = m
		}
	}
	for _, name := range [...]string{"center", "ljust", "rjust", "zfill"} {
		if m, ok := set[name]; ok {
			set[name] = boundedWidth(name, m)
		}
	}
	set["strip"] = stripMethod(true, true)
	set["lstrip"] = stripMethod(true, false)
	set["rstrip"] = stripMethod(false, true)
	set["replace"] = replaceMethod
	set["split"] = splitMethod
	return exec.NewMethodSet(set)
}

// boundedWidth keeps padding from filling memory.
func boundedWidth(name string, m stringMethod) stringMethod {
	return func(self string, value *exec.Value, args *exec.VarArgs) (any, error) {
		if len(args.Args) > 0 && args.Args[0].IsInteger() && args.Args[0].Integer() > maxRange {
			return nil, fmt.Errorf("%s to more than %d characters", name, maxRange)
		}
		return m(self, value, args)
	}
}

func stripMethod(left, right bool) stringMethod {
	return func(self string, _ *exec.Value, args *exec.VarArgs) (any, error) {
		in := unicode.IsSpace
		if len(args.Args) > 0 && !args.Args[0].IsNil() {
			set := args.Args[0].String()
			in = func(r rune) bool { return strings.ContainsRune(set, r) }
		}
		if left {
			self = strings.TrimLeftFunc(self, in)
		}
		if right {
			self = strings.TrimRightFunc(self, in)
		}
		return self, nil
	}
}

func replaceMethod(self string, _ *exec.Value, args *exec.VarArgs) (any, error) {
	if len(args.Args) < 2 {
		return nil, fmt.Errorf("replace takes what to replace, by what, and how often")
	}
	count := -1
	if len(args.Args) > 2 && args.Args[2].IsInteger() {
		count = args.Args[2].Integer()
	}
	old, by := args.Args[0].String(), args.Args[1].String()
	if hits := strings.Count(self, old); hits > 0 && len(by) > 0 && hits > maxReplaced/len(by) {
		return nil, fmt.Errorf("replace would make more than %d bytes", maxReplaced)
	}
	return strings.Replace(self, old, by, count), nil
}

func splitMethod(self string, _ *exec.Value, args *exec.VarArgs) (any, error) {
	limit := -1
	if len(args.Args) > 1 && args.Args[1].IsInteger() {
		limit = args.Args[1].Integer()
	}
	if v, ok := args.KwArgs["maxsplit"]; ok && v.IsInteger() {
		limit = v.Integer()
	}
	if limit >= 0 {
		limit++
	}
	if len(args.Args) > 0 && !args.Args[0].IsNil() {
		sep := args.Args[0].String()
		if sep == "" {
			return nil, fmt.Errorf("split at an empty text")
		}
		return strings.SplitN(self, sep, limit), nil
	}
	if limit < 0 {
		return strings.Fields(self), nil
	}
	return splitFields(self, limit), nil
}

// splitFields is split at white space into at most n parts.
func splitFields(text string, n int) []string {
	var out []string
	text = strings.TrimLeftFunc(text, unicode.IsSpace)
	for text != "" {
		cut := strings.IndexFunc(text, unicode.IsSpace)
		if cut < 0 || len(out) == n-1 {
			return append(out, strings.TrimRightFunc(text, unicode.IsSpace))
		}
		out = append(out, text[:cut])
		text = strings.TrimLeftFunc(text[cut:], unicode.IsSpace)
	}
	return out
}

// toJSON is json.dumps(value, ensure_ascii=False): a space behind commas and colons, no escapes for HTML.
func toJSON(_ *exec.Evaluator, in *exec.Value, args *exec.VarArgs) *exec.Value {
	if in.IsError() {
		return in
	}
	var raw bytes.Buffer
	e := json.NewEncoder(&raw)
	e.SetEscapeHTML(false)
	simple := in.ToGoSimpleType(false)
	if err, failed := simple.(error); failed {
		return exec.AsValue(err)
	}
	if err := e.Encode(simple); err != nil {
		return exec.AsValue(err)
	}
	compact := bytes.TrimSuffix(raw.Bytes(), []byte("\n"))
	if v, ok := args.KwArgs["indent"]; ok && v.IsInteger() && v.Integer() >= 0 && v.Integer() <= maxDepth {
		var out bytes.Buffer
		if err := json.Indent(&out, compact, "", strings.Repeat(" ", v.Integer())); err != nil {
			return exec.AsValue(err)
		}
		return exec.AsSafeValue(out.String())
	}
	return exec.AsSafeValue(spaced(compact))
}

// spaced puts a space behind each comma and colon outside of texts.
func spaced(compact []byte) string {
	var out strings.Builder
	inText, escaped := false, false
	for _, b := range compact {
		out.WriteByte(b)
		switch {
		case escaped:
			escaped = false
		case inText && b == '\\':
			escaped = true
		case b == '"':
			inText = !inText
		case !inText && (b == ',' || b == ':'):
			out.WriteByte(' ')
		}
	}
	return out.String()
}
