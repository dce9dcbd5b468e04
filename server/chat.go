package server

import (
	"encoding/json"
	"math"
	"net/http"
	"strings"

	"slicescheduler/actors"
	"slicescheduler/gpuworker/sampling"
)

type chatAnswer struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	Usage   any          `json:"usage,omitempty"` // null in the chunks before the one with the usage
}

type chatChoice struct {
	Index        int               `json:"index"`
	Message      *wholeMessageJSON `json:"message,omitempty"`
	Delta        *chatMessageJSON  `json:"delta,omitempty"`
	Logprobs     *chatLogprobs     `json:"logprobs"`
	FinishReason *string           `json:"finish_reason"`
}

// chatMessageJSON is a message, or in chunks the part of it that is new.
type chatMessageJSON struct {
	Role      string         `json:"role,omitempty"`
	Content   *string        `json:"content,omitempty"`
	ToolCalls []toolCallJSON `json:"tool_calls,omitempty"`
}

// wholeMessageJSON is a message whose content is null, and not left out, where there is none but calls.
type wholeMessageJSON struct {
	Role      string         `json:"role"`
	Content   *string        `json:"content"`
	ToolCalls []toolCallJSON `json:"tool_calls,omitempty"`
}

type chatLogprobs struct {
	Content []chatLogprob `json:"content"`
}

type chatLogprob struct {
	Token   string        `json:"token"`
	Logprob float64       `json:"logprob"`
	Bytes   []int         `json:"bytes"`
	Top     []chatLogprob `json:"top_logprobs,omitzero"`
}

// lowestLogprob stands for minus infinity, which JSON can't hold; it is the value OpenAI's API gives for the very unlikely.
const lowestLogprob = -9999.0

func chatLogprobOf(t actors.TokenLogprob) chatLogprob {
	bytes := make([]int, len(t.Bytes))
	for i, b := range t.Bytes {
		bytes[i] = int(b)
	}
	return chatLogprob{Token: strings.ToValidUTF8(string(t.Bytes), "\uFFFD"), Logprob: finite(t.Logprob), Bytes: bytes}
}

func finite(logprob float64) float64 {
	if math.IsNaN(logprob) {
		return lowestLogprob
	}
	return max(lowestLogprob, logprob)
}

func chatLogprobsOf(tokens []actors.TokenLogprob) []chatLogprob {
	list := make([]chatLogprob, len(tokens))
	for i, t := range tokens {
		list[i] = chatLogprobOf(t)
		list[i].Top = []chatLogprob{}
		for _, alternative := range t.Top {
			list[i].Top = append(list[i].Top, chatLogprobOf(alternative))
		}
	}
	return list
}

// parseChat reads a chat request.
func (s *Server) parseChat(f *fields) (generation, error) {
	tenant := tenantName(f)
	g := s.common(f)
	g.base.Tenant, g.base.Messages = tenant, chatMessages(f)
	g.tools, g.base.Tools = tools(f)
	old, hasOld := f.optionalInteger("max_tokens", 1, math.MaxInt32)
	most, has := f.optionalInteger("max_completion_tokens", 1, math.MaxInt32)
	if hasOld && has && old != most {
		f.fail(badField("max_completion_tokens", "is %d, but max_tokens is %d; give one of them", most, old))
	}
	g.base.MaxTokens = max(old, most)
	wanted := f.flag("logprobs")
	top, hasTop := f.optionalInteger("top_logprobs", 0, sampling.MaxLogprobs)
	switch {
	case wanted:
		g.base.Logprobs = top
	case hasTop && top > 0:
		f.fail(badField("top_logprobs", "only goes with logprobs: true"))
	}
	f.only(map[string][]string{
		"functions": {"[]"}, "function_call": {`"none"`, `"auto"`},
		"modalities": {`["text"]`}, "audio": {}, "reasoning_effort": {`"none"`}, "verbosity": {`"medium"`}, "web_search_options": {},
		"add_generation_prompt": {"true"}, "continue_final_message": {"false"}, "echo": {"false"}, "best_of": {"1"}, "chat_template": {},
		"chat_template_kwargs": {"{}"}, "documents": {"[]"}, "add_special_tokens": {"false"},
	})
	return g, f.finish()
}

// chat answers POST /v1/chat/completions.
func (s *Server) chat(w http.ResponseWriter, r *http.Request) error {
	f, err := s.readFields(w, r)
	if err != nil {
		return err
	}
	g, err := s.parseChat(f)
	if err != nil {
		return err
	}
	if err := s.admit(r, &g); err != nil {
		return err
	}
	id := "chatcmpl-" + s.newID()
	a, err := s.start(r.Context(), g.requests(id, 0, func(*actors.GenerateRequest) {}), "messages")
	if err != nil {
		return err
	}
	defer a.close()
	head := chatAnswer{ID: id, Object: "chat.completion", Created: s.now().Unix(), Model: string(g.base.Tenant)}
	if g.stream {
		s.streamChat(w, r, &g, a, head)
		return nil
	}
	return s.wholeChat(w, r, &g, a, head)
}

// admit checks what depends on the tenant: the key, then the parameters against the model.
func (s *Server) admit(r *http.Request, g *generation) error {
	if err := s.authorizeTenant(r, g.base.Tenant); err != nil {
		return err
	}
	m, err := s.api.TenantModel(r.Context(), g.base.Tenant)
	if err != nil {
		return err
	}
	if err := checkTools(g, m); err != nil {
		return err
	}
	return checkSampling(g, m.VocabSize)
}

// callReaders are one for each choice.
func callReaders(g *generation, a answers, id string) []*callReader {
	readers := make([]*callReader, len(a))
	for i := range readers {
		readers[i] = newCallReader(g.tools, id, i)
	}
	return readers
}

func (s *Server) wholeChat(w http.ResponseWriter, r *http.Request, g *generation, a answers, head chatAnswer) error {
	var (
		readers  = callReaders(g, a, head.ID)
		messages = make([]wholeMessage, len(a))
		total    usage
	)
	head.Choices = make([]chatChoice, len(a))
	err := a.each(r.Context(), func(i int, e actors.Event) error {
		c := &head.Choices[i]
		for _, delta := range readers[i].read(e) {
			messages[i].add(delta)
		}
		if e.Logprobs != nil {
			if c.Logprobs == nil {
				c.Logprobs = &chatLogprobs{}
			}
			c.Logprobs.Content = append(c.Logprobs.Content, chatLogprobsOf(e.Logprobs)...)
		}
		if e.Finish != "" {
			c.FinishReason = new(readers[i].finish(e.Finish))
			total.add(e.Usage, i == 0)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range head.Choices {
		head.Choices[i].Index = i
		head.Choices[i].Message = messages[i].json()
	}
	head.Usage = total
	writeJSON(w, http.StatusOK, head)
	return nil
}

func (s *Server) streamChat(w http.ResponseWriter, r *http.Request, g *generation, a answers, head chatAnswer) {
	events := s.newEventWriter(w)
	head.Object = "chat.completion.chunk"
	if g.includeUsage {
		head.Usage = json.RawMessage("null")
	}
	send := func(c chatChoice) error {
		chunk := head
		chunk.Choices = []chatChoice{c}
		return events.send(chunk)
	}
	for i := range a {
		if send(chatChoice{Index: i, Delta: &chatMessageJSON{Role: "assistant", Content: new("")}}) != nil {
			return // the client has gone
		}
	}
	var total usage
	readers := callReaders(g, a, head.ID)
	err := a.each(r.Context(), func(i int, e actors.Event) error {
		if err := sendDeltas(i, readers[i].read(e), e.Logprobs, send); err != nil {
			return err
		}
		if e.Finish == "" {
			return nil
		}
		total.add(e.Usage, i == 0)
		return send(chatChoice{Index: i, Delta: &chatMessageJSON{}, FinishReason: new(readers[i].finish(e.Finish))})
	})
	if err == nil && g.includeUsage {
		head.Choices, head.Usage = []chatChoice{}, total
		err = events.send(head)
	}
	s.end(events, r, err)
}

// sendDeltas sends what an event brought. Its log probabilities go with the first delta, or alone where its text is held back.
func sendDeltas(choice int, deltas []chatMessageJSON, logprobs []actors.TokenLogprob, send func(chatChoice) error) error {
	if len(deltas) == 0 && len(logprobs) > 0 {
		deltas = []chatMessageJSON{{Content: new("")}}
	}
	for n, delta := range deltas {
		c := chatChoice{Index: choice, Delta: &delta}
		if n == 0 && logprobs != nil {
			c.Logprobs = &chatLogprobs{chatLogprobsOf(logprobs)}
		}
		if err := send(c); err != nil {
			return err
		}
	}
	return nil
}
