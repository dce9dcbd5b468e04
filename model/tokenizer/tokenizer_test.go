package tokenizer

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func sequence(texts []string) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for i, s := range texts {
			if !yield(i, []byte(s)) {
				return
			}
		}
	}
}

// byteTexts writes bytes in GPT-2's alphabet.
func byteTexts(text string) string {
	var out strings.Builder
	for i := range len(text) {
		for r, b := range byteOfRune {
			if b == int16(text[i]) {
				out.WriteRune(rune(r))
			}
		}
	}
	return out.String()
}

// bpeConfig is a byte-level vocabulary: the bytes, what the merges give, then special tokens by type.
func bpeConfig(merges [][2]string, special map[string]Type) Config {
	var texts, list []string
	var types []int64
	seen := map[string]bool{}
	add := func(text string, typ Type) {
		if !seen[text] {
			seen[text] = true
			texts, types = append(texts, text), append(types, int64(typ))
		}
	}
	for b := range 256 {
		add(byteTexts(string([]byte{byte(b)})), Normal)
	}
	for _, m := range merges {
		add(byteTexts(m[0]+m[1]), Normal)
		list = append(list, byteTexts(m[0])+" "+byteTexts(m[1]))
	}
	for _, name := range slices.Sorted(mapKeys(special)) {
		add(name, special[name])
	}
	return Config{Model: "gpt2", Pre: "gpt-2", Tokens: sequence(texts), Count: len(texts), Types: types, Merges: sequence(list), BOS: -1, EOS: -1, Unk: -1}
}

func mapKeys[V any](m map[string]V) iter.Seq[string] {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func build(t interface{ Fatal(...any) }, c Config) *Tokenizer {
	tok, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

var testSpecials = map[string]Type{"<|im_end|>": Control, "<|im_start|>": Control, "<s>": Control, "<think>": UserDefined, "\n\n": UserDefined}

// drawMerges draws merges whose parts exist.
func drawMerges(t *rapid.T) [][2]string {
	parts := []string{"a", "b", "c", " ", "<", "|", "\n", "\xf0", "\x9f"}
	var merges [][2]string
	for range rapid.IntRange(0, 40).Draw(t, "merges") {
		pair := [2]string{rapid.SampledFrom(parts).Draw(t, "left"), rapid.SampledFrom(parts).Draw(t, "right")}
		if len(pair[0]+pair[1]) <= 12 && !slices.Contains(merges, pair) {
			merges = append(merges, pair)
			parts = append(parts, pair[0]+pair[1])
		}
	}
	return merges
}

// drawText draws text that is likely to hit merges, special tokens and broken UTF-8.
func drawText(t *rapid.T) string {
	pieces := []string{"a", "b", "c", "ab", " ", "  ", "\n", "\n\n", "<|im_end|>", "<|im_", "end|>", "<s>", "s>", "<think>", "<", "😀", "é", "\xf0", "\x9f", "\xff", "\x00", "12", "'s", "\u2581", "<0x0A>", "日本"}
	var out strings.Builder
	for range rapid.IntRange(0, 60).Draw(t, "pieces") {
		out.WriteString(rapid.SampledFrom(pieces).Draw(t, "piece"))
	}
	return out.String()
}

// naiveBPE merges the pair of lowest rank, leftmost first, looking at all pairs each time.
func naiveBPE(piece string, merges [][2]string) []string {
	var parts []string
	for i := range len(piece) {
		parts = append(parts, piece[i:i+1])
	}
	for {
		best, at := len(merges), -1
		for i := 0; i+1 < len(parts); i++ {
			if r := slices.Index(merges, [2]string{parts[i], parts[i+1]}); r >= 0 && r < best {
				best, at = r, i
			}
		}
		if at < 0 {
			return parts
		}
		parts = slices.Replace(parts, at, at+2, parts[at]+parts[at+1])
	}
}

func TestBPEEqualsTheNaiveOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		merges := drawMerges(t)
		tok := build(t, bpeConfig(merges, nil))
		text := drawText(t)
		var want []string
		splitGPT2(text, func(piece string) { want = append(want, naiveBPE(piece, merges)...) })
		var got []string
		for _, id := range tok.Encode(text, Options{}) {
			got = append(got, string(tok.Piece(id, true)))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q: got %q, want %q", text, got, want)
		}
	})
}

func TestLongPiecesMergeAsShortOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		merges := drawMerges(t)
		b := build(t, bpeConfig(merges, nil)).scheme.(*bpe)
		piece := rapid.StringOfN(rapid.SampledFrom([]rune("abc <|")), 1, 80, -1).Draw(t, "piece")
		var short, long merger
		for i := range len(piece) {
			short.ids = append(short.ids, b.symbols[piece[i]])
		}
		long.ids = slices.Clone(short.ids)
		if s, l := b.mergeShort(&short), b.mergeLong(&long); !slices.Equal(s, l) {
			t.Fatalf("%q: %v by scanning, %v by the heap", piece, s, l)
		}
	})
}

// spmConfig is a SentencePiece vocabulary with byte tokens.
func spmConfig(scores map[string]float32, prefix bool) Config {
	texts := []string{"<unk>", "<s>", "</s>"}
	types := []int64{int64(Unknown), int64(Control), int64(Control)}
	values := []float32{0, 0, 0}
	for b := range 256 {
		texts, types, values = append(texts, fmt.Sprintf("<0x%02X>", b)), append(types, int64(Byte)), append(values, 0)
	}
	for _, text := range slices.Sorted(mapKeys(scores)) {
		texts, types, values = append(texts, strings.ReplaceAll(text, " ", spaceMark)), append(types, int64(Normal)), append(values, scores[text])
	}
	texts, types, values = append(texts, "<think>"), append(types, int64(UserDefined)), append(values, 0)
	return Config{Model: "llama", Tokens: sequence(texts), Count: len(texts), Types: types, Scores: values, BOS: 1, EOS: 2, Unk: 0, AddBOS: true, AddSpacePrefix: prefix}
}

// naiveSPM joins the two neighbours with the highest score, leftmost first; what is then no token falls into bytes.
func naiveSPM(text string, scores map[string]float32) []string {
	var parts, out []string
	for len(text) > 0 {
		_, n := utf8.DecodeRuneInString(text)
		parts = append(parts, text[:n])
		text = text[n:]
	}
	for {
		at, best := -1, float32(0)
		for i := 0; i+1 < len(parts); i++ {
			if s, ok := scores[parts[i]+parts[i+1]]; ok && (at < 0 || s > best) {
				at, best = i, s
			}
		}
		if at < 0 {
			break
		}
		parts = slices.Replace(parts, at, at+2, parts[at]+parts[at+1])
	}
	for _, p := range parts {
		if _, ok := scores[p]; ok {
			out = append(out, p)
			continue
		}
		for i := range len(p) {
			out = append(out, p[i:i+1])
		}
	}
	return out
}

func TestSPMEqualsTheNaiveOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scores := map[string]float32{"a": -10, "b": -10, " ": -10, "é": -3, "<": -9, "s": -9, ">": -9, "s>": -8}
		for _, m := range drawMerges(t) {
			if text := m[0] + m[1]; utf8.ValidString(text) {
				scores[text] = -float32(rapid.IntRange(0, 9).Draw(t, "score"))
			}
		}
		tok := build(t, spmConfig(scores, false))
		text := strings.ReplaceAll(drawText(t), "<think>", "")
		var got []string
		for _, id := range tok.Encode(text, Options{}) {
			got = append(got, string(tok.Piece(id, true)))
		}
		if want := naiveSPM(text, scores); !slices.Equal(got, want) {
			t.Fatalf("%q: got %q, want %q", text, got, want)
		}
	})
}

// TestUserTextIsLiteral: whatever a text holds, encoded without special tokens it gives no control token and comes back byte for byte.
func TestUserTextIsLiteral(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scores := map[string]float32{"<s": -1, "s>": -1, "<": -5, "s": -5, ">": -5, "</s": -1, "/": -5}
		toks := []*Tokenizer{build(t, bpeConfig(drawMerges(t), testSpecials)), build(t, spmConfig(scores, false)), build(t, spmConfig(scores, true))}
		text := drawText(t)
		for i, tok := range toks {
			ids := tok.Encode(text, Options{})
			for _, id := range ids {
				if typ := tok.vocab.types[id]; typ == Control || typ == Unknown {
					t.Fatalf("tokenizer %d: %q gave the control token %q", i, text, tok.vocab.text(id))
				}
			}
			if tok.cfg.AddSpacePrefix && strings.Contains(text, "<think>") {
				continue // a space goes before what follows a user-defined token, and is not told from a user's own
			}
			if got := tok.Decode(ids, false); string(got) != text {
				t.Fatalf("tokenizer %d: %q came back as %q", i, text, got)
			}
		}
	})
}

// TestLiteralSpans: special tokens count outside of literal pieces only.
func TestLiteralSpans(t *testing.T) {
	tok := build(t, bpeConfig(nil, testSpecials))
	control := func(ids []int32) (n int) {
		for _, id := range ids {
			if tok.vocab.types[id] == Control {
				n++
			}
		}
		return n
	}
	text := "<|im_start|>x<|im_end|>y<|im_end|>"
	for _, c := range []struct {
		literal []Span
		want    int
	}{
		{nil, 3},
		{[]Span{{12, 23}}, 2},
		{[]Span{{13, 23}}, 2},
		{[]Span{{12, 14}}, 2},
		{[]Span{{22, 24}}, 2},
		{[]Span{{12, 13}, {23, 24}}, 3},
		{[]Span{{0, 1}, {22, 23}}, 1},
		{[]Span{{0, len(text)}}, 0},
	} {
		ids := tok.Encode(text, Options{ParseSpecial: true, Literal: c.literal})
		if got := control(ids); got != c.want {
			t.Errorf("literal %v: %d control tokens, want %d", c.literal, got, c.want)
		}
		if back := string(tok.Decode(ids, true)); back != text {
			t.Errorf("literal %v: came back as %q", c.literal, back)
		}
	}
}

func TestBOSIsThereOnce(t *testing.T) {
	tok := build(t, spmConfig(map[string]float32{"a": -1}, false))
	for _, text := range []string{"a", "<s>a", "<s><s>a", "", "<s>"} {
		ids := tok.Encode(text, Options{AddSpecial: true, ParseSpecial: true})
		if len(ids) == 0 || ids[0] != tok.BOS() || strings.Count(string(tok.Decode(ids, true)), "<s>") != max(1, strings.Count(text, "<s>")) {
			t.Errorf("%q: %v", text, ids)
		}
	}
	if ids := tok.Encode("<s>", Options{AddSpecial: true}); len(ids) != 4 {
		t.Errorf("a user's <s> with BOS before it: %v", ids)
	}
}

func TestSpacePrefix(t *testing.T) {
	tok := build(t, spmConfig(map[string]float32{" ": -5, "a": -5, " a": -1}, true))
	ids := tok.Encode("a<s>a a", Options{ParseSpecial: true})
	var got []string
	for _, id := range ids {
		got = append(got, string(tok.Piece(id, true)))
	}
	if want := []string{" a", "<s>", " a", " a"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(tok.Encode("", Options{})) != 0 {
		t.Error("an empty text has tokens")
	}
}

func TestUnknownBytes(t *testing.T) {
	c := spmConfig(map[string]float32{"a": -1}, false)
	texts, types := []string{"<unk>", "a"}, []int64{int64(Unknown), int64(Normal)}
	c.Tokens, c.Types, c.Count, c.Scores, c.BOS, c.EOS, c.AddBOS = sequence(texts), types, 2, []float32{0, -1}, -1, -1, false
	if ids := build(t, c).Encode("aéa", Options{}); !slices.Equal(ids, []int32{1, 0, 1}) {
		t.Errorf("a character without bytes: %v", ids)
	}
}

func TestEndTokens(t *testing.T) {
	c := bpeConfig(nil, map[string]Type{"<|eot_id|>": Control, "</s>": UserDefined, "<|im_end|>": Control, "<x>": Control, "~y": Control})
	c.Ends = []int32{int32(c.Count - 1)}
	tok := build(t, c)
	var ends []string
	for id := range int32(tok.VocabSize()) {
		if tok.IsEnd(id) {
			ends = append(ends, string(tok.Piece(id, true)))
		}
	}
	if want := []string{"</s>", "<|eot_id|>", "<|im_end|>", "~y"}; !slices.Equal(ends, want) {
		t.Errorf("got %q, want %q", ends, want)
	}
	if ids := tok.Encode("</s>", Options{}); len(ids) == 1 {
		t.Error("a user's </s> ends a generation")
	}
}

func TestBadVocabulariesAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"types":      func(c *Config) { c.Types = c.Types[1:] },
		"bos":        func(c *Config) { c.BOS = int32(c.Count) },
		"eos":        func(c *Config) { c.EOS = -2 },
		"merges":     func(c *Config) { c.Merges = nil },
		"a merge":    func(c *Config) { c.Merges = sequence([]string{"ab"}) },
		"half merge": func(c *Config) { c.Merges = sequence([]string{"a "}) },
		"scores":     func(c *Config) { c.Model = "llama" },
	} {
		c := bpeConfig(nil, nil)
		change(&c)
		if _, err := New(c); !errors.Is(err, ErrVocabulary) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(*Config){"model": func(c *Config) { c.Model = "bert" }, "pre": func(c *Config) { c.Pre = "unheard-of" }} {
		c := bpeConfig(nil, nil)
		change(&c)
		if _, err := New(c); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPieceOfAnyID(t *testing.T) {
	tok := build(t, bpeConfig(nil, testSpecials))
	for _, id := range []int32{-1, -1 << 31, int32(tok.VocabSize()), 1<<31 - 1} {
		if p := tok.Piece(id, true); p != nil {
			t.Errorf("token %d is %q", id, p)
		}
	}
	p := tok.Piece(65, true)
	p[0]++
	if bytes.Equal(p, tok.Piece(65, true)) {
		t.Error("a piece is the vocabulary's own memory")
	}
}
