package model

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// realModel opens a model from $SLICER_MODELS, else the user's cache; the test is skipped where it is absent.
func realModel(t testing.TB, file string) *Model {
	t.Helper()
	dir := os.Getenv("SLICER_MODELS")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			t.Skip("no home directory, and SLICER_MODELS is not set")
		}
		dir = filepath.Join(home, ".cache", "slicer", "models")
	}
	path := filepath.Join(dir, file)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%s is absent: fetch it, or set SLICER_MODELS", path)
	}
	m, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// sharedData returns a path in $SLICER_DATA, else ../shared beside the repository; the test is skipped where it is absent.
func sharedData(t testing.TB, elem ...string) string {
	t.Helper()
	dir := os.Getenv("SLICER_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared")
	}
	path := filepath.Join(append([]string{dir}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%s is absent: set SLICER_DATA", path)
	}
	return path
}

// readLines decodes a file of one JSON object a line.
func readLines[T any](t testing.TB, path string) []T {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []T
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<24)
	for s.Scan() {
		var v T
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	if len(out) == 0 || s.Err() != nil {
		t.Fatalf("%s: %d lines, %v", path, len(out), s.Err())
	}
	return out
}

// tokenizerCase is a line of golden/*/tokenizer.jsonl.
type tokenizerCase struct {
	Name       string  `json:"name"`
	Text       string  `json:"text"`
	Plain      []int32 `json:"ids_plain"`
	Special    []int32 `json:"ids_special"`
	AddSpecial []int32 `json:"ids_add_special"`
	PlainB64   string  `json:"decoded_plain_b64"`
	SpecialB64 string  `json:"decoded_special_b64"`
	SkipB64    string  `json:"decoded_skip_special_b64"`
}

const (
	smolFile  = "SmolLM2-135M-Instruct.Q4_1.gguf"
	gemmaFile = "gemma-3-270m-q4_k_m.gguf"
)

func TestTokenizerGoldens(t *testing.T) {
	for file, dir := range map[string]string{smolFile: "smollm2-135m", gemmaFile: "gemma3-270m"} {
		t.Run(dir, func(t *testing.T) {
			cases := readLines[tokenizerCase](t, sharedData(t, "golden", dir, "tokenizer.jsonl"))
			tok := realModel(t, file).Tokenizer
			for _, c := range cases {
				checkTokenizerCase(t, tok, c)
			}
		})
	}
}

func checkTokenizerCase(t *testing.T, tok Tokenizer, c tokenizerCase) {
	t.Helper()
	addSpecial := c.AddSpecial
	if len(addSpecial) > 1 && addSpecial[0] == tok.BOS() && addSpecial[1] == tok.BOS() {
		// The goldens' tokenizer adds BOS to a text that begins with it. Ours never gives two.
		addSpecial = addSpecial[1:]
	}
	for _, k := range []struct {
		name string
		o    EncodeOptions
		want []int32
	}{
		{"plain", EncodeOptions{}, c.Plain},
		{"special", EncodeOptions{ParseSpecial: true}, c.Special},
		{"add special", EncodeOptions{ParseSpecial: true, AddSpecial: true}, addSpecial},
	} {
		if got := tok.Encode(c.Text, k.o); !slices.Equal(got, k.want) {
			t.Errorf("%s, %s:\n got %v\nwant %v", c.Name, k.name, got, k.want)
		}
	}
	for _, k := range []struct {
		name    string
		ids     []int32
		special bool
		want    string
	}{
		{"plain", c.Plain, true, c.PlainB64},
		{"special", c.Special, true, c.SpecialB64},
		{"skip special", c.Special, false, c.SkipB64},
	} {
		var got []byte
		for _, id := range k.ids {
			got = append(got, tok.Piece(id, k.special)...)
		}
		if b64 := base64.StdEncoding.EncodeToString(got); b64 != k.want {
			t.Errorf("%s, decoded %s: got %q, want base64 %s", c.Name, k.name, got, k.want)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	for _, file := range []string{smolFile, gemmaFile} {
		path := realModel(b, file).Path
		b.Run(file, func(b *testing.B) {
			for b.Loop() {
				m, err := Open(path)
				if err != nil {
					b.Fatal(err)
				}
				if err := m.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	texts := map[string]string{
		"prose":  strings.Repeat("The quick brown fox, 42 years old, doesn't jump over l'été 你好 lazily.\n", 14000),
		"a":      strings.Repeat("a", 1<<20),
		"spaces": strings.Repeat(" ", 1<<20),
		"lt":     strings.Repeat("<", 1<<20),
	}
	for _, file := range []string{smolFile, gemmaFile} {
		tok := realModel(b, file).Tokenizer
		for name, text := range texts {
			b.Run(file[:5]+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					tok.Encode(text, EncodeOptions{})
				}
			})
		}
	}
}
