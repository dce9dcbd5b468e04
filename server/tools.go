package server

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"slicescheduler/actors"
	"slicescheduler/model"
	"slicescheduler/model/toolcall"
)

// maxTools is how many tools a request may describe; OpenAI's API allows as many.
const maxTools = 128

// toolName is what OpenAI's API allows as a tool's name.
var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// finishToolCalls is OpenAI's finish reason of answers that call tools.
const finishToolCalls = "tool_calls"

// toolUse is what a request allows answers to call.
type toolUse struct {
	names  map[string]bool // nil: no tools
	single bool            // only the first call of an answer counts
	format toolcall.Format
}

// tools reads the fields that describe tools. raw is the tools' JSON, or nil where none may be called.
func tools(f *fields) (use toolUse, raw []byte) {
	array := f.raw["tools"]
	var list []map[string]json.RawMessage
	f.decode("tools", "an array of objects", &list)
	if len(list) > maxTools {
		f.fail(badField("tools", "at most %d, got %d", maxTools, len(list)))
	}
	names := make(map[string]bool, len(list))
	for i, item := range list {
		inner := &fields{raw: item, used: make(map[string]bool)}
		name := tool(inner)
		if names[name] {
			inner.fail(badField("function", "%.64q is the name of an earlier tool too", name))
		}
		names[name] = true
		f.nested(fmt.Sprintf("tools[%d]", i), inner)
	}
	allowed := map[string][]string{"tool_choice": {`"none"`, `"auto"`}, "parallel_tool_calls": {"true", "false"}}
	choice, parallel := string(f.raw["tool_choice"]), string(f.raw["parallel_tool_calls"])
	f.only(allowed)
	if len(list) == 0 || choice == `"none"` {
		return toolUse{}, nil
	}
	return toolUse{names: names, single: parallel == "false"}, array
}

// tool reads one tool and returns its name. That arguments keep to a schema cannot be promised, so strict is refused.
func tool(f *fields) string {
	f.only(map[string][]string{"type": {`"function"`}})
	var function map[string]json.RawMessage
	if !f.decode("function", "an object", &function) {
		f.fail(badField("function", "is required"))
		return ""
	}
	inner := &fields{raw: function, used: make(map[string]bool)}
	name := inner.text("name")
	if !toolName.MatchString(name) {
		inner.fail(badField("name", "must be 1 to 64 letters, digits, dots, dashes and underscores"))
	}
	inner.text("description")
	var parameters map[string]json.RawMessage
	inner.decode("parameters", "an object", &parameters)
	inner.only(map[string][]string{"strict": {"false"}})
	f.nested("function", inner)
	return name
}

// messageCalls reads the calls of an assistant's message.
func messageCalls(f *fields) []model.ToolCall {
	var list []map[string]json.RawMessage
	f.decode("tool_calls", "an array of objects", &list)
	calls := make([]model.ToolCall, len(list))
	for i, item := range list {
		outer := &fields{raw: item, used: make(map[string]bool)}
		outer.only(map[string][]string{"type": {`"function"`}})
		outer.ignore("index") // clients that put messages together out of chunks leave it in
		calls[i].ID = outer.text("id")
		var function map[string]json.RawMessage
		outer.decode("function", "an object", &function)
		inner := &fields{raw: function, used: make(map[string]bool)}
		calls[i].Name, calls[i].Arguments = inner.text("name"), inner.text("arguments")
		if calls[i].Name == "" {
			inner.fail(badField("name", "is required: the tool that was called"))
		}
		outer.nested("function", inner)
		f.nested(fmt.Sprintf("tool_calls[%d]", i), outer)
	}
	return calls
}

// checkTools refuses tools that the tenant's model could not call.
func checkTools(g *generation, m actors.TenantModel) error {
	g.tools.format = m.ToolFormat
	if g.tools.names != nil && m.ToolFormat == toolcall.None {
		return unsupported("tools", "calling tools by the model "+m.Model, []string{`"tool_choice": "none"`})
	}
	return nil
}

// toolCallJSON is a call, or in chunks the part of it that is new.
type toolCallJSON struct {
	Index    *int             `json:"index,omitempty"` // in chunks
	ID       string           `json:"id,omitempty"`
	Type     string           `json:"type,omitempty"`
	Function functionCallJSON `json:"function"`
}

type functionCallJSON struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// callReader finds text and calls in one choice's answer.
type callReader struct {
	parser *toolcall.Parser
	use    toolUse
	key    string // what the calls' ids are made of
}

func newCallReader(use toolUse, answerID string, choice int) *callReader {
	if use.names == nil {
		use.format = toolcall.None
	}
	known := func(name string) bool { return use.names[name] }
	return &callReader{toolcall.NewParser(use.format, known), use, fmt.Sprintf("%s/%d", answerID, choice)}
}

// read returns the deltas that an event's text makes, and the rest of the answer at its end.
func (c *callReader) read(e actors.Event) []chatMessageJSON {
	pieces := c.parser.Push(e.Text)
	if e.Finish != "" {
		pieces = append(pieces, c.parser.Close()...)
	}
	var deltas []chatMessageJSON
	for _, p := range pieces {
		switch {
		case p.Call < 0:
			deltas = append(deltas, chatMessageJSON{Content: new(p.Text)})
		case p.Call > 0 && c.use.single:
		default:
			call := toolCallJSON{Index: new(p.Call), Function: functionCallJSON{p.Name, p.Arguments}}
			if p.Name != "" {
				call.ID, call.Type = c.id(p.Call), "function"
			}
			deltas = append(deltas, chatMessageJSON{ToolCalls: []toolCallJSON{call}})
		}
	}
	return deltas
}

// finish is the finish reason of the answer's last event.
func (c *callReader) finish(reason actors.FinishReason) string {
	if reason == actors.FinishStop && c.parser.Calls() > 0 {
		return finishToolCalls
	}
	return string(reason)
}

// id is a call's id: the same answer's calls differ, and so do those of different answers.
func (c *callReader) id(call int) string {
	const long, short = 24, 9
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", c.key, call))
	digits := hex.EncodeToString(sum[:])
	if c.use.format.ShortIDs() {
		return digits[:short]
	}
	return "call_" + digits[:long]
}

// wholeMessage is put together out of deltas.
type wholeMessage struct {
	text  strings.Builder
	calls []toolCallJSON
	args  []*strings.Builder
}

func (m *wholeMessage) add(delta chatMessageJSON) {
	if delta.Content != nil {
		m.text.WriteString(*delta.Content)
	}
	for _, call := range delta.ToolCalls {
		if call.ID != "" {
			call.Index = nil
			m.calls, m.args = append(m.calls, call), append(m.args, &strings.Builder{})
		}
		m.args[len(m.args)-1].WriteString(call.Function.Arguments)
	}
}

func (m *wholeMessage) json() *wholeMessageJSON {
	for i := range m.calls {
		m.calls[i].Function.Arguments = m.args[i].String()
	}
	out := &wholeMessageJSON{Role: "assistant", ToolCalls: m.calls}
	if text := m.text.String(); text != "" || len(m.calls) == 0 {
		out.Content = &text
	}
	return out
}
