package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"strings"

	"slicescheduler/actors"
	"slicescheduler/gmg"
)

// bearer returns the key that a request carries, or "".
func bearer(r *http.Request) string {
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(key)
}

func unauthorized(message string) *apiError {
	return &apiError{status: http.StatusUnauthorized, kind: typeAuth, code: "invalid_api_key", message: message}
}

func forbidden(message string) *apiError {
	return &apiError{status: http.StatusForbidden, kind: typePermission, code: "permission_denied", message: message}
}

// isAdminKey compares in constant time.
func (s *Server) isAdminKey(key string) bool {
	if s.config.AdminKey == "" || key == "" {
		return false
	}
	a, b := sha256.Sum256([]byte(key)), sha256.Sum256([]byte(s.config.AdminKey))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// open says whether tenants without keys serve everybody.
func (s *Server) open() bool { return s.config.Loopback || s.config.OpenTenants }

// authorizeTenant says whether a request may use a tenant. Where tenants are not open, who has no valid key learns nothing, not even which tenants exist.
func (s *Server) authorizeTenant(r *http.Request, t gmg.TenantID) error {
	key := bearer(r)
	if s.isAdminKey(key) {
		return nil
	}
	owner, known := gmg.TenantID(""), false
	if key != "" {
		owner, known = s.api.CheckKey(r.Context(), key)
	}
	if known && owner == t {
		return nil
	}
	if !known && !s.open() {
		return unauthorized("a valid API key is needed: Authorization: Bearer KEY")
	}
	keys, err := s.api.Keys(r.Context(), t)
	switch {
	case err != nil:
		return err
	case len(keys) == 0 && s.open():
		return nil
	case known:
		return forbidden("this API key belongs to another tenant")
	case key == "":
		return unauthorized("this tenant needs an API key: Authorization: Bearer KEY")
	default:
		return unauthorized("the API key is not valid")
	}
}

// mayList says whether a request may see a tenant in a listing.
func (s *Server) mayList(r *http.Request, t gmg.TenantID) (bool, error) {
	err := s.authorizeTenant(r, t)
	var api *apiError
	switch {
	case err == nil:
		return true, nil
	case errors.As(err, &api), errors.Is(err, actors.ErrNoTenant): // not its key, or removed meanwhile
		return false, nil
	default:
		return false, err
	}
}

// authorizeAdmin guards the admin API: by its key, or without one to this machine, and then never for another through a proxy.
func (s *Server) authorizeAdmin(r *http.Request) error {
	if s.config.AdminKey != "" {
		if !s.isAdminKey(bearer(r)) {
			return unauthorized("the admin API needs the admin key: Authorization: Bearer KEY")
		}
		return nil
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	proxied := r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != ""
	if err != nil || ip == nil || !ip.IsLoopback() || proxied {
		return forbidden("without an admin key the admin API serves this machine only; start the node with one")
	}
	return nil
}
