package tokenizer

import (
	"fmt"
	"unicode/utf8"
)

// splitter yields the pieces of a text that merges never cross. It stands for a regular expression of the models' authors, as a scanner that looks at each
// character a fixed number of times.
type splitter func(text string, yield func(piece string))

// splitterOf finds a pre-tokenizer by its name in GGUF files. wholeWords says that a piece which is a token itself is taken without merging.
func splitterOf(name string) (s splitter, wholeWords bool, err error) {
	switch name {
	case "gpt-2", "mpt", "olmo", "phi-2", "jais":
		return splitGPT2, false, nil
	case "smollm", "starcoder", "refact", "command-r", "codeshell":
		return splitDigitsThenGPT2, false, nil
	case "llama-bpe", "llama3", "llama-v3":
		return func(text string, yield func(string)) { splitTiktoken(text, 3, yield) }, true, nil
	case "qwen2", "deepseek-r1-qwen", "stablelm2":
		return func(text string, yield func(string)) { splitTiktoken(text, 1, yield) }, false, nil
	case "default", "":
		return splitDefault, false, nil
	}
	return nil, false, fmt.Errorf("%w: pre-tokenizer %q; gpt-2, smollm, llama-bpe, qwen2 and default can be read", ErrUnsupported, name)
}

// contraction returns the length of 's 't 're 've 'm 'll 'd at i, 0 for none. fold accepts capitals.
func contraction(text string, i int, fold bool) int {
	if text[i] != '\'' || i+1 >= len(text) {
		return 0
	}
	lower := func(j int) byte {
		if j >= len(text) {
			return 0
		}
		if b := text[j]; fold && b >= 'A' && b <= 'Z' {
			return b + 'a' - 'A'
		}
		return text[j]
	}
	switch a, b := lower(i+1), lower(i+2); {
	case a == 's' || a == 't' || a == 'm' || a == 'd':
		return 2
	case a == 'r' && b == 'e', a == 'v' && b == 'e', a == 'l' && b == 'l':
		return 3
	}
	return 0
}

// spaces returns the end of a piece of white space at i: all of it at the text's end, else all but the last character, which goes with what follows.
func spaces(text string, i int) int {
	end, last := i, i
	for {
		c, size := classAt(text, end)
		if c != space {
			break
		}
		last = end
		end += size
	}
	if end < len(text) && last > i {
		return last
	}
	return end
}

// splitGPT2 is 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func splitGPT2(text string, yield func(string)) {
	for i := 0; i < len(text); {
		end := i + contraction(text, i, false)
		if end == i {
			j := i
			if text[i] == ' ' {
				j++
			}
			switch c, _ := classAt(text, j); c {
			case letter, number, other:
				end = run(text, j, c)
			default:
				end = spaces(text, i)
			}
		}
		yield(text[i:end])
		i = end
	}
}

// splitDigitsThenGPT2 cuts out each \p{N} first, then splits what is between as GPT-2 does.
func splitDigitsThenGPT2(text string, yield func(string)) {
	from := 0
	for i := 0; i < len(text); {
		c, size := classAt(text, i)
		if c == number {
			splitGPT2(text[from:i], yield)
			yield(text[i : i+size])
			from = i + size
		}
		i += size
	}
	splitGPT2(text[from:], yield)
}

// splitTiktoken is the expression of Llama 3 (digits = 3) and Qwen 2 (digits = 1):
// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func splitTiktoken(text string, digits int, yield func(string)) {
	for i := 0; i < len(text); {
		end := i + contraction(text, i, true)
		if end == i {
			end = tiktokenPiece(text, i, digits)
		}
		yield(text[i:end])
		i = end
	}
}

func tiktokenPiece(text string, i, digits int) int {
	c, size := classAt(text, i)
	next, _ := classAt(text, i+size)
	switch {
	case c == letter:
		return run(text, i, letter)
	case c == number:
		end := i
		for range digits {
			if c, size := classAt(text, end); c == number {
				end += size
			}
		}
		return end
	case next == letter && text[i] != '\r' && text[i] != '\n':
		return run(text, i+size, letter)
	case c == other || text[i] == ' ' && next == other:
		end := i
		if c == space {
			end++
		}
		end = run(text, end, other)
		for end < len(text) && (text[end] == '\r' || text[end] == '\n') {
			end++
		}
		return end
	}
	if end := lastNewline(text, i); end > 0 {
		return end
	}
	return spaces(text, i)
}

// lastNewline returns the end of the last \r or \n in the white space at i, 0 when it has none.
func lastNewline(text string, i int) int {
	end := 0
	for {
		c, size := classAt(text, i)
		if c != space {
			return end
		}
		if text[i] == '\r' || text[i] == '\n' {
			end = i + 1
		}
		i += size
	}
}

// splitDefault is what files without a known pre-tokenizer get: runs of [\p{P}$+<=>^~|] apart, then GPT-2's expression, then runs of \p{N} apart, then
// groups of three ASCII digits.
func splitDefault(text string, yield func(string)) {
	runs(text, isSeparator, func(piece string, _ bool) {
		splitGPT2(piece, func(word string) {
			runs(word, func(r rune) bool { return runeClass(r) == number }, func(part string, digits bool) {
				if digits {
					threes(part, yield)
				} else {
					yield(part)
				}
			})
		})
	})
}

// runs cuts a text into maximal runs of characters that are, or are not, in a set.
func runs(text string, in func(rune) bool, yield func(piece string, in bool)) {
	from, inside := 0, false
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if now := in(r); now != inside {
			if i > from {
				yield(text[from:i], inside)
			}
			from, inside = i, now
		}
		i += size
	}
	if from < len(text) {
		yield(text[from:], inside)
	}
}

// threes cuts groups of three ASCII digits out of a run of numbers.
func threes(text string, yield func(string)) {
	digit := func(i int) bool { return text[i] >= '0' && text[i] <= '9' }
	from := 0
	for i := 0; i+3 <= len(text); {
		if !digit(i) || !digit(i+1) || !digit(i+2) {
			i++
			continue
		}
		if i > from {
			yield(text[from:i])
		}
		yield(text[i : i+3])
		i += 3
		from = i
	}
	if from < len(text) {
		yield(text[from:])
	}
}
