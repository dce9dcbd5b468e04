package server

import (
	"encoding/json"
	"fmt"
	"strings"

	"slicescheduler/model"
)

// chatMessages reads the messages field.
func chatMessages(f *fields) []model.Message {
	var raw []map[string]json.RawMessage
	if !f.decode("messages", "an array of objects", &raw) || len(raw) == 0 {
		f.fail(badField("messages", "is required: at least one message"))
		return nil
	}
	messages := make([]model.Message, len(raw))
	for i, m := range raw {
		inner := &fields{raw: m, used: make(map[string]bool)}
		messages[i] = chatMessage(inner)
		f.nested(fmt.Sprintf("messages[%d]", i), inner)
	}
	return messages
}

func chatMessage(f *fields) model.Message {
	m := model.Message{Role: f.text("role"), Name: f.text("name")}
	switch m.Role {
	case "system", "user":
	case "assistant":
		m.ToolCalls = messageCalls(f)
	case "tool":
		if m.ToolCallID = f.text("tool_call_id"); m.ToolCallID == "" {
			f.fail(badField("tool_call_id", "is required: the call that this message answers"))
		}
	case "developer": // the newer name of the same role; templates know the older
		m.Role = "system"
	case "":
		f.fail(badField("role", "is required: system, developer, user, assistant or tool"))
	default:
		f.fail(unsupported("role", fmt.Sprintf("%.40q", m.Role), []string{`"system"`, `"user"`, `"assistant"`, `"tool"`}))
	}
	rest := map[string][]string{
		"function_call": {}, "audio": {}, "refusal": {`""`}, "annotations": {"[]"}, "reasoning_content": {`""`},
	}
	if m.Role != "assistant" {
		rest["tool_calls"] = []string{"[]"}
	}
	if m.Role != "tool" {
		rest["tool_call_id"] = nil
	}
	f.only(rest)
	m.Content = messageContent(f, m.Role)
	return m
}

// messageContent reads a string, null (for assistants) or an array of text parts, which are joined by line ends.
func messageContent(f *fields, role string) string {
	raw := f.take("content")
	switch {
	case raw == nil:
		if role != "assistant" {
			f.fail(badField("content", "is required: a string or an array of text parts"))
		}
		return ""
	case raw[0] == '"':
		return f.text("content")
	}
	var parts []map[string]json.RawMessage
	f.decode("content", "a string or an array of parts", &parts)
	texts := make([]string, len(parts))
	for i, p := range parts {
		inner := &fields{raw: p, used: make(map[string]bool)}
		if kind := inner.text("type"); kind != "text" {
			inner.fail(unsupported("type", fmt.Sprintf("%.40q", kind), []string{`"text"`}))
		}
		if isNull(p["text"]) {
			inner.fail(badField("text", "is required"))
		}
		texts[i] = inner.text("text")
		f.nested(fmt.Sprintf("content[%d]", i), inner)
	}
	return strings.Join(texts, "\n")
}
