package model

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slicescheduler/model/gguf"
)

// TestVocabularies compares with the tokens that llama.cpp ships beside its vocabulary-only files, for every tokenizer and pre-tokenizer that can be read. Set
// LLAMA_CPP_MODELS to the folder models/ of its source.
func TestVocabularies(t *testing.T) {
	dir := os.Getenv("LLAMA_CPP_MODELS")
	if dir == "" {
		t.Skip("LLAMA_CPP_MODELS is not set: the folder models/ of llama.cpp's source")
	}
	inputs, err := filepath.Glob(filepath.Join(dir, "ggml-vocab-*.gguf.inp"))
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no vocabularies in %s (%v)", dir, err)
	}
	for _, input := range inputs {
		path := strings.TrimSuffix(input, ".inp")
		t.Run(filepath.Base(path), func(t *testing.T) { checkVocabulary(t, path) })
	}
}

func checkVocabulary(t *testing.T, path string) {
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tok, err := readTokenizer(f, maxWidth)
	if errors.Is(err, ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	read := func(path string) string {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	texts := strings.Split(read(path+".inp"), "\n__ggml_vocab_test__\n")
	lines := strings.Split(read(path+".out"), "\n")
	for i, text := range texts {
		ids := tok.Encode(text, EncodeOptions{})
		if got, want := strings.Trim(fmt.Sprint(ids), "[]"), strings.Join(strings.Fields(lines[i]), " "); got != want {
			t.Errorf("%q:\n got %s\nwant %s", text, got, want)
		}
		if back := tok.Decode(ids, true); !slices.Equal(back, []byte(text)) {
			t.Errorf("%q came back as %q", text, back)
		}
	}
}
