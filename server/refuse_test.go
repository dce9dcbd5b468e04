package server

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"slicescheduler/actors"
)

func TestFieldsAreRefusedByName(t *testing.T) {
	for _, c := range []struct{ fields, code, param string }{
		{`"temperature":"hot"`, "invalid_type", "temperature"},
		{`"temperature":NaN`, "invalid_json", "temperature"},
		{`"temperature":1e400`, "invalid_type", "temperature"},
		{`"temperature":1e39`, "invalid_value", "temperature"},
		{`"temperature":-1`, "invalid_value", "temperature"},
		{`"top_p":0`, "invalid_value", "top_p"},
		{`"min_p":2`, "invalid_value", "min_p"},
		{`"top_k":-2`, "invalid_value", "top_k"},
		{`"repetition_penalty":0`, "invalid_value", "repetition_penalty"},
		{`"presence_penalty":3`, "invalid_value", "presence_penalty"},
		{`"frequency_penalty":-3`, "invalid_value", "frequency_penalty"},
		{`"seed":1.5`, "invalid_type", "seed"},
		{`"logit_bias":{"50":1}`, "invalid_value", "logit_bias"},
		{`"logit_bias":{"x":1}`, "invalid_value", "logit_bias"},
		{`"logit_bias":{"1":101}`, "invalid_value", "logit_bias"},
		{`"logit_bias":{"1":null}`, "invalid_value", "logit_bias"},
		{`"n":0`, "invalid_value", "n"},
		{`"n":129`, "invalid_value", "n"},
		{`"stop":[1]`, "invalid_type", "stop"},
		{`"stop":[null]`, "invalid_value", "stop"},
		{`"stop":""`, "invalid_value", "stop"},
		{`"stop":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"]`, "invalid_value", "stop"},
		{`"max_tokens":0`, "invalid_value", "max_tokens"},
		{`"max_tokens":2,"min_tokens":3`, "invalid_value", "min_tokens"},
		{`"ignore_eos":1`, "invalid_type", "ignore_eos"},
		{`"stream_options":{"include_usage":true}`, "invalid_value", "stream_options"},
		{`"stream":true,"stream_options":{"x":1}`, "unknown_parameter", "stream_options.x"},
		{`"store":true`, "unsupported_parameter", "store"},
		{`"response_format":{"type":"json_object"}`, "unsupported_parameter", "response_format"},
		{`"guided_json":{}`, "unsupported_parameter", "guided_json"},
		{`"frobnicate":1`, "unknown_parameter", "frobnicate"},
		{`"Temperature":1`, "unknown_parameter", "Temperature"},
		{`"seed":1,"seed":2`, "invalid_json", "seed"},
		{`"metadata":{"a":1,"a":2}`, "invalid_json", "metadata"},
		{`"metadata":` + strings.Repeat("[", 40) + strings.Repeat("]", 40), "invalid_json", "metadata"},
	} {
		s := newTestServer(t, newFake(), nil)
		expectError(t, call(s, "POST", "/v1/chat/completions", `{"model":"alpha","messages":[{"role":"user","content":"x"}],`+c.fields+`}`, ""), 400, c.code, c.param)
		expectError(t, call(s, "POST", "/v1/completions", `{"model":"alpha","prompt":"x",`+c.fields+`}`, ""), 400, c.code, c.param)
	}
}

func TestOnlyOneEntranceRefuses(t *testing.T) {
	const chat, completion, tenants = "/v1/chat/completions", "/v1/completions", "/admin/v1/tenants"
	const hi = `{"model":"alpha","messages":[{"role":"user","content":"x"}],`
	for _, c := range []struct{ path, body, code, param string }{
		{chat, `{"messages":[]}`, "invalid_value", "model"},
		{chat, `{"model":"alpha","messages":[]}`, "invalid_value", "messages"},
		{chat, `{"model":"alpha","messages":[{"role":"function","content":"x"}]}`, "unsupported_parameter", "messages[0].role"},
		{chat, `{"model":"alpha","messages":[{"role":"tool","content":"x"}]}`, "invalid_value", "messages[0].tool_call_id"},
		{chat, `{"model":"alpha","messages":[{"role":"user","content":"x","tool_call_id":"a"}]}`, "unsupported_parameter", "messages[0].tool_call_id"},
		{chat, `{"model":"alpha","messages":[{"role":"user","content":"x","tool_calls":[{}]}]}`, "unsupported_parameter", "messages[0].tool_calls"},
		{chat, `{"model":"alpha","messages":[{"role":"assistant","tool_calls":[{"id":"a"}]}]}`, "invalid_value", "messages[0].tool_calls[0].function.name"},
		{chat, `{"model":"alpha","messages":[{"role":"user"}]}`, "invalid_value", "messages[0].content"},
		{chat, `{"model":"alpha","messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]}`, "unsupported_parameter", "messages[0].content[0].type"},
		{chat, `{"model":"alpha","messages":[{"role":"user","content":[{"type":"text"}]}]}`, "invalid_value", "messages[0].content[0].text"},
		{chat, hi + `"tools":{}}`, "invalid_type", "tools"},
		{chat, hi + `"tools":[{}]}`, "invalid_value", "tools[0].function"},
		{chat, hi + `"tools":[{"type":"custom","function":{"name":"f"}}]}`, "unsupported_parameter", "tools[0].type"},
		{chat, hi + `"tools":[{"function":{"name":"no spaces"}}]}`, "invalid_value", "tools[0].function.name"},
		{chat, hi + `"tools":[{"function":{"name":"f","parameters":[]}}]}`, "invalid_type", "tools[0].function.parameters"},
		{chat, hi + `"tools":[{"function":{"name":"f","strict":true}}]}`, "unsupported_parameter", "tools[0].function.strict"},
		{chat, hi + `"tools":[{"function":{"name":"f"}},{"function":{"name":"f"}}]}`, "invalid_value", "tools[1].function"},
		{chat, hi + `"tools":[{"function":{"name":"f"}}]}`, "unsupported_parameter", "tools"},
		{chat, hi + `"tools":[{"function":{"name":"f"}}],"tool_choice":"required"}`, "unsupported_parameter", "tool_choice"},
		{chat, hi + `"max_tokens":1,"max_completion_tokens":2}`, "invalid_value", "max_completion_tokens"},
		{chat, hi + `"top_logprobs":2}`, "invalid_value", "top_logprobs"},
		{chat, hi + `"logprobs":true,"top_logprobs":21}`, "invalid_value", "top_logprobs"},
		{chat, hi + `"logprobs":2}`, "invalid_type", "logprobs"},
		{completion, `{"model":"alpha"}`, "invalid_value", "prompt"},
		{completion, `{"model":"alpha","prompt":[]}`, "invalid_value", "prompt"},
		{completion, `{"model":"alpha","prompt":["a",[1]]}`, "invalid_value", "prompt"},
		{completion, `{"model":"alpha","prompt":[1,-1]}`, "invalid_value", "prompt"},
		{completion, `{"model":"alpha","prompt":[1,null]}`, "invalid_value", "prompt"},
		{completion, `{"model":"alpha","prompt":[1],"echo":true}`, "invalid_value", "echo"},
		{completion, `{"model":"alpha","prompt":"a","suffix":"b"}`, "unsupported_parameter", "suffix"},
		{completion, `{"model":"alpha","prompt":"a","best_of":2}`, "invalid_value", "best_of"},
		{completion, `{"model":"alpha","prompt":["a","b"],"n":100}`, "invalid_value", "n"},
		{tenants, `{"id":"b"}`, "invalid_value", "model"},
		{tenants, `{"id":"b","model":"m","ttftMs":"1"}`, "invalid_type", "ttftMs"},
		{tenants, `{"id":"b","model":"m","ttftMs":NaN}`, "invalid_json", "ttftMs"},
		{tenants, `{"id":"b","model":"m","keyHashes":[]}`, "unknown_parameter", "keyHashes"},
		{tenants, `{"id":"../b","model":"m"}`, "invalid_value", "id"},
		{tenants, `{"id":"b","model":"m","tpotMs":100000000}`, "invalid_value", "tpotMs"},
		{tenants, `{"id":"b","model":"m","maxQueue":20000000}`, "invalid_value", "maxQueue"},
		{tenants + "/alpha/keys", `{}`, "invalid_value", "name"},
	} {
		expectError(t, call(newTestServer(t, newFake(), nil), "POST", c.path, c.body, ""), 400, c.code, c.param)
	}
	for _, path := range []string{chat, completion, tenants, tenants + "/alpha/keys"} {
		for _, body := range []string{"", "[]", "null", "{} {}", "{", "\"\xff\""} {
			expectError(t, call(newTestServer(t, newFake(), nil), "POST", path, body, ""), 400, "invalid_json", "")
		}
	}
}

func TestNodeErrorsInOpenAIForm(t *testing.T) {
	const body = `{"model":"alpha","messages":[{"role":"user","content":"x"}]}`
	for _, c := range []struct {
		err         error
		status      int
		code, param string
		retry       string
	}{
		{&actors.QueueError{Tenant: "alpha", RetryAfter: 1500 * time.Millisecond}, 429, "queue_full", "", "2"},
		{actors.ErrQueueFull, 429, "queue_full", "", "1"},
		{&actors.LengthError{PromptTokens: 120, MaxTokens: 7, LimitTokens: 100}, 400, "context_length_exceeded", "messages", ""},
		{&actors.LengthError{Pool: true}, 400, "kv_memory_exceeded", "messages", ""},
		{actors.ErrTenantNotReady, 503, "tenant_not_ready", "", "2"},
		{actors.ErrShutdown, 503, "shutting_down", "", "2"},
		{actors.ErrNoTemplate, 400, "no_chat_template", "messages", ""},
		{&actors.FieldError{Field: "stop", Reason: "bad"}, 400, "invalid_value", "stop", ""},
		{actors.ErrFailed, 500, "request_failed", "", ""},
		{http.ErrBodyNotAllowed, 500, "internal_error", "", ""},
	} {
		f := newFake()
		f.script = func(actors.GenerateRequest) (*fakeStream, error) { return nil, c.err }
		w := call(newTestServer(t, f, nil), "POST", "/v1/chat/completions", body, "")
		expectError(t, w, c.status, c.code, c.param)
		if got := w.Header().Get("Retry-After"); got != c.retry {
			t.Errorf("%v: Retry-After %q, want %q", c.err, got, c.retry)
		}
	}
	s := newTestServer(t, newFake(), func(c *Config) { c.Limits.BodyBytes = 10 })
	expectError(t, call(s, "POST", "/v1/chat/completions", body, ""), 413, "body_too_large", "")
	expectError(t, call(s, "GET", "/v1/chat/completions", "", ""), 405, "method_not_allowed", "")
	expectError(t, call(s, "GET", "/v1/nothing", "", ""), 404, "unknown_url", "")
	expectError(t, call(s, "GET", "/v1/models/beta", "", ""), 404, "model_not_found", "model")
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"model":"a","messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"prompt":[[1]],"stop":["a"],"logit_bias":{"1":2}}`))
	f.Add([]byte(`{"model":"a","prompt":[null],"stop":[`))
	f.Fuzz(func(t *testing.T, body []byte) {
		s := &Server{config: Config{Limits: Limits{}.withDefaults()}}
		if fields, err := parseFields(body); err == nil {
			_, _ = s.parseChat(fields)
		} else if asAPIError(err).status != 400 {
			t.Fatalf("%v", err)
		}
		if fields, err := parseFields(body); err == nil {
			if c, err := s.parseCompletion(fields); err == nil && len(c.prompts) == 0 {
				t.Fatal("accepted without a prompt")
			}
		}
	})
}
