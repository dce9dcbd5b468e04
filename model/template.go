package model

import (
	"fmt"
	"maps"
	"time"

	"slicescheduler/model/jinja"
)

// ErrTemplate is a chat template that cannot be parsed or rendered, or that refuses a conversation.
var ErrTemplate = jinja.ErrTemplate

// ChatTemplate renders chats into text with special tokens. It is safe for concurrent use.
type ChatTemplate struct {
	source   string
	name     string
	jinja    *jinja.Template
	bos, eos string
}

// ParseTemplate parses a Jinja chat template as model files hold it.
func ParseTemplate(source string) (*ChatTemplate, error) {
	return parseTemplate("chat template", source)
}

func parseTemplate(name, source string) (*ChatTemplate, error) {
	j, err := jinja.Parse(name, source, time.Now)
	if err != nil {
		return nil, err
	}
	return &ChatTemplate{source: source, name: name, jinja: j}, nil
}

// Source returns the template's text.
func (t *ChatTemplate) Source() string { return t.source }

// withTokens returns the template with the texts of a model's BOS and EOS.
func (t *ChatTemplate) withTokens(bos, eos string) *ChatTemplate {
	c := *t
	c.bos, c.eos = bos, eos
	return &c
}

// Render renders a conversation. addGenerationPrompt ends the text with the beginning of the assistant's answer. extra are further variables of the template
// ("tools", "enable_thinking"); they win over bos_token and eos_token.
func (t *ChatTemplate) Render(messages []Message, addGenerationPrompt bool, extra map[string]any) (string, error) {
	bytes := 0
	list := make([]map[string]any, len(messages))
	for i, m := range messages {
		list[i] = map[string]any{"role": m.Role, "content": m.Content}
		if m.Name != "" {
			list[i]["name"] = m.Name
		}
		bytes += len(m.Role) + len(m.Content) + len(m.Name)
	}
	// Templates tell none from undefined, and the transformers library gives these two always.
	variables := map[string]any{"bos_token": t.bos, "eos_token": t.eos, "tools": nil, "documents": nil}
	maps.Copy(variables, extra)
	variables["messages"] = list
	variables["add_generation_prompt"] = addGenerationPrompt
	text, err := t.jinja.Render(variables, bytes)
	if err != nil {
		return "", fmt.Errorf("rendering %d messages: %w", len(messages), err)
	}
	return text, nil
}
