//go:build unix

package tests

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"slicescheduler/model/miniature"
)

// writeModel writes a model without a chat template, whole and in three shards, and returns the paths of the whole and of the first shard.
func writeModel(t *testing.T) (whole, firstShard string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	spec := miniature.Default()
	spec.WithoutTemplate = true
	file, err := miniature.Make(spec)
	if err != nil {
		t.Fatal(err)
	}
	shards, err := miniature.MakeShards(spec, 3)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(shards) - 1; i >= 0; i-- {
		firstShard = write(fmt.Sprintf("parts-%05d-of-%05d.gguf", i+1, len(shards)), shards[i])
	}
	return write("whole.gguf", file), firstShard
}

// complete asks for a completion of the likeliest tokens and returns its text.
func (n *running) complete(tenant string) string {
	n.t.Helper()
	body := fmt.Sprintf(`{"model": %q, "prompt": "once", "max_tokens": 24, "temperature": 0, "ignore_eos": true}`, tenant)
	resp, err := http.Post(n.http+"/v1/completions", "application/json", strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Choices []struct{ Text string }
		Usage   struct {
			CompletionTokens int `json:"completion_tokens"`
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || len(answer.Choices) != 1 || answer.Usage.CompletionTokens != 24 {
		n.t.Fatalf("%s completes to %+v, %v", tenant, answer, err)
	}
	return answer.Choices[0].Text
}

// TestShardedModelIsPulledAndServed: all shards come with the first, and the model answers as the same one in a single file.
func TestShardedModelIsPulledAndServed(t *testing.T) {
	whole, first := writeModel(t)
	env := environment(t)
	if got := invoke(t, env, "", "pull", first); got.status != 0 || !strings.Contains(got.stdout, "3 files") {
		t.Fatalf("pull: status %d, %q, %q", got.status, got.stdout, got.stderr)
	}
	if got := invoke(t, env, "", "pull", whole); got.status != 0 {
		t.Fatalf("pull: status %d, %q", got.status, got.stderr)
	}
	n := startNode(t, env, "--devices", "cpu:1,mem=64MiB;cpu:1,mem=64MiB")
	if out := n.run("models"); strings.Count(out, "parts-") != 2 || strings.Contains(out, "00002-of") { // its name and its path
		t.Errorf("models printed\n%s", out)
	}
	n.run("tenant", "submit", "sharded", "--model", "parts", "--split-over", "2")
	n.run("tenant", "submit", "single", "--model", "whole")
	if a, b := n.complete("sharded"), n.complete("single"); a != b || a == "" {
		t.Errorf("in shards it says %q, in one file %q", a, b)
	}
}

// TestChatTemplateFile: a model without a template says what to do, and doing that helps, after a kill as well.
func TestChatTemplateFile(t *testing.T) {
	whole, _ := writeModel(t)
	dir := t.TempDir()
	template := filepath.Join(dir, "chat.jinja")
	if err := os.WriteFile(template, []byte("{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"), 0o644); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(dir, "broken.jinja")
	if err := os.WriteFile(broken, []byte("{% for m in messages %}"), 0o644); err != nil {
		t.Fatal(err)
	}
	env, data := environment(t), filepath.Join(dir, "data")
	n := startNode(t, env, "--data", data)
	say := func(status int, says string, args ...string) {
		t.Helper()
		got := invoke(t, append(n.env, "SLICER_SERVER="+n.http), "", args...)
		if got.status != status || !strings.Contains(got.stderr, says) {
			t.Errorf("%v: status %d, want %d; %q, want it to say %q", args, got.status, status, got.stderr, says)
		}
	}
	chat := []string{"chat", "base", "Hi", "--temperature", "0", "--max-tokens", "8"}
	n.run("tenant", "submit", "base", "--model", whole)
	say(1, "--chat-template", chat...)
	if n.complete("base") == "" {
		t.Error("it does not complete")
	}
	n.run("tenant", "remove", "base")
	say(1, "template", "tenant", "submit", "base", "--model", whole, "--chat-template", broken)
	n.run("tenant", "submit", "base", "--model", whole, "--chat-template", template)
	before := n.run(chat...)
	n.signal(syscall.SIGKILL)
	n.wait()

	n = startNode(t, env, "--data", data)
	n.run("tenant", "submit", "base", "--model", whole, "--chat-template", template) // the same again only waits until it is ready
	if after := n.run(chat...); after != before || strings.TrimSpace(after) == "" {
		t.Errorf("it says %q, before the kill %q", after, before)
	}
}

// TestClientGoneFreesItsSlot: a client that hangs up leaves nothing behind, and another's stream goes on to its end.
func TestClientGoneFreesItsSlot(t *testing.T) {
	n := startNode(t, environment(t), "--tenant", "bob=tiny-story")
	other := openStream(t, n)
	openStream(t, n).Body.Close()
	if rest, err := io.ReadAll(other.Body); err != nil || !strings.HasSuffix(strings.TrimSpace(string(rest)), "data: [DONE]") {
		t.Errorf("the other answer broke off with %v: ...%s", err, rest[max(0, len(rest)-200):])
	}
	var tenant struct{ Running, KVBlocksFree, KVBlocksTotal int }
	for end := time.Now().Add(patience); ; {
		n.runJSON(&tenant, "tenant", "show", "bob")
		switch {
		case tenant.Running == 0 && tenant.KVBlocksFree == tenant.KVBlocksTotal && tenant.KVBlocksTotal > 0:
			return
		case time.Now().After(end):
			t.Fatalf("after the clients left there is %+v", tenant)
		}
	}
}

// runJSON runs a client command with --json and reads what it prints.
func (n *running) runJSON(into any, args ...string) {
	n.t.Helper()
	if err := json.Unmarshal([]byte(n.run(append(args, "--json")...)), into); err != nil {
		n.t.Fatal(err)
	}
}
