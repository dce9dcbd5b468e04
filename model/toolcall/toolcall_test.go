package toolcall

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// answer is what a parser makes of a whole answer: its text, and calls as NAME(ARGUMENTS).
func answer(f Format, pieces ...string) (text string, calls []string, streamed int) {
	p := NewParser(f, func(name string) bool { return name != "unknown" })
	names, arguments := map[int]string{}, map[int]string{}
	take := func(list []Piece) {
		for _, c := range list {
			switch {
			case c.Call < 0:
				text += c.Text
				continue
			case c.Name != "":
				names[c.Call] = c.Name
			}
			arguments[c.Call] += c.Arguments
			streamed++
		}
	}
	for _, piece := range pieces {
		take(p.Push(piece))
	}
	take(p.Close())
	for i := range len(names) {
		calls = append(calls, names[i]+"("+arguments[i]+")")
	}
	return text, calls, streamed
}

var answers = []struct {
	format Format
	wrote  string
	text   string
	calls  string
}{
	{Hermes, "Hello!", "Hello!", ""},
	{Hermes, "Hello! \n", "Hello! \n", ""},
	{Hermes, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>", "", `f({"a": 1})`},
	{Hermes, "Let me see.\n\n<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": {\"b\": [1, \"}\\\"\"]}}}</tool_call>\n<tool_call>{\"arguments\": {}, \"name\": \"g\"}</tool_call>\n",
		"Let me see.", `f({"a": {"b": [1, "}\""]}}) g({})`},
	{Hermes, `<tool_call>{"name": "f"}</tool_call>`, "", `f({})`},
	{Hermes, `<tool_call>{"name": "f", "arguments": null}</tool_call>`, "", `f({})`},
	{Hermes, `<tool_call>{"name": "f", "arguments": "{\"a\": 1}"}</tool_call> done`, " done", `f({"a": 1})`},
	{Hermes, `<tool_call>{"name": "f", "arguments": {"a": 1}, "id": 7}`, "", `f({"a": 1})`},
	{Hermes, `<tool_call>{"name": "f", "arguments": {"a": "cut of`, "", `f({"a": "cut of)`},
	{Hermes, `<tool_call>not JSON</tool_call>`, `<tool_call>not JSON</tool_call>`, ""},
	{Hermes, `<tool_call>{"nam`, `<tool_call>{"nam`, ""},
	{Hermes, `<tool_call>{"name": 5}</tool_call>`, `<tool_call>{"name": 5}</tool_call>`, ""},
	{Hermes, `<tool_call>{bad} <tool_call>{"name": "f"}</tool_call>`, `<tool_call>{bad}`, `f({})`},
	{Hermes, `a < b <tool_ca`, `a < b <tool_ca`, ""},
	{Llama, "Hi {x}", "Hi {x}", ""},
	{Llama, `{"name": "f", "parameters": {"a": "é"}}`, "", `f({"a": "é"})`},
	{Llama, " <|python_tag|>{\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {\"b\": 2}}", "", `f({}) g({"b": 2})`},
	{Llama, `{"name": "unknown", "parameters": {}}`, `{"name": "unknown", "parameters": {}}`, ""},
	{Llama, `{"answer": 42}`, `{"answer": 42}`, ""},
	{Llama, `<|python_tag|>print(1)`, `<|python_tag|>print(1)`, ""},
	{Llama, "  ", "  ", ""},
	{Mistral, "Bonjour", "Bonjour", ""},
	{Mistral, `[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}, "id": "abcdefghi"}, {"name": "g", "arguments": {}}]`, "", `f({"a": 1}) g({})`},
	{Mistral, `[TOOL_CALLS] [{"name": "f", "arguments": {"a": [1]}}`, "", `f({"a": [1]})`},
	{Mistral, `Sure.[TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g[CALL_ID]123456789[ARGS]{"b": {"c": "]"}}`, "Sure.", `f({"a": 1}) g({"b": {"c": "]"}})`},
	{Mistral, `[TOOL_CALLS]f{"a": 1}`, "", `f({"a": 1})`},
	{Mistral, `[TOOL_CALLS] what is this`, `[TOOL_CALLS] what is this`, ""},
	{None, `<tool_call>{"name": "f"}</tool_call>`, `<tool_call>{"name": "f"}</tool_call>`, ""},
}

// TestAnswers: calls and text are found, in one piece, byte by byte and cut at any place.
func TestAnswers(t *testing.T) {
	for _, a := range answers {
		check := func(how string, pieces ...string) {
			t.Helper()
			text, calls, _ := answer(a.format, pieces...)
			if got := strings.Join(calls, " "); text != a.text || got != a.calls {
				t.Errorf("%v, %s: %q\n got %q and %s\nwant %q and %s", a.format, how, a.wrote, text, got, a.text, a.calls)
			}
		}
		check("whole", a.wrote)
		check("byte by byte", strings.Split(a.wrote, "")...)
		for cut := range a.wrote {
			check(fmt.Sprint("cut at ", cut), a.wrote[:cut], a.wrote[cut:])
		}
	}
}

// TestArgumentsStream: arguments come while they are written, not when the call is complete.
func TestArgumentsStream(t *testing.T) {
	p := NewParser(Hermes, nil)
	p.Push(`<tool_call>{"name": "write", "arguments": {"text": "`)
	for _, word := range []string{"Once ", "upon ", "a time"} {
		if got := p.Push(word); len(got) != 1 || got[0].Arguments != word || got[0].Call != 0 {
			t.Errorf("after %q came %+v", word, got)
		}
	}
	p.Push(`"}}</tool_call>`)
	if p.Calls() != 1 {
		t.Errorf("%d calls", p.Calls())
	}
}

func TestDetect(t *testing.T) {
	for template, want := range map[string]Format{
		`<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>`: Hermes,
		`<tool_call>\n<function=example>\n<parameter=x> "name" </tool_call>`:                    None,
		`<tool_call>{name}<arg_key>{"name"}</arg_key></tool_call>`:                              None,
		`[TOOL_CALLS][`: Mistral,
		`ipython {"name": "' + tool_call.name + '", "parameters": `: Llama,
		`{{ message.content }}`: None,
	} {
		if got := Detect(template); got != want {
			t.Errorf("%s: %v, want %v", template, got, want)
		}
	}
}

// FuzzParser: nothing panics, calls are numbered one by one, and text without marks comes back whole however it is cut.
func FuzzParser(f *testing.F) {
	for _, a := range answers {
		f.Add(uint8(a.format), a.wrote, uint8(3))
	}
	f.Fuzz(func(t *testing.T, format uint8, wrote string, step uint8) {
		to := Format(format % 4)
		var pieces []string
		for rest := wrote; rest != ""; {
			n := min(len(rest), 1+int(step))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		text, calls, _ := answer(to, pieces...)
		whole, wholeCalls, _ := answer(to, wrote)
		if text != whole || fmt.Sprint(calls) != fmt.Sprint(wholeCalls) {
			t.Fatalf("%v %q in pieces of %d: %q %q, whole: %q %q", to, wrote, 1+int(step), text, calls, whole, wholeCalls)
		}
		if len(calls) == 0 && text != wrote {
			t.Fatalf("%v %q without calls became %q", to, wrote, text)
		}
		if json.Valid([]byte(wrote)) && to == Hermes && !strings.Contains(wrote, hermesOpen) && text != wrote {
			t.Fatalf("JSON %q became %q", wrote, text)
		}
	})
}
