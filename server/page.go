package server

import (
	"embed"
	"net/http"
)

// pageFiles are the landing page's parts; it loads nothing from elsewhere.
//
//go:embed page.html page.js page.css
var pageFiles embed.FS

// asset answers with a part of the page.
func asset(name, contentType string) handler {
	return func(w http.ResponseWriter, _ *http.Request) error {
		body, err := pageFiles.ReadFile(name)
		if err != nil {
			return err
		}
		h := w.Header()
		h.Set("Content-Type", contentType)
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		_, _ = w.Write(body) // a client that has gone needs no page
		return nil
	}
}
