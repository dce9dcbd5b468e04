package server

import (
	"net/http"

	"slicescheduler/actors"
	"slicescheduler/gmg"
)

type modelJSON struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	OwnedBy     string `json:"owned_by"`
	MaxModelLen int    `json:"max_model_len,omitempty"` // tokens of context, as vLLM names it
}

func modelOf(t gmg.TenantID, m actors.TenantModel) modelJSON {
	return modelJSON{ID: string(t), Object: "model", Created: m.CreatedUnixS, OwnedBy: "slicescheduler", MaxModelLen: m.ContextTokens}
}

// listModels answers GET /v1/models with the tenants that the caller may use and whose models are known.
func (s *Server) listModels(w http.ResponseWriter, r *http.Request) error {
	if key := bearer(r); !s.open() && !s.isAdminKey(key) {
		if _, known := s.api.CheckKey(r.Context(), key); key == "" || !known {
			return unauthorized("a valid API key is needed: Authorization: Bearer KEY")
		}
	}
	tenants, err := s.api.Tenants(r.Context())
	if err != nil {
		return err
	}
	list := []modelJSON{}
	for _, t := range tenants {
		may, err := s.mayList(r, t.Spec.ID)
		if err != nil {
			return err
		}
		if !may {
			continue
		}
		if m, err := s.api.TenantModel(r.Context(), t.Spec.ID); err == nil {
			list = append(list, modelOf(t.Spec.ID, m))
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": list})
	return nil
}

// showModel answers GET /v1/models/{id}.
func (s *Server) showModel(w http.ResponseWriter, r *http.Request) error {
	t := gmg.TenantID(r.PathValue("id"))
	if err := s.authorizeTenant(r, t); err != nil {
		return err
	}
	m, err := s.api.TenantModel(r.Context(), t)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, modelOf(t, m))
	return nil
}
