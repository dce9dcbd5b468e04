package model

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slicescheduler/model/embedded"
)

func openEmbedded(t testing.TB, name string) *Model {
	t.Helper()
	data, err := embedded.File(name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := OpenBytes(name, data)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// embeddedText is a line of embedded/golden/*.tokenizer.jsonl.
type embeddedText struct {
	Text    string  `json:"text"`
	Special bool    `json:"special"`
	IDs     []int32 `json:"ids"`
}

// embeddedChat is a line of embedded/golden/*.greedy.jsonl.
type embeddedChat struct {
	Messages     []Message `json:"messages"`
	PromptIDs    []int32   `json:"prompt_ids"`
	Continuation []int32   `json:"continuation_ids"`
	Text         string    `json:"continuation"`
}

func TestEmbeddedGoldens(t *testing.T) {
	for _, name := range embedded.Names() {
		t.Run(name, func(t *testing.T) {
			m := openEmbedded(t, name)
			for _, c := range readLines[embeddedText](t, filepath.Join("embedded", "golden", name+".tokenizer.jsonl")) {
				ids := m.Tokenizer.Encode(c.Text, EncodeOptions{ParseSpecial: c.Special})
				if !slices.Equal(ids, c.IDs) {
					t.Errorf("%q: got %v, want %v", c.Text, ids, c.IDs)
				}
			}
			for _, c := range readLines[embeddedChat](t, filepath.Join("embedded", "golden", name+".greedy.jsonl")) {
				checkEmbeddedChat(t, m, c)
			}
		})
	}
}

func checkEmbeddedChat(t *testing.T, m *Model, c embeddedChat) {
	t.Helper()
	ids, err := m.EncodeChat(c.Messages, ChatOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ids, c.PromptIDs) {
		t.Errorf("prompt %v:\n got %v\nwant %v", c.Messages, ids, c.PromptIDs)
	}
	d := NewStreamDecoder(m.Tokenizer)
	text := ""
	for _, id := range c.Continuation {
		if m.Tokenizer.IsEnd(id) {
			break
		}
		text += d.Push(id)
	}
	if text += d.Flush(); text != c.Text {
		t.Errorf("continuation %q, want %q", text, c.Text)
	}
}

// TestCutFilesAreRefused: a file that lost its end, as an interrupted download leaves it, is refused with path, offset and reason.
func TestCutFilesAreRefused(t *testing.T) {
	for _, name := range embedded.Names() {
		data, err := embedded.File(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, lost := range []int{1, 33, 1024, 100_000, len(data) - 100, len(data) - 8} {
			path := filepath.Join(t.TempDir(), name+".gguf")
			if err := os.WriteFile(path, data[:len(data)-lost], 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Open(path)
			if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "offset ") {
				t.Errorf("%s less %d bytes: %v", name, lost, err)
			}
		}
	}
}
