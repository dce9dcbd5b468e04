package server

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"slicescheduler/actors"
)

func TestOneChoiceFailsAll(t *testing.T) {
	for _, stream := range []bool{false, true} {
		f := newFake()
		f.script = func(r actors.GenerateRequest) (*fakeStream, error) {
			if strings.HasSuffix(r.ID, "-3") {
				return script(actors.Event{Text: "a"}, actors.Event{Finish: actors.FinishError, Err: actors.ErrFailed}), nil
			}
			return endless("b")(r)
		}
		// The others never end by themselves: that the call returns, with nothing left open, shows that they were closed.
		w := call(newTestServer(t, f, nil), "POST", "/v1/chat/completions", helloChat+fmt.Sprintf(`,"n":5,"stream":%v}`, stream), "")
		body := w.Body.String()
		if !strings.Contains(body, "request_failed") || strings.Contains(body, "[DONE]") || !stream && w.Code != 500 {
			t.Errorf("stream %v: %d %.300s", stream, w.Code, body[max(0, len(body)-300):])
		}
	}
}

func TestOneChoiceRefusedRefusesAll(t *testing.T) {
	f := newFake()
	f.script = func(r actors.GenerateRequest) (*fakeStream, error) {
		if strings.HasSuffix(r.ID, "-2") {
			return nil, &actors.QueueError{Tenant: "alpha"}
		}
		return endless("b")(r)
	}
	expectError(t, call(newTestServer(t, f, nil), "POST", "/v1/chat/completions", helloChat+`,"n":4,"stream":true}`, ""), 429, "queue_full", "")
}

func TestChoicesKeepTheirOwnText(t *testing.T) {
	f := newFake()
	f.script = func(r actors.GenerateRequest) (*fakeStream, error) {
		return script(actors.Event{Text: r.ID}, actors.Event{Text: "!"}, actors.Event{Finish: actors.FinishStop}), nil
	}
	w := call(newTestServer(t, f, nil), "POST", "/v1/completions", `{"model":"alpha","prompt":["a","b","c"],"n":20,"stream":true}`, "")
	texts, finishes := map[int]string{}, map[int]int{}
	for line := range strings.Lines(w.Body.String()) {
		var chunk completionAnswer
		data, ok := strings.CutPrefix(line, "data: {")
		if !ok {
			continue
		}
		if err := json.Unmarshal([]byte("{"+data), &chunk); err != nil {
			t.Fatal(err)
		}
		for _, c := range chunk.Choices {
			texts[c.Index] += c.Text
			if c.FinishReason != nil {
				finishes[c.Index]++
			}
		}
	}
	if len(texts) != 60 {
		t.Fatalf("%d choices, want 60", len(texts))
	}
	for i, text := range texts {
		if want := fmt.Sprintf("cmpl-ID-%d!", i); text != want || finishes[i] != 1 {
			t.Errorf("choice %d is %q with %d finishes, want %q with one", i, text, finishes[i], want)
		}
	}
}

func TestSeedsOfChoices(t *testing.T) {
	f := newFake()
	s := newTestServer(t, f, nil)
	call(s, "POST", "/v1/completions", `{"model":"alpha","prompt":["a","b"],"n":3,"seed":9}`, "")
	for i, r := range f.requests {
		if want := uint64(9 + i%3); !r.Sampling.HasSeed || r.Sampling.Seed != want || r.Prompt != []string{"a", "b"}[i/3] {
			t.Errorf("choice %d of prompt %q has seed %d, want %d", i, r.Prompt, r.Sampling.Seed, want)
		}
	}
	if len(f.requests) != 6 {
		t.Errorf("%d requests, want 6", len(f.requests))
	}
	f.requests = nil
	call(s, "POST", "/v1/completions", `{"model":"alpha","prompt":"a","n":3}`, "")
	for _, r := range f.requests {
		if r.Sampling.HasSeed {
			t.Errorf("a seed out of nowhere: %+v", r.Sampling)
		}
	}
}

func TestLogprobsThatJSONCannotHold(t *testing.T) {
	for given, want := range map[float64]float64{math.Inf(-1): -9999, math.NaN(): -9999, -20000: -9999, -1.5: -1.5} {
		if got := finite(given); got != want {
			t.Errorf("%v becomes %v, want %v", given, got, want)
		}
	}
	const grin = "\xf0\x9f\x99\x82"
	for given, want := range map[string]string{grin: grin, grin[:2]: `bytes:\xf0\x9f`, "a": "a", "": ""} {
		if got := tokenText([]byte(given)); got != want {
			t.Errorf("%q is shown as %q, want %q", given, got, want)
		}
	}
}
