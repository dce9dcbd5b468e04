package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"slicescheduler/actors"
	"slicescheduler/gmg"
	"slicescheduler/model"
	"slicescheduler/model/toolcall"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeAPI plays scripts: each Generate takes what script says.
type fakeAPI struct {
	mu       sync.Mutex
	requests []actors.GenerateRequest
	tenants  map[gmg.TenantID]actors.TenantStatus
	keys     map[string]gmg.TenantID // by key
	infos    map[gmg.TenantID][]actors.KeyInfo
	script   func(r actors.GenerateRequest) (*fakeStream, error)
	reason   string // why not ready
	format   toolcall.Format
	open     atomic.Int64
}

func newFake() *fakeAPI {
	f := &fakeAPI{tenants: map[gmg.TenantID]actors.TenantStatus{}, keys: map[string]gmg.TenantID{}, infos: map[gmg.TenantID][]actors.KeyInfo{}}
	f.tenants["alpha"] = actors.TenantStatus{Spec: gmg.TenantSpec{ID: "alpha", Model: "m", KeyHashes: []string{"hash"}}, State: "ready"}
	f.script = func(actors.GenerateRequest) (*fakeStream, error) { return script(hello()...), nil }
	return f
}

// hello is an answer of two texts, the second with a character of two bytes.
func hello() []actors.Event {
	token := func(id int32, s string) []actors.TokenLogprob {
		return []actors.TokenLogprob{{Token: id, Bytes: []byte(s), Logprob: -0.5, Top: []actors.TokenLogprob{{Token: id, Bytes: []byte(s), Logprob: -0.5}}}}
	}
	return []actors.Event{
		{Text: "Hel", Tokens: []int32{1}, Logprobs: token(1, "Hel")},
		{Text: "lö", Tokens: []int32{2}, Logprobs: token(2, "lö")},
		{Finish: actors.FinishStop, Usage: actors.Usage{PromptTokens: 7, CachedTokens: 3, CompletionTokens: 2}},
	}
}

type fakeStream struct {
	id     string
	events chan actors.Event
	closed chan struct{}
	once   sync.Once
	api    *fakeAPI
}

func script(events ...actors.Event) *fakeStream {
	s := &fakeStream{events: make(chan actors.Event, len(events)), closed: make(chan struct{})}
	for _, e := range events {
		s.events <- e
	}
	return s
}

func (s *fakeStream) ID() string { return s.id }

func (s *fakeStream) Next(ctx context.Context) (actors.Event, error) {
	select {
	case e := <-s.events:
		return e, nil
	case <-s.closed:
		return actors.Event{}, actors.ErrStreamClosed
	case <-ctx.Done():
		return actors.Event{}, ctx.Err()
	}
}

func (s *fakeStream) Close() {
	s.once.Do(func() { close(s.closed); s.api.open.Add(-1) })
}

func (f *fakeAPI) Generate(_ context.Context, r actors.GenerateRequest) (actors.Stream, error) {
	f.mu.Lock()
	f.requests = append(f.requests, r)
	play := f.script
	f.mu.Unlock()
	s, err := play(r)
	if err != nil {
		return nil, err
	}
	s.id, s.api = r.ID, f
	f.open.Add(1)
	return s, nil
}

func (f *fakeAPI) Tokenize(_ context.Context, _ gmg.TenantID, text string, _ model.EncodeOptions) ([]int32, error) {
	return make([]int32, len(text)), nil
}

func (f *fakeAPI) TenantModel(_ context.Context, t gmg.TenantID) (actors.TenantModel, error) {
	if _, err := f.Tenant(context.Background(), t); err != nil {
		return actors.TenantModel{}, err
	}
	return actors.TenantModel{Tenant: t, Model: "m", ContextTokens: 100, VocabSize: 50, CreatedUnixS: 5, ToolFormat: f.format}, nil
}

func (f *fakeAPI) SubmitTenant(_ context.Context, s gmg.TenantSpec) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.tenants[s.ID]; ok {
		return fmt.Errorf("%w: %s", actors.ErrTenantExists, s.ID)
	}
	f.tenants[s.ID] = actors.TenantStatus{Spec: s, State: "loading"}
	return nil
}

func (f *fakeAPI) RemoveTenant(ctx context.Context, t gmg.TenantID) error {
	_, err := f.Tenant(ctx, t)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.tenants, t)
	return err
}

func (f *fakeAPI) Tenants(context.Context) ([]actors.TenantStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []actors.TenantStatus
	for _, t := range f.tenants {
		list = append(list, t)
	}
	return list, nil
}

func (f *fakeAPI) Tenant(_ context.Context, t gmg.TenantID) (actors.TenantStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s, ok := f.tenants[t]; ok {
		return s, nil
	}
	return actors.TenantStatus{}, fmt.Errorf("%w: %s", actors.ErrNoTenant, t)
}

func (f *fakeAPI) AddKey(_ context.Context, t gmg.TenantID, name string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := "sk-" + string(t) + "-" + name
	f.keys[key] = t
	f.infos[t] = append(f.infos[t], actors.KeyInfo{Name: name})
	return key, nil
}

func (f *fakeAPI) RemoveKey(context.Context, gmg.TenantID, string) error { return actors.ErrNoKey }

func (f *fakeAPI) Keys(ctx context.Context, t gmg.TenantID) ([]actors.KeyInfo, error) {
	_, err := f.Tenant(ctx, t)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.infos[t], err
}

func (f *fakeAPI) CheckKey(_ context.Context, key string) (gmg.TenantID, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, ok := f.keys[key]
	return t, ok
}

func (f *fakeAPI) Nodes(context.Context) ([]actors.NodeStatus, error)       { return nil, nil }
func (f *fakeAPI) Devices(context.Context) ([]actors.DeviceStatus, error)   { return nil, nil }
func (f *fakeAPI) Slices(context.Context) ([]actors.SliceStatus, error)     { return nil, nil }
func (f *fakeAPI) Requests(context.Context) ([]actors.RequestStatus, error) { return nil, nil }
func (f *fakeAPI) Ready(context.Context) (bool, string)                     { return f.reason == "", f.reason }

func newTestServer(t *testing.T, f *fakeAPI, change func(*Config)) *Server {
	t.Helper()
	c := Config{API: f, Loopback: true, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Version: "test"}
	if change != nil {
		change(&c)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	s.newID = func() string { return "ID" }
	t.Cleanup(func() {
		if n := f.open.Load(); n != 0 {
			t.Errorf("%d streams left open", n)
		}
	})
	return s
}

// call makes one request in process, as from this machine.
func call(s *Server, method, path, body, key string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host, r.RemoteAddr = "localhost:7070", "127.0.0.1:9"
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func expectError(t *testing.T, w *httptest.ResponseRecorder, status int, code, param string) {
	t.Helper()
	body := w.Body.String()
	want := `"param":null`
	if param != "" {
		want = `"param":"` + param + `"`
	}
	if w.Code != status || !strings.Contains(body, want) || !strings.Contains(body, `"code":"`+code+`"`) {
		t.Errorf("got %d %s, want %d with code %s and %s", w.Code, body, status, code, want)
	}
	if w.Header().Get("Content-Type") != "application/json" || w.Header().Get("X-Request-Id") == "" {
		t.Errorf("headers %v", w.Header())
	}
}
