package actors

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// pieceDecoder decodes tokens whose text is pieces[token], holding back bytes of characters that aren't whole.
type pieceDecoder struct {
	pieces []string
	rest   string
}

func (d *pieceDecoder) Push(token int32) string {
	d.rest += d.pieces[token]
	whole := 0
	for whole < len(d.rest) && utf8.FullRuneInString(d.rest[whole:]) {
		_, n := utf8.DecodeRuneInString(d.rest[whole:])
		whole += n
	}
	text := d.rest[:whole]
	d.rest = d.rest[whole:]
	return text
}

func (d *pieceDecoder) Flush() string {
	rest := d.rest
	d.rest = ""
	return strings.ToValidUTF8(rest, "\uFFFD")
}

// play pushes tokens 0, 1, .. and returns every text that came out, the tokens with it, and whether a stop string ended it.
func play(pieces, stops []string, minimum int) (texts []string, tokens []int32, stopped bool) {
	t := newTranscript(&pieceDecoder{pieces: pieces}, stops, minimum, true)
	collect := func(e Event) {
		texts = append(texts, e.Text)
		tokens = append(tokens, e.Tokens...)
	}
	for i := range pieces {
		e, end := t.push(TokenLogprob{Token: int32(i)})
		collect(e)
		if end {
			return texts, tokens, true
		}
	}
	collect(t.finish())
	return texts, tokens, false
}

func TestTranscript(t *testing.T) {
	tests := []struct {
		name    string
		pieces  []string
		stops   []string
		minimum int
		texts   string // joined by |
		tokens  int
		stopped bool
	}{
		{"no stops", []string{"a", "b"}, nil, 0, "a|b|", 2, false},
		{"stop over three tokens", []string{"hi", "<e", "nd", ">x"}, []string{"<end>"}, 0, "hi|||", 1, true},
		{"held text is delivered", []string{"hi", "<e", "nd"}, []string{"<end>"}, 0, "hi|||<end", 3, false},
		{"false start is delivered at once", []string{"hi", "<e", "at"}, []string{"<end>"}, 0, "hi||<eat|", 3, false},
		{"start inside a token", []string{"hi<", "end>"}, []string{"<end>"}, 0, "hi|", 1, true},
		{"stop in the first token", []string{"STOP"}, []string{"STOP"}, 0, "", 0, true},
		{"earliest of several", []string{"abc"}, []string{"c", "b"}, 0, "a", 1, true},
		{"emoji over two tokens", []string{"\xf0\x9f", "\x98\x80", "!"}, nil, 0, "|😀|!|", 3, false},
		{"emoji that is cut short", []string{"a", "\xf0\x9f"}, nil, 0, "a||\uFFFD", 2, false},
		{"stop before the minimum doesn't count", []string{"a", "STOP", "b", "STOP"}, []string{"STOP"}, 3, "a|STOP|b|", 3, true},
		{"overlapping start", []string{"aa", "ab"}, []string{"aab"}, 0, "|a", 1, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			texts, tokens, stopped := play(test.pieces, test.stops, test.minimum)
			if got := strings.Join(texts, "|"); got != test.texts || len(tokens) != test.tokens || stopped != test.stopped {
				t.Errorf("texts %q, %d tokens, stopped %v; want %q, %d, %v", got, len(tokens), stopped, test.texts, test.tokens, test.stopped)
			}
		})
	}
}

// The text is what a reader of the whole answer would cut at the stop string that is complete first, however it is cut into tokens.
func TestTranscriptAgainstWholeText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.StringMatching(`[ab\xc3\xa9]{0,3}`)
		pieces := rapid.SliceOfN(piece, 0, 12).Draw(t, "pieces")
		stops := rapid.SliceOfN(rapid.StringMatching(`[ab\xc3\xa9]{1,4}`), 0, 3).Draw(t, "stops")
		texts, tokens, stopped := play(pieces, stops, 0)
		want, wantStopped := strings.Join(pieces, ""), false
		for n := 1; n <= len(pieces) && !wantStopped; n++ {
			whole := strings.Join(pieces[:n], "")
			cut := len(whole)
			for _, s := range stops {
				if at := strings.Index(whole, s); at >= 0 && at < cut {
					cut, wantStopped = at, true
				}
			}
			if wantStopped {
				want = whole[:cut]
			}
		}
		if got := strings.Join(texts, ""); got != want || stopped != wantStopped {
			t.Fatalf("%q, stopped %v; want %q, %v", got, stopped, want, wantStopped)
		}
		for i, token := range tokens {
			if token != int32(i) {
				t.Fatalf("tokens out of order: %v", tokens)
			}
		}
		if !stopped && len(tokens) != len(pieces) {
			t.Fatalf("%d of %d tokens came out", len(tokens), len(pieces))
		}
	})
}
