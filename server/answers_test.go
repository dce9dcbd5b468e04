package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"

	"slicescheduler/actors"
)

const helloChat = `{"model":"alpha","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"assistant","content":null}]`

// listen serves on a port of this machine until the test ends, and returns its base URL.
func listen(t *testing.T, s *Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := errors.Join(s.Shutdown(context.Background()), <-served); err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

func TestErrorMidStreamEndsItWithoutDone(t *testing.T) {
	f := newFake()
	f.script = func(actors.GenerateRequest) (*fakeStream, error) {
		return script(actors.Event{Text: "a"}, actors.Event{Finish: actors.FinishError, Err: actors.ErrFailed}), nil
	}
	s := newTestServer(t, f, nil)
	body := call(s, "POST", "/v1/chat/completions", helloChat+`,"stream":true}`, "").Body.String()
	if !strings.HasSuffix(body, `"code":"request_failed"}}`+"\n\n") || strings.Contains(body, "[DONE]") {
		t.Errorf("got %s", body)
	}
	expectError(t, call(s, "POST", "/v1/chat/completions", helloChat+`}`, ""), 500, "request_failed", "")
}

func TestRequestsReachTheNode(t *testing.T) {
	f := newFake()
	s := newTestServer(t, f, nil)
	call(s, "POST", "/v1/chat/completions", helloChat+`,"n":2,"seed":-1,"top_k":3,"stop":"x","max_tokens":4,"max_completion_tokens":4,"logit_bias":{"49":-2}}`, "")
	call(s, "POST", "/v1/completions", `{"model":"alpha","prompt":[[1,2],[3]]}`, "")
	r := f.requests
	if len(r) != 4 || r[0].Messages[0].Content != "a\nb" || r[0].Sampling.Seed != 1<<64-1 || r[1].Sampling.Seed != 0 || r[0].ID == r[1].ID {
		t.Fatalf("got %+v", r)
	}
	if p := r[0]; p.MaxTokens != 4 || p.Sampling.TopK != 3 || p.Stop[0] != "x" || p.Sampling.LogitBias[49] != -2 || p.Logprobs != -1 {
		t.Errorf("got %+v", p)
	}
	if len(r[2].PromptTokens) != 2 || r[3].PromptTokens[0] != 3 || r[2].MaxTokens != defaultCompletionTokens {
		t.Errorf("got %+v", r[2:])
	}
	echo := call(s, "POST", "/v1/completions", `{"model":"alpha","prompt":"Oh ","echo":true}`, "").Body.String()
	if !strings.Contains(echo, `"text":"Oh Hellö"`) {
		t.Errorf("got %s", echo)
	}
}

func TestClientGoneClosesItsStreamAlone(t *testing.T) {
	f := newFake()
	hanging := make(chan *fakeStream, 2)
	f.script = func(actors.GenerateRequest) (*fakeStream, error) {
		stream := &fakeStream{events: make(chan actors.Event), closed: make(chan struct{})}
		hanging <- stream
		return stream, nil
	}
	base := listen(t, newTestServer(t, f, nil))
	post := func(ctx context.Context) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, "POST", base+"/v1/chat/completions", strings.NewReader(helloChat+`,"stream":true}`))
		if err != nil {
			return nil, err
		}
		return http.DefaultClient.Do(r)
	}
	ctx, leave := context.WithCancel(t.Context())
	gone, err := post(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Body.Close()
	first := <-hanging
	stays, err := post(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stays.Body.Close()
	second := <-hanging
	leave()
	<-first.closed
	second.events <- actors.Event{Text: "still here"}
	second.events <- actors.Event{Finish: actors.FinishLength}
	<-second.closed
}

func TestKeys(t *testing.T) {
	const path, body = "/v1/chat/completions", helloChat + "}"
	for _, loopback := range []bool{true, false} {
		f := newFake()
		s := newTestServer(t, f, func(c *Config) { c.Loopback, c.AdminKey = loopback, "admin" })
		if w := call(s, "POST", path, body, "whatever"); (w.Code == 200) != loopback {
			t.Errorf("tenant without keys, loopback %v: %d", loopback, w.Code)
		}
		f.infos["beta"] = nil
		other, _ := f.AddKey(t.Context(), "beta", "k")
		own, _ := f.AddKey(t.Context(), "alpha", "k")
		for key, want := range map[string]int{"": 401, "wrong": 401, other: 403, own: 200, "admin": 200} {
			if w := call(s, "POST", path, body, key); w.Code != want {
				t.Errorf("loopback %v, key %q: %d, want %d", loopback, key, w.Code, want)
			}
		}
		for key, want := range map[string]int{"": 401, own: 401, "admin": 200} {
			if w := call(s, "GET", "/admin/v1/tenants", "", key); w.Code != want || strings.Contains(w.Body.String(), `"hash"`) {
				t.Errorf("admin with key %q: %d %s", key, w.Code, w.Body)
			}
		}
	}
}

func TestAdminHealthAndPage(t *testing.T) {
	f := newFake()
	s := newTestServer(t, f, func(c *Config) {
		c.MetricsSource = func() actors.MetricsSnapshot {
			h := actors.Histogram{UpperMs: []float64{1, 5}, Counts: []int64{1, 2, 3}, Count: 6, SumMs: 9}
			return actors.MetricsSnapshot{Tenants: []actors.TenantMetrics{{Tenant: "alpha", TTFT: h, TPOT: h, QueueTime: h}}}
		}
	})
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "/admin/v1/tenants", `{"id":"beta","model":"m","ttftMs":500}`, 201, `"ttftMs":500`},
		{"POST", "/admin/v1/tenants", `{"id":"beta","model":"m"}`, 409, "tenant_exists"},
		{"GET", "/admin/v1/tenants/beta", "", 200, `"state":"loading"`},
		{"POST", "/admin/v1/tenants/beta/keys", `{"name":"k"}`, 201, `"key":"sk-beta-k"`},
		{"GET", "/admin/v1/tenants/beta/keys", "", 200, `"name":"k"`},
		{"DELETE", "/admin/v1/tenants/beta/keys/x", "", 404, "key_not_found"},
		{"DELETE", "/admin/v1/tenants/beta", "", 204, ""},
		{"DELETE", "/admin/v1/tenants/beta", "", 404, "model_not_found"},
		{"GET", "/admin/v1/nodes", "", 200, `{"nodes":[]}`},
		{"GET", "/admin/v1/devices", "", 200, `{"devices":[]}`},
		{"GET", "/admin/v1/slices", "", 200, `{"slices":[]}`},
		{"GET", "/admin/v1/requests", "", 200, `{"requests":[]}`},
		{"GET", "/healthz", "", 200, "ok"},
		{"GET", "/readyz", "", 200, `"ready":true`},
		{"GET", "/version", "", 200, `"version":"test"`},
		{"GET", "/metrics", "", 200, `slicer_ttft_seconds_bucket{tenant="alpha",le="0.005"} 3`},
		{"GET", "/", "", 200, "<!doctype html>"},
	} {
		if w := call(s, c.method, c.path, c.body, ""); w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s: %d %s", c.method, c.path, w.Code, w.Body)
		}
	}
	f.reason = "no devices"
	if w := call(s, "GET", "/readyz", "", ""); w.Code != 503 || !strings.Contains(w.Body.String(), "no devices") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}
