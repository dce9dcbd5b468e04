package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"slicescheduler/actors"
	"slicescheduler/model/toolcall"
)

const toolsChat = `{"model":"alpha","messages":[{"role":"user","content":"x"},
	{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},
	{"role":"tool","tool_call_id":"call_1","content":"2"}],"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}]`

// twoCalls is an answer that says something and calls two tools, cut in the middle of marks and arguments.
func twoCalls(actors.GenerateRequest) (*fakeStream, error) {
	var events []actors.Event
	for _, text := range []string{"Well.\n", "\n<tool", "_call>{\"name\": \"f\", \"argu", "ments\": {\"a\": ", "[1]}}</tool_call>\n<tool_call>", `{"name": "g", "arguments": {}}</tool_call>`} {
		events = append(events, actors.Event{Text: text, Logprobs: []actors.TokenLogprob{{Bytes: []byte(text)}}})
	}
	return script(append(events, actors.Event{Finish: actors.FinishStop, Usage: actors.Usage{PromptTokens: 1, CompletionTokens: 6}})...), nil
}

type toolMessage struct {
	Content   *string
	ToolCalls []struct {
		Index    *int
		ID, Type string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

type toolAnswer struct {
	Choices []struct {
		Index          int
		Message, Delta *toolMessage
		Logprobs       *chatLogprobs
		FinishReason   *string `json:"finish_reason"`
	}
}

func TestToolCallsInWholeAnswers(t *testing.T) {
	f := newFake()
	f.format, f.script = toolcall.Hermes, twoCalls
	w := call(newTestServer(t, f, nil), "POST", "/v1/chat/completions", toolsChat+`,"n":2}`, "")
	var got toolAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Choices) != 2 {
		t.Fatalf("%v: %s", err, w.Body)
	}
	ids := map[string]bool{}
	for _, c := range got.Choices {
		m := c.Message
		if *m.Content != "Well." || len(m.ToolCalls) != 2 || *c.FinishReason != "tool_calls" {
			t.Fatalf("got %s", w.Body)
		}
		if first := m.ToolCalls[0]; first.Function.Name != "f" || first.Function.Arguments != `{"a": [1]}` || first.Type != "function" || first.Index != nil {
			t.Errorf("got %+v", first)
		}
		for _, c := range m.ToolCalls {
			ids[c.ID] = true
		}
	}
	if len(ids) != 4 {
		t.Errorf("calls share ids: %v", ids)
	}
	r := f.requests[0]
	if m := r.Messages; m[1].ToolCalls[0].Arguments != `{"a":1}` || m[2].ToolCallID != "call_1" || !strings.HasPrefix(string(r.Tools), `[{"type":"function"`) {
		t.Errorf("the node was asked %+v with tools %s", m, r.Tools)
	}
}

func TestToolCallsInStreams(t *testing.T) {
	f := newFake()
	f.format, f.script = toolcall.Hermes, twoCalls
	w := call(newTestServer(t, f, nil), "POST", "/v1/chat/completions", toolsChat+`,"stream":true,"logprobs":true}`, "")
	var text, finish string
	var calls []string
	logprobs, argumentChunks := 0, 0
	for line := range strings.Lines(w.Body.String()) {
		data, ok := strings.CutPrefix(line, "data: {")
		if !ok {
			continue
		}
		var chunk toolAnswer
		if err := json.Unmarshal([]byte("{"+data), &chunk); err != nil {
			t.Fatal(err)
		}
		for _, c := range chunk.Choices {
			if c.Delta.Content != nil {
				text += *c.Delta.Content
			}
			if c.Logprobs != nil {
				logprobs += len(c.Logprobs.Content)
			}
			for _, call := range c.Delta.ToolCalls {
				if call.ID != "" {
					calls = append(calls, call.Function.Name+" ")
				} else {
					argumentChunks++
				}
				calls[*call.Index] += call.Function.Arguments
			}
			if c.FinishReason != nil {
				finish = *c.FinishReason
			}
		}
	}
	if text != "Well." || fmt.Sprint(calls) != `[f {"a": [1]} g {}]` || finish != "tool_calls" {
		t.Errorf("text %q, calls %q, finish %q of\n%s", text, calls, finish, w.Body)
	}
	if logprobs != 6 || argumentChunks == 0 {
		t.Errorf("%d log probabilities, want 6; %d chunks of arguments, want some", logprobs, argumentChunks)
	}
}

// TestToolsCanBeLeftAlone: calls are read only where a request allows them, and a single one where it wants no more.
func TestToolsCanBeLeftAlone(t *testing.T) {
	f := newFake()
	f.format, f.script = toolcall.Hermes, twoCalls
	s := newTestServer(t, f, nil)
	body := call(s, "POST", "/v1/chat/completions", toolsChat+`,"tool_choice":"none"}`, "").Body.String()
	if strings.Contains(body, `"tool_calls"`) || !strings.Contains(body, "tool_call\\u003e") && !strings.Contains(body, "<tool_call>") || f.requests[0].Tools != nil {
		t.Errorf("with tool_choice none: %s", body)
	}
	body = call(s, "POST", "/v1/chat/completions", toolsChat+`,"parallel_tool_calls":false}`, "").Body.String()
	if strings.Count(body, `"type":"function"`) != 1 || strings.Contains(body, `"name":"g"`) {
		t.Errorf("without parallel calls: %s", body)
	}
	f.format = toolcall.Mistral
	f.script = func(actors.GenerateRequest) (*fakeStream, error) {
		return script(actors.Event{Text: `[TOOL_CALLS][{"name": "f", "arguments": {}}]`}, actors.Event{Finish: actors.FinishStop}), nil
	}
	var got toolAnswer
	raw := call(s, "POST", "/v1/chat/completions", toolsChat+`}`, "").Body.Bytes()
	if err := json.Unmarshal(raw, &got); err != nil || len(got.Choices[0].Message.ToolCalls) != 1 || len(got.Choices[0].Message.ToolCalls[0].ID) != 9 {
		t.Errorf("Mistral's ids have nine letters and digits: %s", raw)
	}
	if !strings.Contains(string(raw), `"content":null`) {
		t.Errorf("content of calls alone is null: %s", raw)
	}
}
