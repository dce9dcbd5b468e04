package actors

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"slicescheduler/gmg"
	"slicescheduler/model"
	"slicescheduler/model/miniature"
)

// miniatureNode serves tenant a with a model of byte tokens without a chat template.
func miniatureNode(t *testing.T) *testNode {
	t.Helper()
	spec := miniature.Default()
	spec.WithoutTemplate = true
	data, err := miniature.Make(spec)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mini.gguf"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	n := start(t, NodeConfig{Devices: cpuDevices(t, 1, simMemoryBytes), Library: model.NewLibrary(dir)})
	n.submit(gmg.TenantSpec{ID: "a", Model: "mini"})
	n.await("a", stateReady)
	return n
}

// A model without a chat template completes, and says what to do when it is asked to chat.
func TestChatWithoutTemplate(t *testing.T) {
	n := miniatureNode(t)
	defer n.stop()
	r := greedy("a", "", 5)
	r.Messages = []model.Message{{Role: "user", Content: "hello"}}
	if _, err := n.Generate(t.Context(), r); !errors.Is(err, ErrNoTemplate) || !strings.Contains(err.Error(), "--chat-template") {
		t.Errorf("chat: %v, want ErrNoTemplate with the remedy", err)
	}
	if m, err := n.TenantModel(t.Context(), "a"); err != nil || m.HasTemplate {
		t.Errorf("model %+v, error %v", m, err)
	}
	if a := n.generate(greedy("a", "hello", 5)); a.last.Finish != FinishLength {
		t.Errorf("completion: %+v", a.last)
	}
}

// Where each byte is a token an emoji takes four; it comes out whole, with the last of them.
func TestEmojiOverSeveralTokens(t *testing.T) {
	const emoji = "\U0001F600"
	n := miniatureNode(t)
	defer n.stop()
	tokens, err := n.Tokenize(t.Context(), "a", emoji, model.EncodeOptions{})
	if err != nil || len(tokens) != len(emoji) {
		t.Fatalf("tokens %v, error %v: the test wants one for each byte", tokens, err)
	}
	// Bias makes the answer the emoji over and over: each byte at its turn is the only one without a penalty for repetition.
	r := greedy("a", "x", 4)
	r.Sampling.LogitBias = make(map[int32]float32)
	for i, token := range tokens {
		r.Sampling.LogitBias[token] = 100 - 10*float32(i)
	}
	r.Sampling.PresencePenalty, r.Sampling.FrequencyPenalty = 2, 2
	r.Sampling.RepetitionPenalty = 10
	s, err := n.Generate(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	a := answer{}
	for a.last.Finish == "" {
		if a.last, err = s.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, a.last.Text)
		a.tokens = append(a.tokens, a.last.Tokens...)
	}
	if got := strings.Join(texts, ""); got != emoji || strings.ContainsRune(got, utf8.RuneError) {
		t.Errorf("texts %q of tokens %v, want %q once", texts, a.tokens, emoji)
	}
}
