package jinja

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokEOF tokenKind = iota
	tokData
	tokVariableBegin
	tokVariableEnd
	tokBlockBegin
	tokBlockEnd
	tokName
	tokString
	tokInteger
	tokFloat
	tokOperator
)

type token struct {
	kind tokenKind
	line int
	text string
}

// lexer cuts a source into tokens. White space around tags goes as in Jinja2 with trim_blocks and lstrip_blocks: the first line end behind a block's tag, and white space
// between a line's beginning and a block's tag, unless "+" stands in the tag; "-" takes all white space on its side.
type lexer struct {
	source string
	pos    int
	// lineStart says that what was read last ended with a line's end.
	lineStart bool
	line      *int
	tokens    []token
}

var (
	rawBegin = regexp.MustCompile(`\A\{%([-+]?)\s*raw\s*(?:-%\}\s*|%\})`)
	rawEnd   = regexp.MustCompile(`\{%([-+]?)\s*endraw\s*(?:\+%\}|-%\}\s*|%\}\n?)`)
	float    = regexp.MustCompile(`\A(?:(?:[0-9]+_)*[0-9]+(?:\.(?:[0-9]+_)*[0-9]+)?[eE][-+]?(?:[0-9]+_)*[0-9]+|(?:[0-9]+_)*[0-9]+\.(?:[0-9]+_)*[0-9]+)`)
	integer  = regexp.MustCompile(`\A(?:0[bB](?:_?[01])+|0[oO](?:_?[0-7])+|0[xX](?:_?[0-9a-fA-F])+|[1-9](?:_?[0-9])*|0(?:_?0)*)`)
)

var operators = []string{"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";"}

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// lex returns a source's tokens, the last being tokEOF. line follows where it is.
func lex(source string, line *int) []token {
	source = strings.TrimSuffix(lineEnds.Replace(source), "\n")
	l := &lexer{source: source, lineStart: true, line: line}
	*line = 1
	for l.pos < len(source) {
		l.outside()
	}
	l.emit(tokEOF, "")
	return l.tokens
}

func (l *lexer) emit(kind tokenKind, text string) {
	l.tokens = append(l.tokens, token{kind, *l.line, text})
}

// advance passes over n bytes.
func (l *lexer) advance(n int) {
	passed := l.source[l.pos : l.pos+n]
	*l.line += strings.Count(passed, "\n")
	if n > 0 {
		l.lineStart = passed[n-1] == '\n'
	}
	l.pos += n
}

// data emits the text before a tag.
func (l *lexer) data(text string, sign byte, variable bool) {
	switch {
	case sign == '-':
		text = strings.TrimRightFunc(text, isSpace)
	case sign != '+' && !variable:
		from := strings.LastIndexByte(text, '\n') + 1
		if (from > 0 || l.lineStart) && strings.TrimLeftFunc(text[from:], isSpace) == "" {
			text = text[:from]
		}
	}
	if text != "" {
		l.emit(tokData, text)
	}
}

// outside reads text up to and with the next tag.
func (l *lexer) outside() {
	rest := l.source[l.pos:]
	at := 0
	for {
		next := strings.IndexByte(rest[at:], '{')
		if next < 0 || at+next+1 >= len(rest) {
			l.emit(tokData, rest)
			l.advance(len(rest))
			return
		}
		at += next
		if c := rest[at+1]; c == '%' || c == '{' || c == '#' {
			break
		}
		at++
	}
	text, tag := rest[:at], rest[at:]
	if tag[1] == '%' {
		if m := rawBegin.FindStringSubmatch(tag); m != nil {
			l.data(text, signOf(m[1]), false)
			l.advance(at + len(m[0]))
			l.raw()
			return
		}
	}
	sign := byte(0)
	if len(tag) > 2 && (tag[2] == '-' || tag[2] == '+') {
		sign = tag[2]
	}
	l.data(text, sign, tag[1] == '{')
	l.advance(at + 2)
	if sign != 0 {
		l.advance(1)
	}
	switch tag[1] {
	case '#':
		l.comment()
	case '%':
		l.emit(tokBlockBegin, "")
		l.inside(tokBlockEnd)
	default:
		l.emit(tokVariableBegin, "")
		l.inside(tokVariableEnd)
	}
}

func signOf(group string) byte {
	if group == "" {
		return 0
	}
	return group[0]
}

func (l *lexer) raw() {
	rest := l.source[l.pos:]
	m := rawEnd.FindStringSubmatchIndex(rest)
	if m == nil {
		fail("missing end of raw directive")
	}
	l.data(rest[:m[0]], signOf(rest[m[2]:m[3]]), false)
	l.advance(m[1])
}

func (l *lexer) comment() {
	rest := l.source[l.pos:]
	at := strings.Index(rest, "#}")
	if at < 0 {
		fail("missing end of comment tag")
	}
	sign := byte(0)
	if at > 0 {
		sign = rest[at-1]
	}
	l.advance(at + 2)
	l.behind(sign, true)
}

// behind passes over white space behind a tag that ended with a sign.
func (l *lexer) behind(sign byte, trimLine bool) {
	rest := l.source[l.pos:]
	switch {
	case sign == '-':
		l.advance(len(rest) - len(strings.TrimLeftFunc(rest, isSpace)))
	case sign != '+' && trimLine && strings.HasPrefix(rest, "\n"):
		l.advance(1)
	}
}

// inside reads a tag's tokens up to its end.
func (l *lexer) inside(end tokenKind) {
	closing := "%}"
	if end == tokVariableEnd {
		closing = "}}"
	}
	var open []byte // brackets that must be closed before the tag may end
	for l.pos < len(l.source) {
		rest := l.source[l.pos:]
		if len(open) == 0 {
			if sign, ok := tagEnd(rest, closing, end); ok {
				l.emit(end, "")
				n := len(closing)
				if sign != 0 {
					n++
				}
				l.advance(n)
				l.behind(sign, end == tokBlockEnd)
				return
			}
		}
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case isSpace(r):
			l.advance(size)
		case r == '\'' || r == '"':
			l.quoted(byte(r))
		case r >= '0' && r <= '9':
			l.number()
		case isWord(r):
			l.word()
		default:
			open = l.operator(open)
		}
	}
}

func tagEnd(rest, closing string, end tokenKind) (sign byte, ok bool) {
	if strings.HasPrefix(rest, closing) {
		return 0, true
	}
	if len(rest) > 0 && (rest[0] == '-' || rest[0] == '+' && end == tokBlockEnd) && strings.HasPrefix(rest[1:], closing) {
		return rest[0], true
	}
	return 0, false
}

func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

func (l *lexer) word() {
	rest := l.source[l.pos:]
	n := strings.IndexFunc(rest, func(r rune) bool { return !isWord(r) && !unicode.IsMark(r) })
	if n < 0 {
		n = len(rest)
	}
	if first, _ := utf8.DecodeRuneInString(rest); unicode.IsDigit(first) {
		fail("invalid character in identifier %.40q", rest[:n])
	}
	l.emit(tokName, rest[:n])
	l.advance(n)
}

func (l *lexer) number() {
	rest := l.source[l.pos:]
	if l.source[l.pos-1] != '.' {
		if m := float.FindString(rest); m != "" {
			l.emit(tokFloat, strings.ReplaceAll(m, "_", ""))
			l.advance(len(m))
			return
		}
	}
	m := integer.FindString(rest)
	l.emit(tokInteger, strings.ReplaceAll(m, "_", ""))
	l.advance(len(m))
}

func (l *lexer) operator(open []byte) []byte {
	rest := l.source[l.pos:]
	i := slices.IndexFunc(operators, func(op string) bool { return strings.HasPrefix(rest, op) })
	if i < 0 {
		r, _ := utf8.DecodeRuneInString(rest)
		fail("unexpected character %q", r)
	}
	op := operators[i]
	switch op {
	case "{":
		open = append(open, '}')
	case "(":
		open = append(open, ')')
	case "[":
		open = append(open, ']')
	case "}", ")", "]":
		if len(open) == 0 || open[len(open)-1] != op[0] {
			fail("unexpected %q", op)
		}
		open = open[:len(open)-1]
	}
	l.emit(tokOperator, op)
	l.advance(len(op))
	return open
}

func (l *lexer) quoted(quote byte) {
	rest := l.source[l.pos:]
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case quote:
			l.emit(tokString, unescape(rest[1:i]))
			l.advance(i + 1)
			return
		}
	}
	fail("a string without an end")
}

var plainEscapes = map[byte]string{'n': "\n", 't': "\t", 'r': "\r", '\\': "\\", '\'': "'", '"': "\"", 'a': "\a", 'b': "\b", 'f': "\f", 'v': "\v", '\n': ""}

// unescape resolves Python's escapes of strings. Those it does not know stay.
func unescape(text string) string {
	if !strings.Contains(text, "\\") {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			out.WriteByte(text[i])
			continue
		}
		i++
		if plain, ok := plainEscapes[text[i]]; ok {
			out.WriteString(plain)
			continue
		}
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[text[i]]
		switch {
		case digits > 0:
			i++
			code := uint64(unicode.MaxRune + 1)
			if i+digits <= len(text) {
				if n, err := strconv.ParseUint(text[i:i+digits], 16, 32); err == nil {
					code = n
				}
			}
			if code > unicode.MaxRune {
				fail("an escape of %d digits that names no character", digits)
			}
			out.WriteRune(rune(code))
			i += digits - 1
		case text[i] >= '0' && text[i] <= '7':
			n := 1
			for n < 3 && i+n < len(text) && text[i+n] >= '0' && text[i+n] <= '7' {
				n++
			}
			code, _ := strconv.ParseUint(text[i:i+n], 8, 16)
			out.WriteRune(rune(code))
			i += n - 1
		default:
			out.WriteByte('\\')
			out.WriteByte(text[i])
		}
	}
	return out.String()
}
