package server

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"slicescheduler/actors"
)

// scripts are the answers that testdata/framing names.
func scripts() map[string][]actors.Event {
	finish := func(r actors.FinishReason) actors.Event {
		return actors.Event{Finish: r, Usage: actors.Usage{PromptTokens: 7, CachedTokens: 3, CompletionTokens: 2}}
	}
	bytes := func(id int32, b ...byte) actors.TokenLogprob {
		return actors.TokenLogprob{Token: id, Bytes: b, Logprob: -0.25}
	}
	return map[string][]actors.Event{
		"hello":  hello(),
		"empty":  {finish(actors.FinishLength)},
		"fails":  {{Text: "a", Tokens: []int32{1}}, {Finish: actors.FinishError, Err: actors.ErrFailed}},
		"cancel": {{Text: "a", Tokens: []int32{1}}, {Finish: actors.FinishCancel}},
		// An emoji cut over two tokens: the text comes with the second.
		"emoji": {
			{Text: "", Tokens: []int32{1}, Logprobs: []actors.TokenLogprob{bytes(1, 0xf0, 0x9f)}},
			{Text: "🙂", Tokens: []int32{2}, Logprobs: []actors.TokenLogprob{bytes(2, 0x99, 0x82)}},
			finish(actors.FinishStop),
		},
	}
}

// asAsked takes log probabilities out of a script where none were asked for.
func asAsked(events []actors.Event, logprobs int) []actors.Event {
	events = slices.Clone(events)
	for i := range events {
		if logprobs < 0 {
			events[i].Logprobs = nil
		}
	}
	return events
}

func TestFraming(t *testing.T) {
	datadriven.Walk(t, "testdata/framing", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var name string
			d.ScanArgs(t, "script", &name)
			events, ok := scripts()[name]
			if !ok {
				d.Fatalf(t, "no script %q", name)
			}
			f := newFake()
			f.script = func(r actors.GenerateRequest) (*fakeStream, error) {
				return script(asAsked(events, r.Logprobs)...), nil
			}
			s := newTestServer(t, f, nil)
			s.now = func() time.Time { return time.Unix(1700000000, 0) }
			paths := map[string]string{"chat": "/v1/chat/completions", "completion": "/v1/completions"}
			w := call(s, "POST", paths[d.Cmd], d.Input, "")
			return w.Header().Get("Content-Type") + "\n" + strings.ReplaceAll(strings.TrimRight(w.Body.String(), "\n"), "\n\n", "\n") + "\n"
		})
	})
}
