package model

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"slicescheduler/model/jinja"
	"slicescheduler/model/tokenizer"
	"slicescheduler/model/toolcall"
)

// ChatOptions says how a conversation becomes tokens. The zero value uses the model's own template and asks for an answer.
type ChatOptions struct {
	// Template stands in for the model's own.
	Template *ChatTemplate
	// NoGenerationPrompt leaves out the beginning of the assistant's answer.
	NoGenerationPrompt bool
	// Tools is a JSON array of tools as in OpenAI's API, or nil.
	Tools []byte
	// Extra are further variables of the template.
	Extra map[string]any
}

// ErrMessage is a message that no chat may hold.
var ErrMessage = errors.New("invalid message")

// markDigits is the length of a mark: 106 bits that nobody can guess, in digits, which no filter of a template changes.
const markDigits = 32

// EncodeChat renders a conversation and encodes it. Special tokens come from the template alone: what users wrote stays literal, whatever it looks like. BOS is there
// exactly once where the model wants it. A model without a template gives ErrNoTemplate.
func (m *Model) EncodeChat(messages []Message, o ChatOptions) ([]int32, error) {
	t := o.Template
	if t == nil {
		t = m.Template
	}
	if t == nil {
		return nil, m.noTemplate()
	}
	if t.bos == "" && t.eos == "" {
		t = t.withTokens(m.tokenText(m.Tokenizer.BOS()), m.tokenText(m.Tokenizer.EOS()))
	}
	tok, ok := m.Tokenizer.(*tokenizer.Tokenizer)
	if !ok {
		return nil, fmt.Errorf("%w: tokenizer %T cannot keep users' text literal", ErrUnsupported, m.Tokenizer)
	}
	e := chatEncoder{tok: tok, template: t, options: o}
	if o.Tools != nil {
		tools, err := jinja.DecodeJSON(o.Tools)
		if err != nil {
			return nil, fmt.Errorf("%s: tools: %w", m.Name, err)
		}
		e.tools = tools
	}
	text, literal, err := e.render(messages)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name, err)
	}
	return tok.Encode(text, EncodeOptions{AddSpecial: true, ParseSpecial: true, Literal: literal}), nil
}

func (m *Model) noTemplate() error {
	if m.templateErr != nil {
		return fmt.Errorf("%s: %w", m.Name, m.templateErr)
	}
	return fmt.Errorf("%s: %w: it is a base model; use completions, or give a template with --chat-template FILE", m.Name, ErrNoTemplate)
}

func (m *Model) tokenText(id int32) string { return string(m.Tokenizer.Piece(id, true)) }

// ToolFormat says how a model's answers call tools, by its own chat template or the one that stands in for it.
func (m *Model) ToolFormat(t *ChatTemplate) toolcall.Format {
	if t == nil {
		t = m.Template
	}
	if t == nil {
		return toolcall.None
	}
	return toolcall.Detect(t.source)
}

// ToolMarks returns the control tokens that a StreamDecoder must show for calls in a format to be found.
func (m *Model) ToolMarks(f toolcall.Format) []int32 {
	var ids []int32
	for _, mark := range f.Marks() {
		if list := m.Tokenizer.Encode(mark, EncodeOptions{ParseSpecial: true}); len(list) == 1 {
			ids = append(ids, list[0])
		}
	}
	return ids
}

// chatEncoder finds out which parts of a rendered chat users wrote.
type chatEncoder struct {
	tok      *tokenizer.Tokenizer
	template *ChatTemplate
	options  ChatOptions
	tools    any
}

// render returns the rendered chat and the pieces of it in which special tokens are literal text.
//
// It renders twice: once as it is, and once with marks around each message's content, inside of its white space so that a template's trim does what it did. Where both agree but for the
// marks, these show what users wrote. A template that looks into contents may render the marked chat in another way; then only the special tokens' texts in contents are
// marked, in their middle, which no template looks for. So are they where tools or calls of them hold any.
func (e *chatEncoder) render(messages []Message) (string, []tokenizer.Span, error) {
	mark, err := newMark()
	if err != nil {
		return "", nil, err
	}
	for i, m := range messages {
		if e.tok.HasSpecial(m.Role) || e.tok.HasSpecial(m.Name) {
			return "", nil, fmt.Errorf("%w: role %q or name %q of message %d holds a special token", ErrMessage, m.Role, m.Name, i)
		}
	}
	objects := messageObjects(messages)
	plain, err := e.renderPlain(objects, e.tools)
	if err != nil {
		return "", nil, err
	}
	if !e.specialInTools(messages) {
		around := slices.Clone(messages)
		for i, m := range messages {
			around[i].Content = surround(m.Content, mark, i)
		}
		if marked, err := e.renderPlain(messageObjects(around), e.tools); err == nil {
			if text, spans, ok := unmarkPairs(marked, plain, mark); ok {
				return text, spans, nil
			}
		}
	}
	cut := func(text string) string { return e.split(text, mark) }
	cutObjects, _ := mapTexts(objects, cut).([]any)
	marked, err := e.renderPlain(cutObjects, mapTexts(e.tools, cut))
	if err != nil {
		return "", nil, err
	}
	text, spans := e.unmarkSplits(marked, mark)
	if strings.Contains(text, mark[:markDigits/4]) || strings.Contains(text, mark[markDigits*3/4:]) {
		return "", nil, fmt.Errorf("%w: %s cuts messages' contents apart", ErrTemplate, e.template.name)
	}
	return text, spans, nil
}

func (e *chatEncoder) renderPlain(messages []any, tools any) (string, error) {
	extra := e.options.Extra
	if tools != nil {
		extra = maps.Clone(extra)
		if extra == nil {
			extra = make(map[string]any)
		}
		extra["tools"] = tools
	}
	return e.template.render(messages, !e.options.NoGenerationPrompt, extra)
}

// specialInTools says whether the tools, or calls of them in messages, hold a special token's text.
func (e *chatEncoder) specialInTools(messages []Message) bool {
	found := false
	look := func(text string) string {
		found = found || e.tok.HasSpecial(text)
		return text
	}
	mapTexts(e.tools, look)
	for _, m := range messages {
		mapTexts(callObjects(m.ToolCalls), look)
		look(m.ToolCallID)
	}
	return found
}

func newMark() (string, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Exp(big.NewInt(10), big.NewInt(markDigits), nil))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%0*d", markDigits, n), nil
}

// The marks around message i's content are the mark, then "1" or "2" for its beginning or end, then i in indexDigits digits: a template that drops one of a pair must not make a pair out
// of two messages' marks.
const indexDigits = 6

func pairMark(mark string, end bool, message int) string {
	kind := 1
	if end {
		kind = 2
	}
	return fmt.Sprintf("%s%d%0*d", mark, kind, indexDigits, message)
}

// surround puts marks around a content, inside of its white space.
func surround(content, mark string, message int) string {
	core := strings.TrimFunc(content, unicode.IsSpace)
	if core == "" {
		return content
	}
	from := strings.Index(content, core)
	return content[:from] + pairMark(mark, false, message) + core + pairMark(mark, true, message) + content[from+len(core):]
}

// unmarkPairs takes pairs of marks out. ok says that all are pairs and that what is left is plain.
func unmarkPairs(marked, plain, mark string) (text string, spans []tokenizer.Span, ok bool) {
	parts := strings.Split(marked, mark)
	var out strings.Builder
	out.WriteString(parts[0])
	begun := ""
	for _, p := range parts[1:] {
		if len(p) < 1+indexDigits {
			return "", nil, false
		}
		label, rest := p[:1+indexDigits], p[1+indexDigits:]
		switch {
		case begun == "" && label[0] == '1':
			begun = label
			spans = append(spans, tokenizer.Span{From: out.Len(), To: out.Len() + len(rest)})
		case begun != "" && label[0] == '2' && label[1:] == begun[1:]:
			begun = ""
		default:
			return "", nil, false
		}
		out.WriteString(rest)
	}
	return plain, spans, begun == "" && out.String() == plain
}

// split puts a mark into every special token's text, after its first character.
func (e *chatEncoder) split(text, mark string) string {
	var out strings.Builder
	from := 0
	for {
		start, end, found := e.tok.FindSpecial(text, from)
		if !found {
			out.WriteString(text[from:])
			return out.String()
		}
		_, size := utf8.DecodeRuneInString(text[start:])
		out.WriteString(text[from : start+size])
		out.WriteString(mark)
		out.WriteString(text[start+size : end])
		from = end
	}
}

// unmarkSplits takes the marks that split put in out, and names the special tokens' texts around them as literal.
func (e *chatEncoder) unmarkSplits(marked, mark string) (string, []tokenizer.Span) {
	var out strings.Builder
	var at []int
	for i, p := range strings.Split(marked, mark) {
		if i > 0 {
			at = append(at, out.Len())
		}
		out.WriteString(p)
	}
	text := out.String()
	spans := make([]tokenizer.Span, 0, len(at))
	for _, cut := range at {
		// The mark stood behind the text's first character, so no token that touches either side of it comes from the template.
		spans = append(spans, tokenizer.Span{From: cut - 1, To: min(cut+1, len(text))})
	}
	return text, spans
}
