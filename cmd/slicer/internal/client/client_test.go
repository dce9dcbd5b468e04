package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"slicescheduler/gmg"
)

func serve(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	c, err := New(s.URL+"/", "sk-key")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestChatStreams(t *testing.T) {
	var got map[string]any
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer sk-key" {
			t.Errorf("authorization %q", r.Header.Get("Authorization"))
		}
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		for _, e := range []string{
			`{"choices":[{"delta":{"role":"assistant","content":""}}]}`, `{"choices":[{"delta":{"content":"Hel"}}]}`, `{"choices":[{"delta":{"content":"lo"}}]}`,
			`{"choices":[{"delta":{},"finish_reason":"stop"}]}`, `{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}`, `[DONE]`,
		} {
			fmt.Fprintf(w, ": comment\n\ndata: %s\n\n", e)
		}
	})
	var pieces []string
	zero := 0.0
	result, err := c.Chat(t.Context(), ChatRequest{Model: "a", Messages: []Message{{"user", "Hi"}}, Temperature: &zero}, func(s string) { pieces = append(pieces, s) })
	if err != nil {
		t.Fatal(err)
	}
	if want := (ChatResult{"Hello", "stop", 5, 2}); result != want || strings.Join(pieces, "|") != "Hel|lo" {
		t.Errorf("got %+v in pieces %q", result, pieces)
	}
	if got["stream"] != true || got["temperature"] != 0.0 || got["seed"] != nil {
		t.Errorf("sent %v", got)
	}
}

func TestChatFailures(t *testing.T) {
	for name, tt := range map[string]struct {
		stream string
		says   string
	}{
		"breaks off":     {"data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n", "broke off"},
		"fails half-way": {"data: {\"error\":{\"message\":\"device died\"}}\n\ndata: [DONE]\n\n", "device died"},
		"is no JSON":     {"data: {\n\n", "broke off"},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, tt.stream) })
			_, err := c.Chat(t.Context(), ChatRequest{Model: "a"}, func(string) {})
			if !errors.Is(err, ErrBrokenStream) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestErrorsSayWhatHelps(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":{"message":"this key is unknown","type":"invalid_request_error"}}`)
	})
	_, err := c.Tenants(t.Context())
	var apiErr *APIError
	if !errors.As(err, &apiErr) || apiErr.Status != 401 || !strings.Contains(err.Error(), "this key is unknown") || !strings.Contains(err.Error(), "SLICER_API_KEY") {
		t.Errorf("got %v", err)
	}
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	gone, err := New(s.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gone.Nodes(t.Context()); !errors.Is(err, ErrNoNode) || !strings.Contains(err.Error(), s.URL) || !strings.Contains(err.Error(), "slicer up") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Devices(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for _, bad := range []string{"", "127.0.0.1:7070", "ftp://x"} {
		if _, err := New(bad, ""); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestPaths(t *testing.T) {
	var got []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.URL.EscapedPath())
		_, _ = io.WriteString(w, `{"key":"sk-new"}`)
	})
	ctx := t.Context()
	if err := c.SubmitTenant(ctx, gmg.TenantSpec{ID: "a", Model: "m"}); err != nil {
		t.Error(err)
	}
	if err := c.RemoveTenant(ctx, "a"); err != nil {
		t.Error(err)
	}
	if key, err := c.AddKey(ctx, "a", "ci"); err != nil || key != "sk-new" {
		t.Errorf("%q, %v", key, err)
	}
	if err := c.RemoveKey(ctx, "a", "x/y"); err != nil {
		t.Error(err)
	}
	want := "POST /admin/v1/tenants, DELETE /admin/v1/tenants/a, POST /admin/v1/tenants/a/keys, DELETE /admin/v1/tenants/a/keys/x%2Fy"
	if strings.Join(got, ", ") != want {
		t.Errorf("got %q", got)
	}
}

func TestListings(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		answers := map[string]string{"/admin/v1/tenants": `{"tenants":[{"spec":{"id":"a"}}]}`, "/admin/v1/devices": `{"devices":[]}`, "/admin/v1/nodes": `[]`, "/admin/v1/slices": `{}`}
		_, _ = io.WriteString(w, answers[r.URL.Path])
	})
	if got, err := c.Tenants(t.Context()); err != nil || len(got) != 1 || got[0].Spec.ID != "a" {
		t.Errorf("tenants: %+v, %v", got, err)
	}
	if got, err := c.Devices(t.Context()); err != nil || got == nil || len(got) != 0 {
		t.Errorf("devices: %+v, %v; want an empty list", got, err)
	}
	if _, err := c.Nodes(t.Context()); err == nil {
		t.Error("nodes: an answer of another shape was accepted")
	}
	if _, err := c.Slices(t.Context()); err == nil {
		t.Error("slices: an answer without them was accepted")
	}
}
