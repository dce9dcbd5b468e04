package server

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"slicescheduler/actors"
)

// send makes one request in process with headers of its own.
func send(s *Server, method, path, body string, change func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host, r.RemoteAddr = "localhost:7070", "127.0.0.1:9"
	change(r)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func TestHostGuard(t *testing.T) {
	for _, loopback := range []bool{true, false} {
		s := newTestServer(t, newFake(), func(c *Config) { c.Loopback, c.Hosts = loopback, []string{"slicer.internal"} })
		for host, allowed := range map[string]bool{
			"localhost": true, "LOCALHOST:7070": true, "127.0.0.1:7070": true, "[::1]:7070": true, "[::1]": true, "slicer.internal:80": true,
			"evil.example": false, "evil.example:7070": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false, "": false,
		} {
			w := send(s, "GET", "/healthz", "", func(r *http.Request) { r.Host = host })
			if allowed || !loopback {
				if w.Code != 200 {
					t.Errorf("loopback %v, host %q: %d %s", loopback, host, w.Code, w.Body)
				}
				continue
			}
			expectError(t, w, 403, "host_not_allowed", "")
		}
	}
}

func TestCrossOriginGuard(t *testing.T) {
	s := newTestServer(t, newFake(), nil)
	for _, c := range []struct {
		method, header, value string
		refused               bool
	}{
		{"POST", "Sec-Fetch-Site", "cross-site", true},
		{"POST", "Sec-Fetch-Site", "same-site", true},
		{"POST", "Origin", "https://evil.example", true},
		{"POST", "Origin", "null", true},
		{"DELETE", "Sec-Fetch-Site", "cross-site", true},
		{"POST", "Sec-Fetch-Site", "same-origin", false},
		{"POST", "Sec-Fetch-Site", "none", false},
		{"POST", "Origin", "http://localhost:7070", false},
		{"GET", "Sec-Fetch-Site", "cross-site", false}, // a link to the page; without CORS headers nobody reads the answer
	} {
		w := send(s, c.method, "/v1/chat/completions", helloChat+"}", func(r *http.Request) { r.Header.Set(c.header, c.value) })
		if c.refused {
			expectError(t, w, 403, "cross_origin", "")
		} else if w.Code == 403 {
			t.Errorf("%+v: %s", c, w.Body)
		}
		if w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%+v lets other sites read answers", c)
		}
	}
}

func TestRequestIDs(t *testing.T) {
	s := newTestServer(t, newFake(), nil)
	for given, want := range map[string]string{
		"": "req-ID", "mine-1_2.3:4": "mine-1_2.3:4", "a b": "req-ID", "x\ninjected=1": "req-ID", strings.Repeat("a", 129): "req-ID", "ä": "req-ID",
	} {
		for _, path := range []string{"/healthz", "/nothing"} {
			w := send(s, "GET", path, "", func(r *http.Request) { r.Header[requestIDHeader] = []string{given} })
			if got := w.Header().Get(requestIDHeader); got != want {
				t.Errorf("%s with id %q: %q, want %q", path, given, got, want)
			}
		}
	}
}

func TestPanicIsAnInternalError(t *testing.T) {
	var log bytes.Buffer
	f := newFake()
	f.script = func(actors.GenerateRequest) (*fakeStream, error) { panic("secret of the node") }
	s := newTestServer(t, f, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	w := call(s, "POST", "/v1/chat/completions", helloChat+"}", "")
	expectError(t, w, 500, "internal_error", "")
	if id := w.Header().Get(requestIDHeader); !strings.Contains(log.String(), "requestId="+id) || !strings.Contains(log.String(), "secret of the node") {
		t.Errorf("the log does not tell of request %s: %s", id, log.String())
	}
	if strings.Contains(w.Body.String(), "secret") {
		t.Errorf("the client is told %s", w.Body)
	}
}

func TestPanicMidStreamCutsTheConnection(t *testing.T) {
	f := newFake()
	s := newTestServer(t, f, nil)
	next := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("half"))
		panic("late")
	}
	s.handler = s.middleware(http.HandlerFunc(next))
	defer func() {
		if p := recover(); p != http.ErrAbortHandler { //nolint:errorlint // a sentinel by contract
			t.Errorf("got panic %v, want %v", p, http.ErrAbortHandler)
		}
	}()
	call(s, "GET", "/", "", "")
}

func TestMethods(t *testing.T) {
	s := newTestServer(t, newFake(), nil)
	for _, c := range []struct{ method, path, allow string }{
		{"GET", "/v1/chat/completions", "POST"},
		{"PUT", "/admin/v1/tenants", "GET, HEAD, POST"},
		{"POST", "/healthz", "GET, HEAD"},
		{"PATCH", "/admin/v1/tenants/alpha", "DELETE, GET, HEAD"},
		{"POST", "/", "GET, HEAD"},
	} {
		w := call(s, c.method, c.path, "", "")
		expectError(t, w, 405, "method_not_allowed", "")
		if got := w.Header().Get("Allow"); got != c.allow {
			t.Errorf("%s %s: Allow %q, want %q", c.method, c.path, got, c.allow)
		}
	}
	for _, path := range []string{"/healthz", "/v1/models", "/admin/v1/devices", "/", "/metrics"} {
		if w := call(s, "HEAD", path, "", ""); w.Code != 200 {
			t.Errorf("HEAD %s: %d", path, w.Code)
		}
	}
}

// TestLogsHoldNoSecrets looks for keys, prompts and answers in everything that is logged.
func TestLogsHoldNoSecrets(t *testing.T) {
	var log bytes.Buffer
	f := newFake()
	s := newTestServer(t, f, func(c *Config) {
		c.AdminKey, c.Logger = "admin-secret", slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	key, _ := f.AddKey(t.Context(), "alpha", "own-secret")
	for _, k := range []string{key, "wrong-secret", "admin-secret"} {
		call(s, "POST", "/v1/chat/completions?secret=1", `{"model":"alpha","messages":[{"role":"user","content":"prompt-secret"}]}`, k)
		call(s, "POST", "/v1/chat/completions", `{"model":"alpha","prompt-secret":`, k)
		call(s, "GET", "/admin/v1/tenants", "", k)
	}
	if n := strings.Count(log.String(), "http request"); n != 9 {
		t.Errorf("%d lines of requests, want 9", n)
	}
	for _, secret := range []string{"secret", "Hel"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("%q is in the log:\n%s", secret, log.String())
		}
	}
}
