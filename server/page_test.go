package server

import (
	"regexp"
	"strings"
	"testing"
)

// TestPageIsWhole holds the page's parts against each other: its policy forbids inline code and other hosts, and its script finds elements by id.
func TestPageIsWhole(t *testing.T) {
	s := newTestServer(t, newFake(), nil)
	html := call(s, "GET", "/", "", "").Body.String()
	script := call(s, "GET", "/page.js", "", "").Body.String()
	for _, m := range regexp.MustCompile(`\$\("([^"]+)"\)`).FindAllStringSubmatch(script, -1) {
		if !strings.Contains(html, `id="`+m[1]+`"`) {
			t.Errorf("the script wants #%s", m[1])
		}
	}
	if m := regexp.MustCompile(`(?i)style=|\son\w+=|<style|https?://`).FindString(html); m != "" {
		t.Errorf("the page has %q, which its policy forbids", m)
	}
	for path, kind := range map[string]string{"/": "text/html", "/page.js": "text/javascript", "/page.css": "text/css"} {
		w := call(s, "GET", path, "", "")
		if h := w.Header(); !strings.HasPrefix(h.Get("Content-Type"), kind) || !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %v", path, h)
		}
	}
	if strings.Contains(script, "innerHTML") {
		t.Error("names of tenants must not become markup")
	}
}
