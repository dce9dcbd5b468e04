//go:build unix

package tests

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

func TestDemoPiped(t *testing.T) {
	got := invoke(t, environment(t), "", "demo")
	if got.status != 0 || got.stderr != "" {
		t.Fatalf("status %d\n%s", got.status, got.stderr)
	}
	for _, want := range []string{"guide | 7 + 5 = 12.", "The opposite of hot is cold.", "brave fox named", "TTFT", "TPOT", "cpu0:0-2 cpu1:3-5", "2/2 kept", "First token"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("the demo does not show %q:\n%s", want, got.stdout)
		}
	}
	if strings.Contains(got.stdout, "\x1b") {
		t.Error("the demo writes escapes into a pipe")
	}
}

func TestOpenAIClientStreams(t *testing.T) {
	n := startNode(t, environment(t), "--devices", "cpu:1*2", "--tenant", "alice=tiny-guide", "--tenant", "bob=tiny-story")
	client := openai.NewClient(option.WithBaseURL(n.http+"/v1"), option.WithAPIKey("none"))
	stream := client.Chat.Completions.NewStreaming(t.Context(), openai.ChatCompletionNewParams{
		Model: "alice", Temperature: openai.Float(0), Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("What is 7 + 5?")},
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	})
	var sum openai.ChatCompletionAccumulator
	chunks := 0
	for stream.Next() {
		sum.AddChunk(stream.Current())
		chunks++
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if len(sum.Choices) != 1 || sum.Choices[0].Message.Content != "7 + 5 = 12." || sum.Choices[0].FinishReason != "stop" || sum.Usage.CompletionTokens == 0 {
		t.Errorf("got %+v with usage %+v", sum.Choices, sum.Usage)
	}
	if chunks < 4 {
		t.Errorf("%d chunks are no stream", chunks)
	}
}

func TestClientCommands(t *testing.T) {
	n := startNode(t, environment(t), "--devices", "cpu:1,mem=64MiB;cpu:1,mem=64MiB")
	if out := n.run("tenant", "submit", "s", "--model", "tiny-story", "--split-over", "2", "--ttft", "500ms"); !strings.Contains(out, "n1/cpu0, n1/cpu1") {
		t.Errorf("submit printed %q", out)
	}
	if out := n.run("chat", "s", "Hello!", "--temperature", "0"); out != "Hello! I tell little stories. Name an animal and a thing, and I will begin.\n" {
		t.Errorf("chat printed %q", out)
	}
	piped := invoke(t, append(n.env, "SLICER_SERVER="+n.http, "SLICER_TEMPERATURE=0"), "Who are you?\n", "chat", "s")
	if piped.stdout != "I am tiny-story, a very small language model that tells stories.\n" {
		t.Errorf("chat from a pipe printed %q, %q", piped.stdout, piped.stderr)
	}
	for _, args := range [][]string{{"tenant", "list"}, {"devices"}, {"slices"}, {"nodes"}, {"models"}, {"key", "list", "s"}} {
		var list []map[string]any
		if out := n.run(append(args, "--json")...); json.Unmarshal([]byte(out), &list) != nil {
			t.Errorf("%v --json printed %s", args, out)
		}
		if table := n.run(args...); strings.Contains(table, "\x1b") || strings.ToUpper(strings.SplitN(table, "\n", 2)[0]) != strings.SplitN(table, "\n", 2)[0] {
			t.Errorf("%v printed\n%s", args, table)
		}
	}
	if out := n.run("tenant", "show", "s"); !strings.Contains(out, "promised 500 ms") || !strings.Contains(out, "0 violations of 2") {
		t.Errorf("show printed\n%s", out)
	}
	n.run("tenant", "remove", "s")
	if out := n.run("tenant", "list", "--json"); strings.TrimSpace(out) != "[]" {
		t.Errorf("after the removal there is %s", out)
	}
	if got := invoke(t, append(n.env, "SLICER_SERVER="+n.http), "", "chat", "s", "Hello!"); got.status != 1 || !strings.Contains(got.stderr, "s") {
		t.Errorf("chat with a removed tenant: status %d, %q", got.status, got.stderr)
	}
}

func TestTenantsAndKeysSurviveKill(t *testing.T) {
	env := environment(t)
	data := filepath.Join(t.TempDir(), "data")
	n := startNode(t, env, "--data", data)
	n.run("tenant", "submit", "alice", "--model", "tiny-guide", "--priority", "3")
	key := strings.TrimSpace(n.run("key", "add", "alice", "laptop"))
	n.signal(syscall.SIGKILL)
	n.wait()

	n = startNode(t, env, "--data", data)
	var tenant struct {
		Spec struct {
			ID, Model string
			Priority  int
		}
	}
	if err := json.Unmarshal([]byte(n.run("tenant", "show", "alice", "--json")), &tenant); err != nil {
		t.Fatal(err)
	}
	if tenant.Spec.Model != "tiny-guide" || tenant.Spec.Priority != 3 {
		t.Errorf("after the restart there is %+v", tenant)
	}
	n.run("tenant", "submit", "alice", "--model", "tiny-guide", "--priority", "3") // the same again only waits until it is ready
	if out := n.run("chat", "alice", "What is 2 + 3?", "--temperature", "0", "--api-key", key); out != "2 + 3 = 5.\n" {
		t.Errorf("chat printed %q", out)
	}
	if got := invoke(t, append(env, "SLICER_SERVER="+n.http), "", "chat", "alice", "Hello!"); got.status != 1 || !strings.Contains(got.stderr, "SLICER_API_KEY") {
		t.Errorf("chat without the key: status %d, %q", got.status, got.stderr)
	}
}

// openStream starts a long answer and reads its first piece, no more: the node has to wait for the client then.
func openStream(t *testing.T, n *running) *http.Response {
	t.Helper()
	body := `{"model": "bob", "messages": [{"role": "user", "content": "Tell me a story."}], "stream": true, "ignore_eos": true, "max_tokens": 900, "temperature": 0}`
	resp, err := http.Post(n.http+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	first := make([]byte, 16)
	if _, err := io.ReadFull(resp.Body, first); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s, %q, %v", resp.Status, first, err)
	}
	return resp
}

// awaitUnready asks until the node says that it takes no requests.
func awaitUnready(t *testing.T, n *running) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		resp, err := http.Get(n.http + "/readyz")
		if err != nil {
			t.Fatalf("the node is gone before it said that it drains: %v", err)
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusServiceUnavailable {
			return
		}
	}
	t.Fatal("the node stays ready after SIGTERM")
}

func TestStreamsEndBeforeTheNodeDoes(t *testing.T) {
	n := startNode(t, environment(t), "--tenant", "bob=tiny-story")
	resp := openStream(t, n)
	n.signal(syscall.SIGTERM)
	rest, err := io.ReadAll(resp.Body)
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(rest)), "data: [DONE]") {
		t.Errorf("the answer broke off with %v: ...%s", err, rest[max(0, len(rest)-200):])
	}
	if state := n.wait(); state.ExitCode() != 0 {
		t.Errorf("the node ended with %v\n%s", state, n.stderr)
	}
}

func TestDrainEndsAtItsTime(t *testing.T) {
	n := startNode(t, environment(t), "--tenant", "bob=tiny-story", "--drain", "1ms")
	resp := openStream(t, n)
	n.signal(syscall.SIGINT)
	_, _ = io.Copy(io.Discard, resp.Body)
	if state := n.wait(); state.ExitCode() != 0 {
		t.Errorf("the node ended with %v\n%s", state, n.stderr)
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	n := startNode(t, environment(t), "--tenant", "bob=tiny-story", "--drain", "10m")
	var conns []*http.Response
	for range 6 {
		conns = append(conns, openStream(t, n))
	}
	n.signal(syscall.SIGTERM)
	awaitUnready(t, n)
	n.signal(syscall.SIGTERM)
	if state := n.wait(); state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("the node ended with %v, with %d streams open", state, len(conns))
	}
}

func TestTakenPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got := invoke(t, environment(t), "", "up", "--http", l.Addr().String())
	if got.status != 1 || !strings.Contains(got.stderr, l.Addr().String()) || !strings.Contains(got.stderr, "--http") {
		t.Errorf("status %d, %q", got.status, got.stderr)
	}
}

func TestWrongUsage(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "slicer.yaml")
	if err := os.WriteFile(config, []byte("up:\n  htpp: 127.0.0.1:0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		status int
		says   string
		args   []string
	}{
		{2, "bogus", []string{"bogus"}},
		{2, "--bogus", []string{"up", "--bogus"}},
		{2, "gpu:1", []string{"up", "--devices", "cpu:1;gpu:1"}},
		{2, "NAME=MODEL", []string{"up", "--tenant", "alice"}},
		{2, "7070", []string{"up", "--http", "7070"}},
		{2, "--admin-key", []string{"up", "--http", "0.0.0.0:0", "--devices", "cpu:1"}},
		{2, "--log-level", []string{"up", "--log-level", "loud"}},
		{2, "htpp", []string{"up", "--config", config}},
		{2, "none.yaml", []string{"models", "--config", filepath.Join(dir, "none.yaml")}},
		{2, "submit", []string{"tenant", "submit"}},
		{2, "--model", []string{"tenant", "submit", "alice"}},
		{2, "tenant", []string{"tenant"}},
		{2, "ttft", []string{"tenant", "submit", "alice", "--model", "tiny-story", "--ttft", "soon"}},
		{2, "milliseconds", []string{"tenant", "submit", "alice", "--model", "tiny-story", "--tpot", "500us"}},
		{2, "-1000", []string{"tenant", "submit", "alice", "--model", "tiny-story", "--ttft", "-1s"}},
		{2, "priority", []string{"tenant", "submit", "alice", "--model", "tiny-story", "--priority", "high"}},
		{2, "a/b", []string{"tenant", "submit", "a/b", "--model", "tiny-story"}},
		{1, "none.jinja", []string{"tenant", "submit", "alice", "--model", "tiny-story", "--chat-template", filepath.Join(dir, "none.jinja")}},
		{1, "/dev/zero", []string{"tenant", "submit", "alice", "--model", "tiny-story", "--chat-template", "/dev/zero"}},
		{2, "temperature", []string{"chat", "alice", "Hi", "--temperature", "NaN"}},
		{2, "temperature", []string{"chat", "alice", "Hi", "--temperature", "+Inf"}},
		{2, "temperature", []string{"chat", "alice", "Hi", "--temperature", "-1"}},
		{2, "max-tokens", []string{"chat", "alice", "Hi", "--max-tokens", "0"}},
		{2, "seed", []string{"chat", "alice", "Hi", "--seed", "1.5"}},
		{2, "owner/repo", []string{"pull", "model"}},
		{2, "http", []string{"nodes", "--server", "localhost:7070"}},
		{1, "slicer up", []string{"nodes", "--server", "http://127.0.0.1:1"}},
		{1, "slicer pull", []string{"up", "--http", "127.0.0.1:0", "--tenant", "a=no-such-model"}},
	} {
		got := invoke(t, environment(t), "", tt.args...)
		if got.status != tt.status || !strings.Contains(got.stderr, tt.says) || got.stdout != "" {
			t.Errorf("%v: status %d, want %d; wrote %q and %q, want it to say %q", tt.args, got.status, tt.status, got.stdout, got.stderr, tt.says)
		}
	}
}

func TestSettingsFromEnvironmentAndFile(t *testing.T) {
	config := filepath.Join(t.TempDir(), "slicer.yaml")
	if err := os.WriteFile(config, []byte("up:\n  devices: sim:h100*2\n  log-level: error\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	n := startNode(t, environment(t, "SLICER_CONFIG="+config, "SLICER_TENANT=a=tiny-guide,b=tiny-story"))
	if out := n.run("devices"); !strings.Contains(out, "n1/sim1") {
		t.Errorf("devices printed\n%s", out)
	}
	if out := n.run("tenant", "list"); !strings.Contains(out, "tiny-guide") || !strings.Contains(out, "tiny-story") {
		t.Errorf("tenant list printed\n%s", out)
	}
	if n.stderr.Len() > 0 {
		t.Errorf("logged below its level: %s", n.stderr)
	}
}
