package jinja

import (
	"strings"
	"unicode"
)

// longUpper and longTitle are the characters whose upper or title case is several characters (Unicode's SpecialCasing); Go's own tables have only those of one.
var longUpper = map[rune]string{
	0xDF: "\u0053\u0053", 0x149: "\u02bc\u004e", 0x1F0: "\u004a\u030c", 0x390: "\u0399\u0308\u0301", 0x3B0: "\u03a5\u0308\u0301",
	0x587: "\u0535\u0552", 0x1E96: "\u0048\u0331", 0x1E97: "\u0054\u0308", 0x1E98: "\u0057\u030a", 0x1E99: "\u0059\u030a",
	0x1E9A: "\u0041\u02be", 0x1F50: "\u03a5\u0313", 0x1F52: "\u03a5\u0313\u0300", 0x1F54: "\u03a5\u0313\u0301", 0x1F56: "\u03a5\u0313\u0342",
	0x1F80: "\u1f08\u0399", 0x1F81: "\u1f09\u0399", 0x1F82: "\u1f0a\u0399", 0x1F83: "\u1f0b\u0399", 0x1F84: "\u1f0c\u0399",
	0x1F85: "\u1f0d\u0399", 0x1F86: "\u1f0e\u0399", 0x1F87: "\u1f0f\u0399", 0x1F88: "\u1f08\u0399", 0x1F89: "\u1f09\u0399",
	0x1F8A: "\u1f0a\u0399", 0x1F8B: "\u1f0b\u0399", 0x1F8C: "\u1f0c\u0399", 0x1F8D: "\u1f0d\u0399", 0x1F8E: "\u1f0e\u0399",
	0x1F8F: "\u1f0f\u0399", 0x1F90: "\u1f28\u0399", 0x1F91: "\u1f29\u0399", 0x1F92: "\u1f2a\u0399", 0x1F93: "\u1f2b\u0399",
	0x1F94: "\u1f2c\u0399", 0x1F95: "\u1f2d\u0399", 0x1F96: "\u1f2e\u0399", 0x1F97: "\u1f2f\u0399", 0x1F98: "\u1f28\u0399",
	0x1F99: "\u1f29\u0399", 0x1F9A: "\u1f2a\u0399", 0x1F9B: "\u1f2b\u0399", 0x1F9C: "\u1f2c\u0399", 0x1F9D: "\u1f2d\u0399",
	0x1F9E: "\u1f2e\u0399", 0x1F9F: "\u1f2f\u0399", 0x1FA0: "\u1f68\u0399", 0x1FA1: "\u1f69\u0399", 0x1FA2: "\u1f6a\u0399",
	0x1FA3: "\u1f6b\u0399", 0x1FA4: "\u1f6c\u0399", 0x1FA5: "\u1f6d\u0399", 0x1FA6: "\u1f6e\u0399", 0x1FA7: "\u1f6f\u0399",
	0x1FA8: "\u1f68\u0399", 0x1FA9: "\u1f69\u0399", 0x1FAA: "\u1f6a\u0399", 0x1FAB: "\u1f6b\u0399", 0x1FAC: "\u1f6c\u0399",
	0x1FAD: "\u1f6d\u0399", 0x1FAE: "\u1f6e\u0399", 0x1FAF: "\u1f6f\u0399", 0x1FB2: "\u1fba\u0399", 0x1FB3: "\u0391\u0399",
	0x1FB4: "\u0386\u0399", 0x1FB6: "\u0391\u0342", 0x1FB7: "\u0391\u0342\u0399", 0x1FBC: "\u0391\u0399", 0x1FC2: "\u1fca\u0399",
	0x1FC3: "\u0397\u0399", 0x1FC4: "\u0389\u0399", 0x1FC6: "\u0397\u0342", 0x1FC7: "\u0397\u0342\u0399", 0x1FCC: "\u0397\u0399",
	0x1FD2: "\u0399\u0308\u0300", 0x1FD3: "\u0399\u0308\u0301", 0x1FD6: "\u0399\u0342", 0x1FD7: "\u0399\u0308\u0342",
	0x1FE2: "\u03a5\u0308\u0300", 0x1FE3: "\u03a5\u0308\u0301", 0x1FE4: "\u03a1\u0313", 0x1FE6: "\u03a5\u0342", 0x1FE7: "\u03a5\u0308\u0342",
	0x1FF2: "\u1ffa\u0399", 0x1FF3: "\u03a9\u0399", 0x1FF4: "\u038f\u0399", 0x1FF6: "\u03a9\u0342", 0x1FF7: "\u03a9\u0342\u0399",
	0x1FFC: "\u03a9\u0399", 0xFB00: "\u0046\u0046", 0xFB01: "\u0046\u0049", 0xFB02: "\u0046\u004c", 0xFB03: "\u0046\u0046\u0049",
	0xFB04: "\u0046\u0046\u004c", 0xFB05: "\u0053\u0054", 0xFB06: "\u0053\u0054", 0xFB13: "\u0544\u0546", 0xFB14: "\u0544\u0535",
	0xFB15: "\u0544\u053b", 0xFB16: "\u054e\u0546", 0xFB17: "\u0544\u053d",
}

var longTitle = map[rune]string{
	0xDF: "\u0053\u0073", 0x149: "\u02bc\u004e", 0x1F0: "\u004a\u030c", 0x390: "\u0399\u0308\u0301", 0x3B0: "\u03a5\u0308\u0301",
	0x587: "\u0535\u0582", 0x1E96: "\u0048\u0331", 0x1E97: "\u0054\u0308", 0x1E98: "\u0057\u030a", 0x1E99: "\u0059\u030a",
	0x1E9A: "\u0041\u02be", 0x1F50: "\u03a5\u0313", 0x1F52: "\u03a5\u0313\u0300", 0x1F54: "\u03a5\u0313\u0301", 0x1F56: "\u03a5\u0313\u0342",
	0x1FB2: "\u1fba\u0345", 0x1FB4: "\u0386\u0345", 0x1FB6: "\u0391\u0342", 0x1FB7: "\u0391\u0342\u0345", 0x1FC2: "\u1fca\u0345",
	0x1FC4: "\u0389\u0345", 0x1FC6: "\u0397\u0342", 0x1FC7: "\u0397\u0342\u0345", 0x1FD2: "\u0399\u0308\u0300", 0x1FD3: "\u0399\u0308\u0301",
	0x1FD6: "\u0399\u0342", 0x1FD7: "\u0399\u0308\u0342", 0x1FE2: "\u03a5\u0308\u0300", 0x1FE3: "\u03a5\u0308\u0301", 0x1FE4: "\u03a1\u0313",
	0x1FE6: "\u03a5\u0342", 0x1FE7: "\u03a5\u0308\u0342", 0x1FF2: "\u1ffa\u0345", 0x1FF4: "\u038f\u0345", 0x1FF6: "\u03a9\u0342",
	0x1FF7: "\u03a9\u0342\u0345", 0xFB00: "\u0046\u0066", 0xFB01: "\u0046\u0069", 0xFB02: "\u0046\u006c", 0xFB03: "\u0046\u0066\u0069",
	0xFB04: "\u0046\u0066\u006c", 0xFB05: "\u0053\u0074", 0xFB06: "\u0053\u0074", 0xFB13: "\u0544\u0576", 0xFB14: "\u0544\u0565",
	0xFB15: "\u0544\u056b", 0xFB16: "\u054e\u0576", 0xFB17: "\u0544\u056d",
}

// upper is Python's str.upper.
func upper(text string) string { return mapped(text, longUpper, unicode.ToUpper) }

// lower is Python's str.lower, with its two forms of sigma.
func lower(text string) string {
	if !strings.ContainsAny(text, "\u03a3\u0130") {
		return strings.ToLower(text)
	}
	var out strings.Builder
	runes := []rune(text)
	for i, c := range runes {
		switch c {
		case '\u0130':
			out.WriteString("i\u0307")
		case '\u03a3':
			if finalSigma(runes, i) {
				out.WriteRune('\u03c2')
			} else {
				out.WriteRune('\u03c3')
			}
		default:
			out.WriteRune(unicode.ToLower(c))
		}
	}
	return out.String()
}

// finalSigma says whether a sigma ends a word: a cased letter stands before it and none behind, what has no case left out.
func finalSigma(text []rune, at int) bool {
	i := at - 1
	for i >= 0 && caseIgnorable(text[i]) {
		i--
	}
	if i < 0 || !cased(text[i]) {
		return false
	}
	i = at + 1
	for i < len(text) && caseIgnorable(text[i]) {
		i++
	}
	return i == len(text) || !cased(text[i])
}

func cased(c rune) bool { return unicode.IsUpper(c) || unicode.IsLower(c) || unicode.IsTitle(c) }

func caseIgnorable(c rune) bool {
	return unicode.In(c, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) ||
		strings.ContainsRune("':.\u00b7\u2018\u2019\u2024\u2027\ufe13\ufe52\ufe55\uff07\uff0e\uff1a", c)
}

func mapped(text string, long map[rune]string, short func(rune) rune) string {
	var out strings.Builder
	for _, c := range text {
		if l, ok := long[c]; ok {
			out.WriteString(l)
		} else {
			out.WriteRune(short(c))
		}
	}
	return out.String()
}

// capitalize is Python's str.capitalize.
func capitalize(text string) string {
	n := firstRune(text)
	return mapped(text[:n], longTitle, unicode.ToTitle) + lower(text[n:])
}

// title is Python's str.title: words begin behind what has no case.
func title(text string) string {
	var out strings.Builder
	inside := false
	for i, c := range text {
		one := text[i : i+firstRune(text[i:])]
		if inside {
			out.WriteString(lower(one))
		} else {
			out.WriteString(mapped(one, longTitle, unicode.ToTitle))
		}
		inside = cased(c)
	}
	return out.String()
}

// swapCase is Python's str.swapcase.
func swapCase(text string) string {
	var out strings.Builder
	for _, c := range text {
		if unicode.IsUpper(c) {
			out.WriteString(lower(string(c)))
		} else {
			out.WriteString(upper(string(c)))
		}
	}
	return out.String()
}

// isSpace is Python's str.isspace of one character: Unicode's, and ASCII's separators.
func isSpace(c rune) bool { return c >= 0x1c && c <= 0x1f || unicode.IsSpace(c) }
