package fidelity

import (
	"bytes"
	"encoding/json"
	"math"
	"regexp"
	"strings"
	"testing"
)

func madeUpPage(t *testing.T) (*Run, Result, string) {
	t.Helper()
	r, err := Load(madeUp)
	if err != nil {
		t.Fatal(err)
	}
	res, err := Evaluate(madeUp, madeUpProfiles)
	if err != nil {
		t.Fatal(err)
	}
	r.Name = "</script><b>made-up" // a directory may be called anything
	var page bytes.Buffer
	if err := WritePage(&page, r, res); err != nil {
		t.Fatal(err)
	}
	return r, res, page.String()
}

// The data in a page are the recording's and the simulation's.
func TestPageHoldsTheData(t *testing.T) {
	r, res, page := madeUpPage(t)
	found := regexp.MustCompile(`(?s)<script id="data" type="application/json">(.*?)</script>`).FindStringSubmatch(page)
	if found == nil {
		t.Fatal("the page has no data")
	}
	var d pageData
	if err := json.Unmarshal([]byte(found[1]), &d); err != nil {
		t.Fatalf("%v: %s", err, found[1])
	}
	if d.Run != r.Name || len(d.Request) != len(r.Workload) || d.Series == nil || len(d.Series.AtS) != len(r.Series) {
		t.Fatalf("the page holds %d requests of %q", len(d.Request), d.Run)
	}
	for k, m := range d.Metrics {
		if want := res.Metrics[k]; m.Name != want.Name || math.Abs(mean(m.Real)-want.Real) > 0.01 || math.Abs(mean(m.Sim)-want.Sim) > 0.01 {
			t.Errorf("%s: means of the page's data are %g and %g, want %g and %g", m.Name, mean(m.Real), mean(m.Sim), want.Real, want.Sim)
		}
	}
	if got := d.Metrics[1].Real[3]; math.Abs(got-10) > 0.01 {
		t.Errorf("the TPOT of request 3 was 10 ms, the page says %g", got)
	}
	if strings.Contains(page, "<b>made-up") {
		t.Error("a run's name became markup")
	}
}

// A page loads nothing, and carries the licence of what it embeds.
func TestPageStandsAlone(t *testing.T) {
	_, _, page := madeUpPage(t)
	if loads := regexp.MustCompile(`(?i)\b(src|href)\s*=\s*["']|url\(|@import|\bfetch\(|XMLHttpRequest`).FindString(page); loads != "" {
		t.Errorf("the page has %q", loads)
	}
	for _, url := range regexp.MustCompile(`https?://[^\s"'<)]+`).FindAllString(page, -1) {
		if url != "https://github.com/leeoniya/uPlot" { // in the library's own comment
			t.Errorf("the page names %s", url)
		}
	}
	for _, want := range []string{"default-src 'none'", "The MIT License", "new uPlot(", `name="viewport"`, "prefers-color-scheme: dark"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestDepartures(t *testing.T) {
	r := Result{DepartS: map[string]float64{"kv": 12.5, "running": -1}}
	if got := strings.Join(r.Departures(), ", "); got != "running never, KV at 12.5 s" {
		t.Errorf("departures are %q", got)
	}
}
