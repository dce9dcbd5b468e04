package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// class is what pre-tokenizers tell apart: \p{L}, \p{N}, \s and all else.
type class uint8

const (
	other class = iota
	letter
	number
	space
	none // the text's end
)

// asciiClasses holds the classes of the first 128 characters.
var asciiClasses = func() (t [utf8.RuneSelf]class) {
	for r := range rune(utf8.RuneSelf) {
		t[r] = runeClass(r)
	}
	return t
}()

func runeClass(r rune) class {
	switch {
	case unicode.IsLetter(r):
		return letter
	case unicode.IsNumber(r):
		return number
	case unicode.Is(unicode.White_Space, r):
		return space
	}
	return other
}

// classAt returns the class and the bytes of the character at i. A byte that is no UTF-8 counts as a character of its own.
func classAt(text string, i int) (c class, size int) {
	if i >= len(text) {
		return none, 0
	}
	if b := text[i]; b < utf8.RuneSelf {
		return asciiClasses[b], 1
	}
	r, size := utf8.DecodeRuneInString(text[i:])
	if r == utf8.RuneError && size == 1 {
		return other, 1
	}
	return runeClass(r), size
}

// run returns the end of the run of characters of class c that begins at i.
func run(text string, i int, c class) int {
	for {
		k, size := classAt(text, i)
		if k != c || size == 0 {
			return i
		}
		i += size
	}
}

// isSeparator says whether a character is punctuation (\p{P}) or one of the symbols that the "default" pre-tokenizer counts with it.
func isSeparator(r rune) bool {
	switch r {
	case '$', '+', '<', '=', '>', '^', '~', '|':
		return true
	}
	return unicode.IsPunct(r)
}
