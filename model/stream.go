package model

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// StreamDecoder turns an answer's tokens into text as they come. What it gives out never ends within a character, so an emoji that is cut over tokens comes out whole, and
// U+FFFD appears only for bytes that can never become one. It belongs to one answer and is not safe for concurrent use.
type StreamDecoder struct {
	tok   Tokenizer
	shown []int32
	held  []byte // the beginning of a character
}

// NewStreamDecoder returns a decoder for one answer. shown are control tokens that give their text all the same.
func NewStreamDecoder(t Tokenizer, shown ...int32) *StreamDecoder {
	return &StreamDecoder{tok: t, shown: shown}
}

// Push adds a token and returns the text that is complete now; it may be empty. Control tokens give no text, nor do tokens that end an answer: where the
// answer goes on behind one, it is still no part of what was said.
func (d *StreamDecoder) Push(id int32) string {
	if d.tok.IsEnd(id) {
		return ""
	}
	d.held = append(d.held, d.tok.Piece(id, slices.Contains(d.shown, id))...)
	end := completeUTF8(d.held)
	text := strings.ToValidUTF8(string(d.held[:end]), string(utf8.RuneError))
	d.held = append(d.held[:0], d.held[end:]...)
	return text
}

// Flush returns what is held at the answer's end, with U+FFFD for an incomplete character. The decoder is then as new.
func (d *StreamDecoder) Flush() string {
	text := strings.ToValidUTF8(string(d.held), string(utf8.RuneError))
	d.held = d.held[:0]
	return text
}

// Held returns the number of bytes that wait for the rest of their character.
func (d *StreamDecoder) Held() int { return len(d.held) }

// completeUTF8 returns how many bytes of b can be given out: all but a character's beginning at the end.
func completeUTF8(b []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(b); back++ {
		if c := b[len(b)-back]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-back:]) {
				return len(b) - back
			}
			return len(b)
		}
	}
	return len(b)
}
