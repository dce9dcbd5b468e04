package report

import (
	"encoding/json"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// browserScript does what a reader does and writes down what it saw.
const browserScript = `<script>
addEventListener("error", e => seen.errors.push(e.message));
const seen = { errors: [], wide: document.documentElement.scrollWidth - innerWidth };
const all = s => [...document.querySelectorAll(s)], one = s => document.querySelector(s), rows = () => all("#plans .whole tbody tr").length;
const pick = (s, value) => { one(s).value = value; one(s).dispatchEvent(new Event("change")); };
seen.curves = all("#curve-charts .uplot").length;
seen.strips = all("#strips canvas").length;
seen.memory = all("#memory canvas").length;
seen.plans = rows();
one("[data-lines] button").click();
seen.alone = all("[data-lines] button[aria-pressed=true]").length;
one("[data-lines] button").click();
one("#tenants button").click();
one("#strips canvas").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }));
seen.read = one("#strips .read").textContent;
one("#bins").open = true;
one("#bins").ontoggle();
seen.bins = all("#bins tbody tr").length;
one("#bins").open = false;
const filters = all("#plans select");
filters[2].value = "refused";
filters[2].dispatchEvent(new Event("change"));
seen.refused = all("#plans .whole tbody tr").every(r => r.textContent.includes("refused:"));
one("#plans input").value = "no such words";
one("#plans input").dispatchEvent(new Event("input"));
seen.none = one("#plans [role=status]").textContent;
for (const s of [...one("#scenario").options]) pick("#scenario", s.value);
for (const p of [...one("#policy").options]) pick("#policy", p.value);
pick("#other", "");
seen.oneStrip = all("#strips canvas").length;
seen.noPlans = one("#plans").textContent;
document.body.append(Object.assign(document.createElement("pre"), { id: "seen", textContent: JSON.stringify(seen) }));
</script></body>`

type seenInBrowser struct {
	Errors                        []string
	Wide                          int
	Curves, Strips, Memory, Plans int
	Alone, Bins, OneStrip         int
	Refused                       bool
	Read, None, NoPlans           string
}

// browse opens a page in a headless browser of that width and returns the document's source after its scripts have run.
func browse(t *testing.T, page, width string) string {
	t.Helper()
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		t.Skip("there is no chromium to open the page in")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "report.html")
	if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir="+filepath.Join(dir, "profile"),
		"--window-size="+width+",900", "--dump-dom", "file://"+path)
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("%s doesn't run here: %v", browser, err)
	}
	return string(out)
}

func TestPageInBrowser(t *testing.T) {
	page := strings.Replace(madeUpPage(), "</body>", browserScript, 1)
	for _, width := range []string{"1280", "390"} {
		found := regexp.MustCompile(`(?s)<pre id="seen">(.*?)</pre>`).FindStringSubmatch(browse(t, page, width))
		if found == nil {
			t.Fatalf("at %s pixels the script didn't reach its end", width)
		}
		var s seenInBrowser
		if err := json.Unmarshal([]byte(html.UnescapeString(found[1])), &s); err != nil {
			t.Fatal(err)
		}
		if len(s.Errors) > 0 || s.Wide > 0 {
			t.Errorf("at %s pixels: errors %q, %d pixels too wide", width, s.Errors, s.Wide)
		}
		if s.Curves != 4 || s.Strips != 2 || s.Memory != 16 || s.Plans != 15 || s.OneStrip != 1 {
			t.Errorf("at %s pixels: %d curves, %d strips, %d devices' memory, %d plans, %d strips of one run", width, s.Curves, s.Strips, s.Memory, s.Plans, s.OneStrip)
		}
		if s.Alone != 2 || s.Bins != 2*8*maxBins || !s.Refused || s.None != "none matches" {
			t.Errorf("at %s pixels: %d pressed, %d bins, only refused %v, %q", width, s.Alone, s.Bins, s.Refused, s.None)
		}
		if !strings.HasPrefix(s.Read, "h0/gpu0, 0:00 to ") || !strings.Contains(s.NoPlans, "has no decisions") {
			t.Errorf("at %s pixels: %q, %q", width, s.Read, s.NoPlans)
		}
	}
}
