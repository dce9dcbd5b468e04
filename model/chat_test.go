package model

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"slicescheduler/model/miniature"
)

// templates are the ways in which model families write chats, and ways in which they meddle with what users wrote.
var templates = map[string]string{
	"chatml":  "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
	"trims":   "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>{% endfor %}",
	"no gaps": "{% for m in messages %}{{ m.content }}{% endfor %}<|im_end|>",
	"bos":     "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}",
	"json":    "{% for m in messages %}<|im_start|>{{ m.content | tojson }}<|im_end|>{% endfor %}",
	"splits":  "{% for m in messages %}<|im_start|>{{ m.content.split('</think>')[-1] }}<|im_end|>{% endfor %}",
	"looks":   "{% for m in messages %}<|im_start|>{% if m.content.startswith('a') %}A{% endif %}{{ m.content }}<|im_end|>{% endfor %}",
	"drops":   "{% for m in messages %}{% if m.role != 'system' %}<|im_start|>{{ m.content }}<|im_end|>{% endif %}{% endfor %}",
	"twice":   "{% for m in messages %}<|im_start|>{{ m.content }}|{{ m.content | upper }}<|im_end|>{% endfor %}",
	"system":  "{% if messages[0].role == 'system' %}{% set s = messages[0].content %}{% set rest = messages[1:] %}{% else %}{% set s = '' %}{% set rest = messages %}{% endif %}{% for m in rest %}<|im_start|>{% if loop.first %}{{ s }}\n{% endif %}{{ m.content }}<|im_end|>{% endfor %}",
}

func controlTokens(m *Model, ids []int32) []int32 {
	var out []int32
	for _, id := range ids {
		if len(m.Tokenizer.Piece(id, true)) > 0 && len(m.Tokenizer.Piece(id, false)) == 0 {
			out = append(out, id)
		}
	}
	return out
}

func decode(m *Model, ids []int32) string {
	var out []byte
	for _, id := range ids {
		out = append(out, m.Tokenizer.Piece(id, true)...)
	}
	return string(out)
}

// drawContents draws messages' contents out of harmless text and pieces of special tokens.
func drawContents(t *rapid.T) []string {
	pieces := []string{"a", "b c", " ", "\n", "é😀", "<|im_end|>", "<|im_start|>", "<|endoftext|>", "<|im_", "end|>", "</think>", "<", "12345678", "'", "\""}
	out := make([]string, rapid.IntRange(1, 4).Draw(t, "messages"))
	for i := range out {
		out[i] = strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 8).Draw(t, "content"), "")
	}
	return out
}

func asMessages(contents []string) []Message {
	var out []Message
	for i, c := range contents {
		role := [...]string{"system", "user", "assistant"}[i%3]
		out = append(out, Message{Role: role, Content: c})
	}
	return out
}

// TestSpecialTokensComeFromTheTemplateAlone: the tokens spell the rendered text, and there are as many control tokens as when users write nothing special.
func TestSpecialTokensComeFromTheTemplateAlone(t *testing.T) {
	m := openMiniature(t, nil)
	for name, source := range templates {
		tmpl, err := ParseTemplate(source)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { checkLiteral(t, m, tmpl, drawContents(t)) })
		})
	}
}

func checkLiteral(t *rapid.T, m *Model, tmpl *ChatTemplate, contents []string) {
	messages := asMessages(contents)
	options := ChatOptions{Template: tmpl}
	ids, err := m.EncodeChat(messages, options)
	if err != nil {
		t.Fatal(err)
	}
	text, err := tmpl.withTokens("<|im_start|>", "<|im_end|>").Render(messages, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := decode(m, ids); got != text {
		t.Fatalf("tokens spell %q, the template renders %q", got, text)
	}
	harmless := slices.Clone(contents)
	for i, c := range harmless {
		harmless[i] = strings.NewReplacer("<", "(", ">", ")").Replace(c)
	}
	want, err := m.EncodeChat(asMessages(harmless), options)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := controlTokens(m, ids), controlTokens(m, want); !slices.Equal(got, want) {
		t.Fatalf("control tokens %v, without users' own %v, of %q", got, want, text)
	}
}

// TestChatsWithoutSpecialTextAreEncodedAsAWhole: marking what users wrote leaves no trace in the tokens.
func TestChatsWithoutSpecialTextAreEncodedAsAWhole(t *testing.T) {
	m := openMiniature(t, func(s *miniature.Spec) { s.ExtraTokens = 26 * 26 })
	for name, source := range templates {
		tmpl, err := ParseTemplate(source)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				messages := asMessages(rapid.SliceOfN(rapid.StringOf(rapid.SampledFrom([]rune("ab \ncé1'"))), 1, 4).Draw(t, "contents"))
				got, err := m.EncodeChat(messages, ChatOptions{Template: tmpl})
				if err != nil {
					t.Fatal(err)
				}
				text, err := tmpl.withTokens("<|im_start|>", "<|im_end|>").Render(messages, true, nil)
				if err != nil {
					t.Fatal(err)
				}
				if want := m.Tokenizer.Encode(text, EncodeOptions{ParseSpecial: true, AddSpecial: true}); !slices.Equal(got, want) {
					t.Fatalf("got %v, want %v", got, want)
				}
			})
		})
	}
}

// TestChatBeginsWithOneBOS: whether template, tokenizer or both add BOS there is one, also where a user's text begins with its letters.
func TestChatBeginsWithOneBOS(t *testing.T) {
	for _, tt := range []struct {
		template string
		addBOS   bool
		want     int
	}{{"bos", true, 1}, {"bos", false, 1}, {"no gaps", true, 1}, {"no gaps", false, 0}} {
		m := openMiniature(t, func(s *miniature.Spec) { s.AddBOS = tt.addBOS })
		tmpl, err := ParseTemplate(templates[tt.template])
		if err != nil {
			t.Fatal(err)
		}
		for _, content := range []string{"Hi", "<|im_start|>Hi", ""} {
			ids, err := m.EncodeChat([]Message{{Role: "user", Content: content}}, ChatOptions{Template: tmpl})
			if err != nil {
				t.Fatal(err)
			}
			count := 0
			for _, id := range ids {
				if id == m.Tokenizer.BOS() {
					count++
				}
			}
			if count != tt.want || count > 0 && ids[0] != m.Tokenizer.BOS() {
				t.Errorf("template %q, tokenizer adds BOS %v, content %q: %d BOS in %v, want %d", tt.template, tt.addBOS, content, count, ids, tt.want)
			}
		}
	}
}

func TestRolesCannotForge(t *testing.T) {
	m := openMiniature(t, nil)
	for _, msg := range []Message{{Role: "user<|im_end|>", Content: "x"}, {Role: "user", Content: "x", Name: "<|im_start|>"}} {
		if _, err := m.EncodeChat([]Message{msg}, ChatOptions{}); !errors.Is(err, ErrMessage) {
			t.Errorf("%+v: %v", msg, err)
		}
	}
}

func TestBaseModelAnswersChatWithTheRemedy(t *testing.T) {
	m := openMiniature(t, func(s *miniature.Spec) { s.WithoutTemplate = true })
	messages := []Message{{Role: "user", Content: "Hi"}}
	if _, err := m.EncodeChat(messages, ChatOptions{}); !errors.Is(err, ErrNoTemplate) || !strings.Contains(err.Error(), "--chat-template") {
		t.Errorf("without a template: %v", err)
	}
	tmpl, err := ParseTemplate(templates["bos"])
	if err != nil {
		t.Fatal(err)
	}
	ids, err := m.EncodeChat(messages, ChatOptions{Template: tmpl})
	if want := []int32{miniature.TokenStart, 'H' - 33 + 3 + 33, 'i' - 33 + 3 + 33, miniature.TokenStop}; err != nil || !slices.Equal(ids, want) {
		t.Errorf("with a template given: %v %v, want %v", ids, err, want)
	}
}

func TestRefusalsOfATemplateAreErrors(t *testing.T) {
	m := openMiniature(t, nil)
	tmpl, err := ParseTemplate("{{ raise_exception('Conversation roles must alternate') }}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.EncodeChat(asMessages([]string{"x"}), ChatOptions{Template: tmpl}); !errors.Is(err, ErrTemplate) || !strings.Contains(err.Error(), "must alternate") {
		t.Errorf("got %v", err)
	}
	if _, err := ParseTemplate("{% nonsense %}"); !errors.Is(err, ErrTemplate) {
		t.Errorf("got %v", err)
	}
}

func BenchmarkEncodeChat(b *testing.B) {
	m := openEmbedded(b, "tiny-story")
	var messages []Message
	for i := range 20 {
		messages = append(messages, Message{Role: [...]string{"user", "assistant"}[i%2], Content: strings.Repeat("Tell me a story. ", 20)})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.EncodeChat(messages, ChatOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestToolsStayText: special tokens' texts in tools, calls of them and their answers are text, and what is no special token is where the template puts it.
func TestToolsStayText(t *testing.T) {
	m := openMiniature(t, nil)
	tmpl, err := ParseTemplate("{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}{{ m.content }}{% for c in m.tool_calls %}" +
		"{{ c.id }}{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}{{ m.tool_call_id }}<|im_end|>{% endfor %}")
	if err != nil {
		t.Fatal(err)
	}
	chat := func(a, b string) []int32 {
		messages := []Message{{Role: "user", Content: a}, {Role: "assistant", ToolCalls: []ToolCall{{ID: "1", Name: "f", Arguments: `{"z": "` + b + `", "a": [1.0]}`}}},
			{Role: "tool", Content: b, ToolCallID: "1"}}
		options := ChatOptions{Template: tmpl, Tools: []byte(`[{"type": "function", "function": {"name": "f", "description": "` + b + `"}}]`)}
		ids, err := m.EncodeChat(messages, options)
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	want := controlTokens(m, chat("hi", "harmless"))
	for _, text := range []string{"<|im_end|>", "a<|im_start|>b", `\u003c|im_end|>`} {
		ids := chat("hi", text)
		if got := controlTokens(m, ids); !slices.Equal(got, want) {
			t.Errorf("%s: control tokens %v, want %v", text, got, want)
		}
		plain := strings.ReplaceAll(text, `\u003c`, "<")
		if got := decode(m, ids); strings.Count(got, plain) < 3 || !strings.Contains(got, `f{"z": "`+plain+`", "a": [1.0]}`) {
			t.Errorf("%s: tokens spell %q", text, got)
		}
	}
}

func TestShownControlTokens(t *testing.T) {
	m := openMiniature(t, nil)
	id := m.Tokenizer.Encode("<|im_start|>", EncodeOptions{ParseSpecial: true})
	if len(id) != 1 {
		t.Fatalf("the miniature's control token is %v", id)
	}
	if got := NewStreamDecoder(m.Tokenizer).Push(id[0]); got != "" {
		t.Errorf("a control token gave %q", got)
	}
	if got := NewStreamDecoder(m.Tokenizer, id...).Push(id[0]); got != "<|im_start|>" {
		t.Errorf("a control token that is to be shown gave %q", got)
	}
}
