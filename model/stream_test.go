package model

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// TestStreamNeverShowsHalfACharacter streams texts through a tokenizer whose tokens are single bytes or pairs, so that characters are cut in every place.
func TestStreamNeverShowsHalfACharacter(t *testing.T) {
	tok := openMiniature(t, nil).Tokenizer
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune("a é日😀🏳️‍🌈👩‍👧\u0301")))).Draw(t, "text")
		d := NewStreamDecoder(tok)
		var out strings.Builder
		for _, id := range tok.Encode(text, EncodeOptions{}) {
			part := d.Push(id)
			if !utf8.ValidString(part) {
				t.Fatalf("%q came out of %q", part, text)
			}
			if strings.Contains(part, "\ufffd") && !strings.Contains(text, "\ufffd") {
				t.Fatalf("U+FFFD came out of %q", text)
			}
			out.WriteString(part)
			if d.Held() == 0 && !strings.HasPrefix(text, out.String()) {
				t.Fatalf("%q is not how %q begins", out.String(), text)
			}
		}
		if tail := d.Flush(); tail != "" || out.String() != text {
			t.Fatalf("%q came back as %q and %q", text, out.String(), tail)
		}
	})
}

// TestStreamOfAnyBytes: what is no UTF-8 becomes U+FFFD, nothing is lost before or behind it, and no more than three bytes are ever held.
func TestStreamOfAnyBytes(t *testing.T) {
	tok := openMiniature(t, nil).Tokenizer
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOf(rapid.SampledFrom([]byte{'a', 'b', 0x80, 0xbf, 0xc3, 0xa9, 0xe2, 0x82, 0xac, 0xf0, 0x9f, 0x98, 0x80, 0xff})).Draw(t, "bytes")
		d := NewStreamDecoder(tok)
		var out strings.Builder
		for _, id := range tok.Encode(string(raw), EncodeOptions{}) {
			out.WriteString(d.Push(id))
			if d.Held() > 3 {
				t.Fatalf("%d bytes held", d.Held())
			}
		}
		out.WriteString(d.Flush())
		valid := func(s string) string { return strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\ufffd", "") }
		if got := out.String(); !utf8.ValidString(got) || valid(got) != valid(string(raw)) {
			t.Fatalf("%x came out as %q", raw, got)
		}
	})
}

func TestFlushGivesHeldBytes(t *testing.T) {
	tok := openMiniature(t, nil).Tokenizer
	ids := tok.Encode("x😀", EncodeOptions{})
	d := NewStreamDecoder(tok)
	got := ""
	for _, id := range ids[:len(ids)-1] {
		got += d.Push(id)
	}
	if got != "x" || d.Flush() != "\ufffd" || d.Flush() != "" {
		t.Errorf("got %q before the end", got)
	}
}

func TestControlTokensGiveNoText(t *testing.T) {
	m := openMiniature(t, nil)
	d := NewStreamDecoder(m.Tokenizer)
	emoji := m.Tokenizer.Encode("😀", EncodeOptions{})
	got := ""
	for i, id := range emoji {
		got += d.Push(id)
		if i == 1 {
			got += d.Push(m.Tokenizer.EOS()) + d.Push(m.Tokenizer.BOS()) + d.Push(-1) + d.Push(1<<30)
		}
	}
	if got != "😀" {
		t.Errorf("got %q", got)
	}
}

// TestEndTokensGiveNoText: a file may name an ordinary token as its end, and an answer may go on behind it.
func TestEndTokensGiveNoText(t *testing.T) {
	m := openMiniature(t, nil)
	d := NewStreamDecoder(endingIn{m.Tokenizer, m.Tokenizer.Encode("b", EncodeOptions{})[0]})
	got := ""
	for _, id := range m.Tokenizer.Encode("abc", EncodeOptions{}) {
		got += d.Push(id)
	}
	if got != "ac" {
		t.Errorf("got %q, want the text without the end token's", got)
	}
}

// endingIn is a tokenizer whose only end token is the one named.
type endingIn struct {
	Tokenizer
	end int32
}

func (t endingIn) IsEnd(id int32) bool { return id == t.end }
