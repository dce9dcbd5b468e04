package tokenizer

import (
	"slices"
	"strings"
	"testing"

	"github.com/dlclark/regexp2"
	"pgregory.net/rapid"
)

// The expressions of the models' authors, by which the scanners are judged. Each list is applied in turn: every expression cuts the pieces of the one before into matches and
// what lies between.
const (
	exprGPT2  = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	exprLlama = `(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	exprQwen  = `(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

var expressions = map[string][]string{
	"gpt-2":     {exprGPT2},
	"smollm":    {`\p{N}`, exprGPT2},
	"llama-bpe": {exprLlama},
	"qwen2":     {exprQwen},
	"default":   {`[\p{P}\$\+<=>\^~\|]+`, exprGPT2, `\p{N}+`, `[0-9][0-9][0-9]`},
}

// splitByExpressions is the slow way.
func splitByExpressions(t *rapid.T, list []*regexp2.Regexp, text string) []string {
	pieces := []string{text}
	for _, re := range list {
		var next []string
		for _, p := range pieces {
			runes, from := []rune(p), 0
			m, err := re.FindStringMatch(p)
			for ; m != nil && err == nil; m, err = re.FindNextMatch(m) {
				next = append(next, string(runes[from:m.Index]), m.String())
				from = m.Index + m.Length
			}
			if err != nil {
				t.Fatal(err)
			}
			next = append(next, string(runes[from:]))
		}
		pieces = slices.DeleteFunc(next, func(p string) bool { return p == "" })
	}
	return pieces
}

func TestScannersEqualTheExpressions(t *testing.T) {
	alphabet := []string{"a", "B", "é", "ß", "Ж", "日", "ा", "1", "23", "4567", "٣", "½", "Ⅷ", " ", "  ", "\u00a0", "\u3000", "\u2028", "\u0085", "\t", "\n", "\r", "\r\n", "\v", "'", "'s", "'S", "'re", "'LL",
		"'ve", "'d", "'x", ".", "!?", "$", "+", "<", "=", "^", "~", "|", "`", "_", "-", "…", "“", "😀", "\u200d", "\ufe0f", "\u0301", "\x00", "\x1b", "\ufffd", "\u1680", "\u180e", "€", "\x1c"}
	for name, list := range expressions {
		t.Run(name, func(t *testing.T) {
			split, _, err := splitterOf(name)
			if err != nil {
				t.Fatal(err)
			}
			var compiled []*regexp2.Regexp
			for _, e := range list {
				compiled = append(compiled, regexp2.MustCompile(e, regexp2.None))
			}
			rapid.Check(t, func(t *rapid.T) {
				text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(alphabet), 0, 30).Draw(t, "pieces"), "")
				var got []string
				split(text, func(p string) { got = append(got, p) })
				if want := splitByExpressions(t, compiled, text); !slices.Equal(got, want) {
					t.Fatalf("%q:\n got %q\nwant %q", text, got, want)
				}
			})
		})
	}
}

// TestScannersKeepEveryByte: pieces are never empty and join to the text, whatever bytes it is made of.
func TestScannersKeepEveryByte(t *testing.T) {
	for name := range expressions {
		split, _, err := splitterOf(name)
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(t *rapid.T) {
			text := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
			var joined strings.Builder
			split(text, func(p string) {
				if p == "" {
					t.Fatalf("%s: an empty piece of %q", name, text)
				}
				joined.WriteString(p)
			})
			if joined.String() != text {
				t.Fatalf("%s: %q became %q", name, text, joined.String())
			}
		})
	}
}
