package server

import (
	"context"
	"math"
	"net/http"

	"slicescheduler/actors"
	"slicescheduler/gmg"
)

// adminRoutes are the paths under /admin/v1.
func (s *Server) adminRoutes() map[string]methods {
	return map[string]methods{
		"tenants":                  {http.MethodGet: list("tenants", s.visibleTenants), http.MethodPost: s.submitTenant},
		"tenants/{id}":             {http.MethodGet: s.showTenant, http.MethodDelete: s.removeTenant},
		"tenants/{id}/keys":        {http.MethodGet: s.listKeys, http.MethodPost: s.addKey},
		"tenants/{id}/keys/{name}": {http.MethodDelete: s.removeKey},
		"nodes":                    {http.MethodGet: list("nodes", s.api.Nodes)},
		"devices":                  {http.MethodGet: list("devices", s.api.Devices)},
		"slices":                   {http.MethodGet: list("slices", s.api.Slices)},
		"requests":                 {http.MethodGet: list("requests", s.api.Requests)},
	}
}

// list answers with {name: [...]}, never null.
func list[T any](name string, get func(context.Context) ([]T, error)) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		items, err := get(r.Context())
		if err != nil {
			return err
		}
		if items == nil {
			items = []T{}
		}
		writeJSON(w, http.StatusOK, map[string]any{name: items})
		return nil
	}
}

func tenantOf(r *http.Request) gmg.TenantID { return gmg.TenantID(r.PathValue("id")) }

// visible leaves out what is nobody's business.
func visible(t actors.TenantStatus) actors.TenantStatus {
	t.Spec.KeyHashes = nil
	return t
}

func (s *Server) visibleTenants(ctx context.Context) ([]actors.TenantStatus, error) {
	tenants, err := s.api.Tenants(ctx)
	shown := make([]actors.TenantStatus, len(tenants))
	for i, t := range tenants {
		shown[i] = visible(t)
	}
	return shown, err
}

// parseTenant reads a tenant spec in the fields of gmg.TenantSpec's JSON. Keys are made by their own path.
func parseTenant(f *fields) (gmg.TenantSpec, error) {
	t := gmg.TenantSpec{
		ID: gmg.TenantID(f.text("id")), Model: f.text("model"), ChatTemplate: f.text("chatTemplate"),
		TTFTMs:       int64(f.integer("ttftMs", 0, 0, math.MaxInt32)),
		TPOTMs:       int64(f.integer("tpotMs", 0, 0, math.MaxInt32)),
		Priority:     f.integer("priority", 0, math.MinInt32, math.MaxInt32),
		MaxSequences: f.integer("maxSequences", 0, 0, math.MaxInt32),
		MaxQueue:     f.integer("maxQueue", 0, 0, math.MaxInt32),
		MaxContext:   f.integer("maxContext", 0, 0, math.MaxInt32),
		SplitOver:    f.integer("splitOver", 0, 0, math.MaxInt32),
	}
	if t.ID == "" {
		f.fail(badField("id", "is required: the tenant's name"))
	}
	if t.Model == "" {
		f.fail(badField("model", "is required: the name or path of a model"))
	}
	if err := f.finish(); err != nil {
		return t, err
	}
	return t, t.Validate()
}

func (s *Server) submitTenant(w http.ResponseWriter, r *http.Request) error {
	f, err := s.readFields(w, r)
	if err != nil {
		return err
	}
	spec, err := parseTenant(f)
	if err != nil {
		return err
	}
	if err := s.api.SubmitTenant(r.Context(), spec); err != nil {
		return err
	}
	status, err := s.api.Tenant(r.Context(), spec.ID)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/admin/v1/tenants/"+string(spec.ID))
	writeJSON(w, http.StatusCreated, visible(status))
	return nil
}

func (s *Server) showTenant(w http.ResponseWriter, r *http.Request) error {
	status, err := s.api.Tenant(r.Context(), tenantOf(r))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, visible(status))
	return nil
}

func (s *Server) removeTenant(w http.ResponseWriter, r *http.Request) error {
	if err := s.api.RemoveTenant(r.Context(), tenantOf(r)); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) listKeys(w http.ResponseWriter, r *http.Request) error {
	return list("keys", func(ctx context.Context) ([]actors.KeyInfo, error) { return s.api.Keys(ctx, tenantOf(r)) })(w, r)
}

func (s *Server) addKey(w http.ResponseWriter, r *http.Request) error {
	f, err := s.readFields(w, r)
	if err != nil {
		return err
	}
	name := f.text("name")
	if name == "" {
		f.fail(badField("name", "is required: what to call the key"))
	}
	if err := f.finish(); err != nil {
		return err
	}
	key, err := s.api.AddKey(r.Context(), tenantOf(r), name)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, http.StatusCreated, map[string]string{"name": name, "key": key})
	return nil
}

func (s *Server) removeKey(w http.ResponseWriter, r *http.Request) error {
	if err := s.api.RemoveKey(r.Context(), tenantOf(r), r.PathValue("name")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
