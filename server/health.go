package server

import (
	"net/http"
	"runtime"
)

// live answers GET /healthz: the process answers.
func (s *Server) live(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	return nil
}

// ready answers GET /readyz: whether the node takes requests, and why not.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) error {
	ok, reason := s.api.Ready(r.Context())
	status := http.StatusOK
	if !ok {
		status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "2")
	}
	writeJSON(w, status, map[string]any{"ready": ok, "reason": reason})
	return nil
}

// version answers GET /version.
func (s *Server) version(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, map[string]string{"version": s.config.Version, "go": runtime.Version()})
	return nil
}
