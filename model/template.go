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
	return t.render(messageObjects(messages), addGenerationPrompt, extra)
}

func (t *ChatTemplate) render(messages []any, addGenerationPrompt bool, extra map[string]any) (string, error) {
	// Templates tell none from undefined, and the transformers library gives these two always.
	variables := map[string]any{"bos_token": t.bos, "eos_token": t.eos, "tools": nil, "documents": nil}
	maps.Copy(variables, extra)
	variables["messages"] = messages
	variables["add_generation_prompt"] = addGenerationPrompt
	text, err := t.jinja.Render(variables, textBytes(messages)+textBytes(variables["tools"]))
	if err != nil {
		return "", fmt.Errorf("rendering %d messages: %w", len(messages), err)
	}
	return text, nil
}

// messageObjects returns messages as templates know them. A call's arguments are an object there, as the transformers library wants them; what is no JSON stays text.
func messageObjects(messages []Message) []any {
	list := make([]any, len(messages))
	for i, m := range messages {
		object := jinja.Object{{Name: "role", Value: m.Role}, {Name: "content", Value: m.Content}}
		if m.Name != "" {
			object = append(object, jinja.Field{Name: "name", Value: m.Name})
		}
		if len(m.ToolCalls) > 0 {
			object = append(object, jinja.Field{Name: "tool_calls", Value: callObjects(m.ToolCalls)})
		}
		if m.ToolCallID != "" {
			object = append(object, jinja.Field{Name: "tool_call_id", Value: m.ToolCallID})
		}
		list[i] = object
	}
	return list
}

func callObjects(calls []ToolCall) []any {
	list := make([]any, len(calls))
	for i, c := range calls {
		arguments, err := jinja.DecodeJSON([]byte(c.Arguments))
		if err != nil {
			arguments = c.Arguments
		}
		function := jinja.Object{{Name: "name", Value: c.Name}, {Name: "arguments", Value: arguments}}
		list[i] = jinja.Object{{Name: "id", Value: c.ID}, {Name: "type", Value: "function"}, {Name: "function", Value: function}}
	}
	return list
}

// textBytes returns the bytes of all texts within a value.
func textBytes(v any) int {
	bytes := 0
	mapTexts(v, func(text string) string { bytes += len(text); return text })
	return bytes
}

// mapTexts returns a copy of a value with all texts in it changed, objects' keys too.
func mapTexts(v any, change func(string) string) any {
	switch v := v.(type) {
	case string:
		return change(v)
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = mapTexts(item, change)
		}
		return list
	case jinja.Object:
		object := make(jinja.Object, len(v))
		for i, f := range v {
			object[i] = jinja.Field{Name: change(f.Name), Value: mapTexts(f.Value, change)}
		}
		return object
	}
	return v
}
