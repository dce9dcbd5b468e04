package jinja

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// format is Python's str.format: fields in braces with their attributes, conversions and formats.
func (r *run) format(self any, a *arguments) any {
	text, _ := textOf(self)
	var out strings.Builder
	auto := 0
	for {
		at := strings.IndexAny(text, "{}")
		if at < 0 {
			r.text(len(text))
			out.WriteString(text)
			r.grown(&out, out.Len())
			return alike(self, out.String())
		}
		r.text(at + 1)
		out.WriteString(text[:at])
		brace := text[at]
		text = text[at+1:]
		if text != "" && text[0] == brace {
			out.WriteByte(brace)
			text = text[1:]
			continue
		}
		if brace == '}' {
			fail("single '}' encountered in format string")
		}
		end := strings.IndexByte(text, '}')
		if end < 0 || strings.IndexByte(text[:end], '{') >= 0 {
			fail("a field of a format string without an end, or with another in it")
		}
		before := out.Len()
		out.WriteString(r.formatField(self, text[:end], a, &auto))
		r.grown(&out, before)
		text = text[end+1:]
	}
}

func (r *run) formatField(self any, field string, a *arguments, auto *int) string {
	field, spec, _ := strings.Cut(field, ":")
	field, conversion, _ := strings.Cut(field, "!")
	first := strings.IndexAny(field, ".[")
	if first < 0 {
		first = len(field)
	}
	v := argumentNamed(field[:first], a, auto)
	for rest := field[first:]; rest != ""; {
		if rest[0] == '[' {
			name, behind, ok := strings.Cut(rest[1:], "]")
			if !ok || behind != "" && behind[0] != '.' && behind[0] != '[' {
				fail("a bracket without an end in a format string")
			}
			if n, err := strconv.ParseInt(name, 10, 64); err == nil {
				v = r.item(v, n)
			} else {
				v = r.item(v, name)
			}
			rest = behind
			continue
		}
		end := strings.IndexAny(rest[1:], ".[")
		if end < 0 {
			end = len(rest) - 1
		}
		v = r.attribute(v, rest[1:end+1])
		rest = rest[end+1:]
	}
	switch conversion {
	case "":
	case "s":
		v = r.str(v)
	case "r", "a":
		v = r.repr(v)
	default:
		fail("unknown conversion %.20q of a format string", conversion)
	}
	return r.within(self, v, r.formatted(v, spec))
}

func argumentNamed(name string, a *arguments, auto *int) any {
	if name == "" {
		name = strconv.Itoa(*auto)
		*auto++
	}
	if n, err := strconv.Atoi(name); err == nil {
		if n < 0 || n >= len(a.plain) {
			fail("replacement index %d out of range for positional args", n)
		}
		return a.plain[n]
	}
	i := indexOf(a.names, name)
	if i < 0 {
		fail("format lacks its argument %.60q", name)
	}
	return a.named[i]
}

// spec is a format of one value: [[fill]align][sign][0][width][,][.precision][kind].
type spec struct {
	fill      string
	align     byte
	sign      byte
	comma     bool
	alternate bool
	width     int
	precision int // -1 if there is none
	kind      byte
}

func parseSpec(text string) spec {
	s := spec{fill: " ", precision: -1}
	if _, size := utf8.DecodeRuneInString(text); len(text) > size && strings.IndexByte("<>^=", text[size]) >= 0 {
		s.fill, s.align, text = text[:size], text[size], text[size+1:]
	} else if text != "" && strings.IndexByte("<>^=", text[0]) >= 0 {
		s.align, text = text[0], text[1:]
	}
	if text != "" && strings.IndexByte("+- ", text[0]) >= 0 {
		s.sign, text = text[0], text[1:]
	}
	if strings.HasPrefix(text, "#") {
		s.alternate, text = true, text[1:]
	}
	if strings.HasPrefix(text, "0") {
		if s.align == 0 {
			s.fill, s.align = "0", '='
		}
		text = text[1:]
	}
	s.width, text = leadingNumber(text, 0)
	if strings.HasPrefix(text, ",") {
		s.comma, text = true, text[1:]
	}
	if strings.HasPrefix(text, ".") {
		s.precision, text = leadingNumber(text[1:], -1)
	}
	if text != "" {
		s.kind, text = text[0], text[1:]
	}
	if text != "" {
		fail("invalid format specifier")
	}
	return s
}

func leadingNumber(text string, def int) (int, string) {
	n := 0
	for n < len(text) && text[n] >= '0' && text[n] <= '9' {
		n++
	}
	if n == 0 {
		return def, text
	}
	v, err := strconv.Atoi(text[:n])
	if err != nil || v > maxWidth {
		fail("a width of more than %d characters", maxWidth)
	}
	return v, text[n:]
}

// formatted is Python's format(v, spec).
func (r *run) formatted(v any, text string) string {
	if text == "" {
		return r.str(v)
	}
	s := parseSpec(text)
	n, f, isFloat, isNumber := number(v)
	_, isBool := v.(bool)
	switch {
	case isNumber && !isBool || isNumber && s.kind != 0 && s.kind != 's':
		return r.formatNumber(s, n, f, isFloat)
	case s.kind != 0 && s.kind != 's' || s.align == '=' && s.fill != "0":
		fail("format code '%c' for a value of type '%s'", s.kind, typeName(v))
	}
	if _, isText := textOf(v); !isText && v != nil && !isBool {
		fail("unsupported format string passed to %s.__format__", typeName(v))
	}
	out := r.str(v)
	if s.precision >= 0 {
		out = cutRunes(out, 0, s.precision)
	}
	return r.aligned(s, out, "<")
}

func (r *run) aligned(s spec, text, def string) string {
	align := s.align
	if align == 0 || align == '=' {
		align = def[0]
	}
	switch align {
	case '<':
		return r.padded(text, s.width, s.fill, 0, 1)
	case '>':
		return r.padded(text, s.width, s.fill, 1, 0)
	}
	missing := max(0, min(s.width, maxWidth)-countRunes(text))
	left := r.padded(text, countRunes(text)+missing/2, s.fill, 1, 0)
	return r.padded(left, s.width, s.fill, 0, 1)
}

func (r *run) formatNumber(s spec, n int64, f float64, isFloat bool) string {
	var digits string
	negative := n < 0 || isFloat && math.Signbit(f)
	kind := s.kind
	if !isFloat && strings.IndexByte("eEfFgG%", kind) >= 0 && kind != 0 {
		isFloat, f = true, float64(n)
	}
	if isFloat {
		digits = floatDigits(kind, s.precision, math.Abs(f))
	} else {
		digits = integerDigits(s, n)
	}
	if s.comma {
		digits = withCommas(digits)
	}
	sign := ""
	switch {
	case negative:
		sign = "-"
	case s.sign == '+' || s.sign == ' ':
		sign = string(s.sign)
	}
	if s.align == '=' {
		return sign + r.padded(digits, s.width-len(sign), s.fill, 1, 0)
	}
	return r.aligned(s, sign+digits, ">")
}

func integerDigits(s spec, n int64) string {
	abs := uint64(n)
	if n < 0 {
		abs = -abs
	}
	bases := map[byte]int{0: 10, 'd': 10, 'i': 10, 'n': 10, 'x': 16, 'X': 16, 'o': 8, 'b': 2}
	base, ok := bases[s.kind]
	if s.kind == 'c' && n >= 0 && n <= utf8.MaxRune {
		return string(rune(n))
	}
	if !ok || s.precision >= 0 {
		fail("unknown format code '%c' for an integer", s.kind)
	}
	digits := strconv.FormatUint(abs, base)
	if s.kind == 'X' {
		digits = strings.ToUpper(digits)
	}
	if s.alternate && base != 10 {
		digits = "0" + string(s.kind) + digits
	}
	return digits
}

func floatDigits(kind byte, precision int, f float64) string {
	const defaultPrecision = 6
	if kind == 0 && precision < 0 {
		return floatRepr(f)
	}
	if precision < 0 {
		precision = defaultPrecision
	}
	suffix := ""
	switch kind {
	case '%':
		f, kind, suffix = f*100, 'f', "%"
	case 'F':
		kind = 'f'
	case 'e', 'E', 'f':
	case 0, 'g', 'G', 'n':
		return generalDigits(kind, max(precision, 1), f)
	default:
		fail("unknown format code '%c' for a float", kind)
	}
	if math.IsInf(f, 0) || f != f {
		return floatRepr(f) + suffix
	}
	return strconv.FormatFloat(f, kind, precision, 64) + suffix
}

// generalDigits is the format g: significant digits, with an exponent where they would not show the size.
func generalDigits(kind byte, precision int, f float64) string {
	if math.IsInf(f, 0) || f != f {
		return floatRepr(f)
	}
	scientific := strconv.FormatFloat(f, 'e', precision-1, 64)
	mantissa, exponentText, _ := strings.Cut(scientific, "e")
	exponent, _ := strconv.Atoi(exponentText)
	short := func(text string) string {
		if !strings.Contains(text, ".") {
			return text
		}
		return strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	most := precision
	if kind == 0 {
		most-- // without a kind, one digit must stand behind the point
	}
	if exponent >= -4 && exponent < most {
		text := short(strconv.FormatFloat(f, 'f', max(0, precision-1-exponent), 64))
		if kind == 0 && !strings.Contains(text, ".") {
			text += ".0"
		}
		return text
	}
	text := short(mantissa) + "e" + exponentText
	if kind == 'G' {
		return strings.ToUpper(text)
	}
	return text
}

func withCommas(digits string) string {
	whole, rest, dotted := strings.Cut(digits, ".")
	for at := len(whole) - 3; at > 0; at -= 3 {
		whole = whole[:at] + "," + whole[at:]
	}
	if dotted {
		return whole + "." + rest
	}
	return whole
}

// percent is Python's text % values.
func (r *run) percent(self, values any) any {
	text, _ := textOf(self)
	args := []any{values}
	if t, ok := values.(*sequence); ok && t.kind == tupleKind {
		args = t.items
	}
	var out strings.Builder
	used := 0
	for {
		at := strings.IndexByte(text, '%')
		if at < 0 {
			break
		}
		r.text(at + 1)
		out.WriteString(text[:at])
		text = text[at+1:]
		if strings.HasPrefix(text, "%") {
			out.WriteByte('%')
			text = text[1:]
			continue
		}
		before := out.Len()
		var piece string
		piece, text, used = r.percentField(self, text, values, args, used)
		out.WriteString(piece)
		r.grown(&out, before)
	}
	if used < len(args) && !subscriptable(values) {
		fail("not all arguments converted during string formatting")
	}
	r.text(out.Len() + len(text))
	out.WriteString(text)
	return alike(self, out.String())
}

// subscriptable says whether Python takes a value for a mapping of format's arguments, of which not all need be used: whatever has places, but a tuple or a string.
func subscriptable(v any) bool {
	if s, ok := v.(*sequence); ok {
		return s.kind == listKind || s.kind == rangeKind
	}
	return isMapping(v) || isUndefined(v)
}

// percentField formats one field behind its "%" and returns what stands behind it.
func (r *run) percentField(self any, text string, values any, args []any, used int) (piece, rest string, nowUsed int) {
	var v any = missing
	if strings.HasPrefix(text, "(") {
		name, behind, ok := strings.Cut(text[1:], ")")
		d, isDict := values.(*dict)
		if !ok || !isDict {
			fail("format requires a mapping")
		}
		if v, ok = d.get(name); !ok {
			fail("format lacks the key %.60q", name)
		}
		text = behind
	}
	s := spec{fill: " ", align: '>', precision: -1}
	for text != "" && strings.IndexByte("-+ #0", text[0]) >= 0 {
		switch text[0] {
		case '-':
			s.align = '<'
		case '0':
			if s.align == '>' {
				s.fill, s.align = "0", '='
			}
		case '#':
			s.alternate = true
		default:
			s.sign = text[0]
		}
		text = text[1:]
	}
	s.width, text = leadingNumber(text, 0)
	if strings.HasPrefix(text, ".") {
		s.precision, text = leadingNumber(text[1:], 0)
	}
	if text == "" {
		fail("incomplete format")
	}
	s.kind, text = text[0], text[1:]
	if v == any(missing) {
		if used == len(args) {
			fail("not enough arguments for format string")
		}
		v = args[used]
		used++
	}
	return r.within(self, v, r.percentValue(s, v)), text, used
}

func (r *run) percentValue(s spec, v any) string {
	if s.kind == 's' || s.kind == 'r' || s.kind == 'a' {
		text := r.str(v)
		if s.kind != 's' {
			text = r.repr(v)
		}
		if s.precision >= 0 {
			text = cutRunes(text, 0, s.precision)
		}
		if s.align == '=' {
			s.fill, s.align = " ", '>'
		}
		return r.aligned(s, text, ">")
	}
	if text, ok := textOf(v); ok && s.kind == 'c' && countRunes(text) == 1 {
		return r.aligned(s, text, ">")
	}
	n, f, isFloat, ok := number(v)
	if !ok {
		fail("%%%c format: a real number is required, not %s", s.kind, typeName(v))
	}
	if strings.IndexByte("diu", s.kind) >= 0 {
		if isFloat {
			n, isFloat = wholeOf(f), false
		}
		s.kind, s.precision = 'd', -1
	}
	return r.formatNumber(s, n, f, isFloat)
}

// wholeOf is Python's int(f).
func wholeOf(f float64) int64 {
	if f != f || math.Abs(f) >= 1<<63 {
		fail("cannot convert float %s to an integer of 64 bits", floatRepr(f))
	}
	return int64(f)
}
