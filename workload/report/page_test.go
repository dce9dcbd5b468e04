package report

import (
	"bytes"
	"encoding/json"
	"html"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pageOfReport writes a report's page.
func pageOfReport(t *testing.T, r *Report) string {
	t.Helper()
	var out bytes.Buffer
	if err := WriteHTML(&out, r); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

var (
	rawText    = regexp.MustCompile(`(?s)(<(script|style)[^>]*>).*?(</(?:script|style)>)`)
	tag        = regexp.MustCompile(`<(/?)([a-zA-Z][a-zA-Z0-9]*)((?:\s+[^\s<>="']+(?:="[^"<]*")?)*)\s*>`)
	voidTags   = []string{"meta", "input", "br", "link", "img"}
	identities = regexp.MustCompile(`\sid="([^"]*)"`)
	labels     = regexp.MustCompile(`\saria-labelledby="([^"]*)"`)
)

// checkMarkup sees that every element is closed where it must be, that nothing looks like a broken tag, and that ids are unique and found.
func checkMarkup(t *testing.T, page string) {
	t.Helper()
	page = rawText.ReplaceAllString(page, "$1$3")
	if !strings.HasPrefix(strings.TrimSpace(page), "<!doctype html>") {
		t.Errorf("the page begins with %.40q", strings.TrimSpace(page))
	}
	body := strings.Replace(page, "<!doctype html>", "", 1)
	var open []string
	for _, m := range tag.FindAllStringSubmatch(body, -1) {
		switch {
		case slices.Contains(voidTags, m[2]):
		case m[1] == "":
			open = append(open, m[2])
		case len(open) == 0 || open[len(open)-1] != m[2]:
			t.Fatalf("</%s> where %v are open", m[2], open)
		default:
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		t.Errorf("still open at the end: %v", open)
	}
	if rest := tag.ReplaceAllString(body, ""); strings.ContainsAny(rest, "<>") {
		at := strings.IndexAny(rest, "<>")
		t.Errorf("what is left without tags has a bracket: %q", rest[max(0, at-40):min(len(rest), at+40)])
	}
	seen := map[string]bool{}
	for _, m := range identities.FindAllStringSubmatch(body, -1) {
		if seen[m[1]] {
			t.Errorf("two elements are called %q", m[1])
		}
		seen[m[1]] = true
	}
	for _, m := range labels.FindAllStringSubmatch(body, -1) {
		if !seen[m[1]] {
			t.Errorf("nothing is called %q, which labels a section", m[1])
		}
	}
}

func TestPageIsWellFormed(t *testing.T) {
	checkMarkup(t, madeUpPage())
}

// A page loads nothing, and carries the licence of what it embeds.
func TestPageStandsAlone(t *testing.T) {
	page := madeUpPage()
	if loads := regexp.MustCompile(`(?i)\bsrc\s*=\s*["']|url\(|@import|\bfetch\(|XMLHttpRequest|<link|<iframe|<object`).FindString(page); loads != "" {
		t.Errorf("the page has %q", loads)
	}
	for _, url := range regexp.MustCompile(`https?://[^\s"'<)]+`).FindAllString(page, -1) {
		if url != "https://github.com/leeoniya/uPlot" && url != "http://www.w3.org/2000/svg" { // the library's own comment, and a namespace
			t.Errorf("the page names %s", url)
		}
	}
	for _, want := range []string{"default-src 'none'", "The MIT License", `name="viewport"`, `content="light dark"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// Links lead to the files that are to lie beside the page, and nowhere else.
func TestPageLinksToItsFiles(t *testing.T) {
	r := madeUp()
	names := []string{r.Links[0].Name}
	for _, f := range Files(r) {
		names = append(names, f.Name)
	}
	page := madeUpPage()
	linked := map[string]bool{}
	for _, m := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		linked[m[1]] = true
		if !slices.Contains(names, m[1]) {
			t.Errorf("the page links to %q, which isn't among its files", m[1])
		}
	}
	for _, n := range names {
		if n != "report.html" && !linked[n] {
			t.Errorf("the page doesn't link to %s", n)
		}
	}
}

// hostile is a name that would be markup, a script's end, a style or a formula where it isn't escaped.
const hostile = `</script><img src=x onerror="alert(1)">'"{{.}}&amp;;}` + "\u2028=1+1"

func TestHostileNames(t *testing.T) {
	r := tiny()
	r.Title, r.Command = hostile, hostile
	r.Policies[0].Name, r.Policies[0].What = hostile, hostile
	s := &r.Scenarios[0]
	s.Name, s.Cluster, s.Tenants, s.Note = hostile, hostile, hostile, hostile
	res := &s.Results[0]
	res.Policy, res.Knobs[0] = hostile, Knob{hostile, hostile}
	res.Run.Tenants[0], res.Run.Devices[0].ID = hostile, hostile
	res.Run.Plans[0].Kind, res.Run.Plans[0].Reason, res.Run.Plans[0].Refusal = hostile, hostile, hostile
	r.Ablation[0].Name, r.Ablation[0].Scenario = hostile, hostile
	r.Links = []Link{{hostile, hostile}, {"javascript:alert(1)", "a script"}}
	r.Extra = []Table{{Name: "extra", Title: hostile, Note: hostile, Columns: []Column{{Name: hostile}}, Rows: [][]string{{hostile}}}}
	page := pageOfReport(t, r)
	checkMarkup(t, page)
	for _, bad := range []string{"<img", `href="javascript:`} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if !strings.Contains(html.UnescapeString(rawText.ReplaceAllString(page, "")), hostile) {
		t.Error("the name isn't shown as it is")
	}
	if d := embedded(t, page); d.Scenarios[0].Of[hostile].Run.Tenants[0] != hostile {
		t.Error("the name isn't in the page's data as it is")
	}
}

// embedded reads the data within a page.
func embedded(t *testing.T, page string) pageData {
	t.Helper()
	found := regexp.MustCompile(`(?s)<script id="data" type="application/json">(.*?)</script>`).FindStringSubmatch(page)
	if found == nil {
		t.Fatal("the page has no data")
	}
	var d pageData
	if err := json.Unmarshal([]byte(found[1]), &d); err != nil {
		t.Fatalf("%v: %.200s", err, found[1])
	}
	return d
}

func TestEmptyReports(t *testing.T) {
	for name, r := range map[string]*Report{
		"nothing":          {},
		"policies only":    {Policies: madeUp().Policies},
		"a bare scenario":  {Scenarios: []Scenario{{Name: "s"}}},
		"a bare result":    {Scenarios: []Scenario{{Name: "s", Results: []Result{{Policy: "slice"}}}}},
		"a bare run":       {Scenarios: []Scenario{{Name: "s", Results: []Result{{Policy: "slice", Run: &Run{}}}}}},
		"devices untimed":  {Scenarios: []Scenario{{Results: []Result{{Run: &Run{Devices: []DeviceSeries{{ID: "d", Samples: make([]DeviceSample, 2)}}}}}}}},
		"no samples":       {Scenarios: []Scenario{{Results: []Result{{Run: &Run{AtNs: []int64{5, 9}, Devices: []DeviceSeries{{ID: "d"}}}}}}}},
		"unknown tenants":  {Scenarios: []Scenario{{Results: []Result{{Run: &Run{AtNs: []int64{5}, Devices: []DeviceSeries{{Samples: []DeviceSample{{Time: []TenantTime{{Tenant: 7, Busy: 1, Borrowed: 1}}}}}}}}}}}},
		"unknown scenario": {Ablation: []Variant{{Name: "without spread", Scenario: "nowhere"}}},
	} {
		page := pageOfReport(t, r)
		checkMarkup(t, page)
		embedded(t, page)
		if !strings.Contains(page, "There are no capacities to compare.") {
			t.Errorf("%s: the page doesn't say that there is nothing to compare", name)
		}
		for _, f := range Files(r) {
			if err := f.Write(&bytes.Buffer{}); err != nil {
				t.Errorf("%s: %s: %v", name, f.Name, err)
			}
		}
	}
}

// SLICER_PAGE names a file to which the made-up page is written, to be looked at.
func TestKeepPage(t *testing.T) {
	path := os.Getenv("SLICER_PAGE")
	if path == "" {
		t.Skip("SLICER_PAGE names no file to keep the made-up page in")
	}
	if err := os.WriteFile(path, []byte(madeUpPage()), 0o644); err != nil {
		t.Fatal(err)
	}
}
