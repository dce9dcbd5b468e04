package server

import (
	"net/http"
	"slices"
	"strings"
)

// handler answers a request or returns why not, before anything was written.
type handler func(w http.ResponseWriter, r *http.Request) error

// methods are a path's handlers by HTTP method.
type methods map[string]handler

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	handle := func(path string, m methods) { mux.Handle(path, s.byMethod(m)) }
	handle("/v1/chat/completions", methods{http.MethodPost: s.chat})
	handle("/v1/completions", methods{http.MethodPost: s.completions})
	handle("/v1/models", methods{http.MethodGet: s.listModels})
	handle("/v1/models/{id}", methods{http.MethodGet: s.showModel})

	for path, m := range s.adminRoutes() {
		handle("/admin/v1/"+path, s.adminOnly(m))
	}

	handle("/healthz", methods{http.MethodGet: s.live})
	handle("/readyz", methods{http.MethodGet: s.ready})
	handle("/version", methods{http.MethodGet: s.version})
	handle("/metrics", methods{http.MethodGet: s.metrics.serve})
	handle("/page.js", methods{http.MethodGet: asset("page.js", "text/javascript; charset=utf-8")})
	handle("/page.css", methods{http.MethodGet: asset("page.css", "text/css; charset=utf-8")})
	handle("/{$}", methods{http.MethodGet: asset("page.html", "text/html; charset=utf-8")})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, &apiError{status: http.StatusNotFound, kind: typeInvalid, code: "unknown_url", message: "there is nothing at " + r.Method + " " + r.URL.Path})
	})
	return mux
}

func (s *Server) byMethod(m methods) http.Handler {
	allowed := make([]string, 0, len(m)+1)
	for name := range m {
		allowed = append(allowed, name)
	}
	if m[http.MethodGet] != nil {
		allowed = append(allowed, http.MethodHead)
	}
	slices.Sort(allowed)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := m[r.Method]
		if h == nil && r.Method == http.MethodHead {
			h = m[http.MethodGet]
		}
		if h == nil {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			s.fail(w, r, &apiError{status: http.StatusMethodNotAllowed, kind: typeInvalid, code: "method_not_allowed",
				message: r.Method + " is not allowed here; use " + strings.Join(allowed, " or ")})
			return
		}
		if err := h(w, r); err != nil {
			s.fail(w, r, err)
		}
	})
}

func (s *Server) adminOnly(m methods) methods {
	guarded := make(methods, len(m))
	for name, h := range m {
		guarded[name] = func(w http.ResponseWriter, r *http.Request) error {
			if err := s.authorizeAdmin(r); err != nil {
				return err
			}
			return h(w, r)
		}
	}
	return guarded
}
