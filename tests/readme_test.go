//go:build unix

package tests

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"slicescheduler/model/embedded"
)

// shellBlock is a block of commands in a Markdown file, with the marker that may stand above it:
//
//	node  starts the node that the other blocks talk to; the test starts its own
//	ci    what CI runs anyway, and what would run this test again
var shellBlock = regexp.MustCompile("(?m)^(?:<!-- run: (node|ci) -->\n)?```sh\n((?s:.*?))^```$")

type block struct{ marker, commands string }

func readmeBlocks(t *testing.T) []block {
	t.Helper()
	data, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []block
	for _, m := range shellBlock.FindAllStringSubmatch(string(data), -1) {
		blocks = append(blocks, block{m[1], m[2]})
	}
	return blocks
}

// fakeHub serves an embedded model under the name of the one that the README pulls.
func fakeHub(t *testing.T) *httptest.Server {
	t.Helper()
	data, err := embedded.File("tiny-guide")
	if err != nil {
		t.Fatal(err)
	}
	const repo, file = "/bartowski/SmolLM2-135M-Instruct-GGUF", "SmolLM2-135M-Instruct-Q8_0.gguf"
	mux := http.NewServeMux()
	mux.HandleFunc("/api/models"+repo, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"siblings": [{"rfilename": %q}]}`, file)
	})
	mux.HandleFunc(repo+"/resolve/main/"+file, func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	})
	hub := httptest.NewServer(mux)
	t.Cleanup(hub.Close)
	return hub
}

// TestReadme runs the README's commands in their order, as a reader would, but against a node and a hub of its own.
func TestReadme(t *testing.T) {
	blocks := readmeBlocks(t)
	if len(blocks) < 8 {
		t.Fatalf("found %d blocks of commands in the README", len(blocks))
	}
	env := environment(t, "HF_ENDPOINT="+fakeHub(t).URL)
	n := startNode(t, env)
	for _, b := range blocks {
		t.Run(strings.SplitN(b.commands, "\n", 2)[0], func(t *testing.T) {
			switch b.marker {
			case "ci":
				t.Skip("runs these tests; CI calls it itself")
			case "node":
				checkUp(t, env, b.commands)
			default:
				out := n.script(t, b.commands)
				if strings.Contains(b.commands, "Who are you?") && !strings.Contains(out, "I am tiny-story") {
					t.Errorf("the answer is not as expected:\n%s", out)
				}
			}
		})
	}
}

// script runs a block of the README with the program that these tests have built in place of bin/slicer.
func (n *running) script(t *testing.T, commands string) string {
	t.Helper()
	built := program(t)
	s := strings.ReplaceAll(commands, "-o bin/slicer", "-o "+filepath.Join(t.TempDir(), "slicer"))
	s = strings.ReplaceAll(s, "bin/slicer", built)
	s = strings.ReplaceAll(s, "http://127.0.0.1:7070", n.http)
	s = strings.ReplaceAll(s, "curl -s ", "curl -sS --fail-with-body ")
	cmd := exec.CommandContext(t.Context(), "bash", "-e", "-c", s)
	cmd.Dir, cmd.Env = "..", append(n.env, "SLICER_SERVER="+n.http)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	return string(out)
}

// checkUp starts a node just as the README does, but on a free port, and sees that it serves.
func checkUp(t *testing.T, env []string, commands string) {
	t.Helper()
	fields := strings.Fields(commands)
	if len(fields) < 2 || fields[0] != "bin/slicer" || fields[1] != "up" {
		t.Fatalf("%q does not start a node", commands)
	}
	n := startNode(t, append(env, "XDG_DATA_HOME="+t.TempDir()), fields[2:]...)
	resp, err := http.Get(n.http + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("/readyz answers %s", resp.Status)
	}
}

// TestReadmeLinks sees that what the README and its companions link to is there.
func TestReadmeLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#]+)\)`)
	for _, file := range []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "ARCHITECTURE.md"} {
		data, err := os.ReadFile(filepath.Join("..", file))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, m := range link.FindAllStringSubmatch(string(data), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join("..", m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", file, m[1])
			}
		}
	}
}
