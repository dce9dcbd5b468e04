package server

import (
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"unicode/utf8"

	"slicescheduler/actors"
	"slicescheduler/gpuworker/sampling"
)

// defaultCompletionTokens is what a completion without max_tokens gets, as in OpenAI's API.
const defaultCompletionTokens = 16

type completionAnswer struct {
	ID      string             `json:"id"`
	Object  string             `json:"object"`
	Created int64              `json:"created"`
	Model   string             `json:"model"`
	Choices []completionChoice `json:"choices"`
	Usage   any                `json:"usage,omitempty"`
}

type completionChoice struct {
	Index        int                 `json:"index"`
	Text         string              `json:"text"`
	Logprobs     *completionLogprobs `json:"logprobs"`
	FinishReason *string             `json:"finish_reason"`
}

// completionLogprobs has one item a token in each list. Offsets count characters from the start of the choice's text.
type completionLogprobs struct {
	Tokens        []string             `json:"tokens"`
	TokenLogprobs []float64            `json:"token_logprobs"`
	TopLogprobs   []map[string]float64 `json:"top_logprobs"`
	TextOffset    []int                `json:"text_offset"`
}

// add appends tokens; offset is the characters before them, and the result those after them.
func (l *completionLogprobs) add(tokens []actors.TokenLogprob, offset int) int {
	for _, t := range tokens {
		l.Tokens = append(l.Tokens, tokenText(t.Bytes))
		l.TokenLogprobs = append(l.TokenLogprobs, finite(t.Logprob))
		l.TextOffset = append(l.TextOffset, offset)
		var top map[string]float64
		if len(t.Top) > 0 {
			top = make(map[string]float64, len(t.Top))
			for _, a := range t.Top {
				top[tokenText(a.Bytes)] = finite(a.Logprob)
			}
		}
		l.TopLogprobs = append(l.TopLogprobs, top)
		for _, b := range t.Bytes {
			if utf8.RuneStart(b) {
				offset++
			}
		}
	}
	return offset
}

// tokenText shows a token that is no whole text by its bytes, as OpenAI's API does.
func tokenText(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	const hex = "0123456789abcdef"
	text := []byte("bytes:")
	for _, c := range b {
		text = append(text, '\\', 'x', hex[c>>4], hex[c&15])
	}
	return string(text)
}

// completion is a checked completion request.
type completion struct {
	generation
	prompts []prompt
	echo    bool
}

func (s *Server) parseCompletion(f *fields) (completion, error) {
	tenant := tenantName(f)
	c := completion{generation: s.common(f)}
	c.base.Tenant = tenant
	c.prompts = prompts(f)
	c.echo = f.flag("echo")
	c.base.MaxTokens = f.integer("max_tokens", defaultCompletionTokens, 1, math.MaxInt32)
	c.base.Logprobs = f.integer("logprobs", -1, 0, sampling.MaxLogprobs)
	if best := f.integer("best_of", c.n, 1, s.config.Limits.Choices); best != c.n {
		f.fail(badField("best_of", "is only supported when equal to n, %d, got %d", c.n, best))
	}
	f.only(map[string][]string{"suffix": {`""`}, "add_special_tokens": {"true"}})
	if total := c.n * len(c.prompts); total > s.config.Limits.Choices {
		f.fail(badField("n", "times the prompts makes %d choices; at most %d", total, s.config.Limits.Choices))
	}
	if c.echo {
		if c.base.Logprobs >= 0 {
			f.fail(badField("echo", "is not supported together with logprobs"))
		}
		for _, p := range c.prompts {
			if p.tokens != nil {
				f.fail(badField("echo", "is only supported for prompts given as text"))
			}
		}
	}
	return c, f.finish()
}

// completions answers POST /v1/completions.
func (s *Server) completions(w http.ResponseWriter, r *http.Request) error {
	f, err := s.readFields(w, r)
	if err != nil {
		return err
	}
	c, err := s.parseCompletion(f)
	if err != nil {
		return err
	}
	if err := s.admit(r, &c.generation); err != nil {
		return err
	}
	id := "cmpl-" + s.newID()
	var requests []actors.GenerateRequest
	for _, p := range c.prompts {
		requests = append(requests, c.requests(id, len(requests), func(r *actors.GenerateRequest) { r.Prompt, r.PromptTokens = p.text, p.tokens })...)
	}
	a, err := s.start(r.Context(), requests, "prompt")
	if err != nil {
		return err
	}
	defer a.close()
	head := completionAnswer{ID: id, Object: "text_completion", Created: s.now().Unix(), Model: string(c.base.Tenant)}
	if c.stream {
		s.streamCompletion(w, r, &c, a, head)
		return nil
	}
	return s.wholeCompletion(w, r, &c, a, head)
}

func (s *Server) wholeCompletion(w http.ResponseWriter, r *http.Request, c *completion, a answers, head completionAnswer) error {
	var (
		texts   = make([]strings.Builder, len(a))
		offsets = make([]int, len(a))
		total   usage
	)
	head.Choices = make([]completionChoice, len(a))
	for i := range a {
		if c.echo {
			texts[i].WriteString(c.prompts[i/c.n].text)
		}
	}
	err := a.each(r.Context(), func(i int, e actors.Event) error {
		choice := &head.Choices[i]
		texts[i].WriteString(e.Text)
		if e.Logprobs != nil {
			if choice.Logprobs == nil {
				choice.Logprobs = &completionLogprobs{}
			}
			offsets[i] = choice.Logprobs.add(e.Logprobs, offsets[i])
		}
		if e.Finish != "" {
			choice.FinishReason = new(string(e.Finish))
			total.add(e.Usage, i%c.n == 0)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range head.Choices {
		head.Choices[i].Index, head.Choices[i].Text = i, texts[i].String()
	}
	head.Usage = total
	writeJSON(w, http.StatusOK, head)
	return nil
}

func (s *Server) streamCompletion(w http.ResponseWriter, r *http.Request, c *completion, a answers, head completionAnswer) {
	events := s.newEventWriter(w)
	if c.includeUsage {
		head.Usage = json.RawMessage("null")
	}
	send := func(choice completionChoice) error {
		chunk := head
		chunk.Choices = []completionChoice{choice}
		return events.send(chunk)
	}
	if c.echo {
		for i := range a {
			if send(completionChoice{Index: i, Text: c.prompts[i/c.n].text}) != nil {
				return // the client has gone
			}
		}
	}
	var (
		offsets = make([]int, len(a))
		total   usage
	)
	err := a.each(r.Context(), func(i int, e actors.Event) error {
		choice := completionChoice{Index: i, Text: e.Text}
		if e.Logprobs != nil {
			choice.Logprobs = &completionLogprobs{}
			offsets[i] = choice.Logprobs.add(e.Logprobs, offsets[i])
		}
		if e.Finish != "" {
			choice.FinishReason = new(string(e.Finish))
			total.add(e.Usage, i%c.n == 0)
		}
		return send(choice)
	})
	if err == nil && c.includeUsage {
		head.Choices, head.Usage = []completionChoice{}, total
		err = events.send(head)
	}
	s.end(events, r, err)
}
