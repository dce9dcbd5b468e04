package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"slicescheduler/actors"
	"slicescheduler/gmg"
	"slicescheduler/model"
)

// refusing is a node whose changes fail.
type refusing struct {
	*fakeAPI
	err error
}

func (r refusing) SubmitTenant(context.Context, gmg.TenantSpec) error           { return r.err }
func (r refusing) RemoveTenant(context.Context, gmg.TenantID) error             { return r.err }
func (r refusing) AddKey(context.Context, gmg.TenantID, string) (string, error) { return "", r.err }
func (r refusing) RemoveKey(context.Context, gmg.TenantID, string) error        { return r.err }
func (r refusing) Devices(context.Context) ([]actors.DeviceStatus, error)       { return nil, r.err }
func (r refusing) Tenant(context.Context, gmg.TenantID) (actors.TenantStatus, error) {
	return actors.TenantStatus{}, r.err
}
func (r refusing) Keys(context.Context, gmg.TenantID) (list []actors.KeyInfo, err error) {
	return nil, r.err
}

func TestAdminErrors(t *testing.T) {
	const tenants, spec = "/admin/v1/tenants", `{"id":"b","model":"m"}`
	for _, c := range []struct {
		err                error
		method, path, body string
		status             int
		code, param        string
	}{
		{actors.ErrTenantExists, "POST", tenants, spec, 409, "tenant_exists", "id"},
		{actors.ErrKeyExists, "POST", tenants + "/b/keys", `{"name":"k"}`, 409, "key_exists", "name"},
		{&actors.FieldError{Field: "name", Reason: "too long"}, "POST", tenants + "/b/keys", `{"name":"k"}`, 400, "invalid_value", "name"},
		{&gmg.TenantError{Field: "model", Reason: "bad"}, "POST", tenants, spec, 400, "invalid_value", "model"},
		{fmt.Errorf("tenant b: %w: x", model.ErrNotFound), "POST", tenants, spec, 400, "unknown_model", "model"},
		{model.ErrFormat, "POST", tenants, spec, 400, "malformed_model", "model"},
		{model.ErrUnsupported, "POST", tenants, spec, 400, "unsupported_model", "model"},
		{actors.ErrNoKey, "DELETE", tenants + "/b/keys/k", "", 404, "key_not_found", ""},
		{actors.ErrNoTenant, "GET", tenants + "/b", "", 404, "model_not_found", "model"},
		{actors.ErrNoTenant, "DELETE", tenants + "/b", "", 404, "model_not_found", "model"},
		{actors.ErrShutdown, "POST", tenants, spec, 503, "shutting_down", ""},
		{context.DeadlineExceeded, "POST", tenants, spec, 500, "internal_error", ""}, // the node's own deadline: the client is still there
		{context.Canceled, "GET", "/admin/v1/devices", "", 500, "internal_error", ""},
	} {
		f := newFake()
		s := newTestServer(t, f, func(config *Config) { config.API = refusing{f, c.err} })
		expectError(t, call(s, c.method, c.path, c.body, ""), c.status, c.code, c.param)
	}
}

func TestAdminFromElsewhere(t *testing.T) {
	from := func(s *Server, remote, header string) int {
		return send(s, "GET", "/admin/v1/tenants", "", func(r *http.Request) {
			r.RemoteAddr = remote
			if header != "" {
				r.Header.Set(header, "for=192.0.2.1")
			}
		}).Code
	}
	s := newTestServer(t, newFake(), nil)
	for remote, want := range map[string]int{"127.0.0.1:9": 200, "[::1]:9": 200, "192.0.2.1:9": 403, "@": 403, "": 403} {
		if got := from(s, remote, ""); got != want {
			t.Errorf("without an admin key from %q: %d, want %d", remote, got, want)
		}
	}
	for _, header := range []string{"X-Forwarded-For", "Forwarded"} {
		if got := from(s, "127.0.0.1:9", header); got != 403 {
			t.Errorf("through a proxy with %s: %d, want 403", header, got)
		}
	}
}

// TestSpecsComeBackWhole submits every field, and looks that the answer has them and no hashes.
func TestSpecsComeBackWhole(t *testing.T) {
	const spec = `{"id":"b","model":"m","chatTemplate":"t","ttftMs":1,"tpotMs":2,"priority":-3,"maxSequences":4,"maxQueue":5,"maxContext":6,"splitOver":7}`
	w := call(newTestServer(t, newFake(), nil), "POST", "/admin/v1/tenants", spec, "")
	if w.Code != 201 || w.Header().Get("Location") != "/admin/v1/tenants/b" || !strings.Contains(w.Body.String(), `"spec":`+spec) {
		t.Errorf("got %d %v %s", w.Code, w.Header(), w.Body)
	}
}
