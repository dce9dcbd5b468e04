package model

import (
	"slices"
	"strings"
	"testing"
)

// chatCase is a line of golden/*/chat.jsonl.
type chatCase struct {
	Name                string    `json:"name"`
	Messages            []Message `json:"messages"`
	AddGenerationPrompt bool      `json:"add_generation_prompt"`
	BOS                 string    `json:"bos_token"`
	EOS                 string    `json:"eos_token"`
	Rendered            string    `json:"rendered"`
	IDs                 []int32   `json:"ids"`
}

func TestChatGoldens(t *testing.T) {
	cases := readLines[chatCase](t, sharedData(t, "golden", "smollm2-135m", "chat.jsonl"))
	m := realModel(t, smolFile)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { checkChatCase(t, m, c) })
	}
}

func checkChatCase(t *testing.T, m *Model, c chatCase) {
	text, err := m.Template.Render(c.Messages, c.AddGenerationPrompt, nil)
	if err != nil {
		t.Fatal(err)
	}
	if text != c.Rendered {
		t.Fatalf("rendered %q\nwant     %q", text, c.Rendered)
	}
	if got := m.Tokenizer.Encode(text, EncodeOptions{ParseSpecial: true}); !slices.Equal(got, c.IDs) {
		t.Errorf("encoded %v\nwant    %v", got, c.IDs)
	}
	got, err := m.EncodeChat(c.Messages, ChatOptions{NoGenerationPrompt: !c.AddGenerationPrompt})
	if err != nil {
		t.Fatal(err)
	}
	forged := slices.ContainsFunc(c.Messages, func(m Message) bool { return strings.Contains(m.Content, "<|im_") })
	if equal := slices.Equal(got, c.IDs); equal == forged {
		t.Errorf("EncodeChat: got %v\nwant %v (users' special tokens: %v)", got, c.IDs, forged)
	}
}
