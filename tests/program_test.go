//go:build unix

package tests

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long anything may take before a test gives it up.
const patience = 60 * time.Second

// slicer is the program as it is built for people, made once for all tests.
var slicer = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "slicer-test-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "slicer")
	cmd := exec.Command("go", "build", "-tags", "invariants", "-o", path, "./cmd/slicer")
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := slicer(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

func program(t *testing.T) string {
	t.Helper()
	path, err := slicer()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// environment is a clean one: no settings of whoever runs the tests, and folders of the test's own.
func environment(t *testing.T, extra ...string) []string {
	t.Helper()
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "SLICER_") && !strings.HasPrefix(v, "XDG_") && !strings.HasPrefix(v, "HF_") && !strings.HasPrefix(v, "TERM=") {
			env = append(env, v)
		}
	}
	return append(env, append([]string{"XDG_DATA_HOME=" + t.TempDir(), "SLICER_MODELS=" + t.TempDir()}, extra...)...)
}

// outcome is how a run of the program ended.
type outcome struct {
	stdout, stderr string
	status         int
}

// invoke runs the program to its end.
func invoke(t *testing.T, env []string, stdin string, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(t), args...)
	var out, errs bytes.Buffer
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, strings.NewReader(stdin), &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return outcome{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// running is a node in a process of its own.
type running struct {
	t      *testing.T
	cmd    *exec.Cmd
	env    []string
	http   string
	stderr *bytes.Buffer
	ended  chan struct{}
}

// startNode runs slicer up on a free port and returns once it is ready. The node is killed at the end of the test if it still runs.
func startNode(t *testing.T, env []string, args ...string) *running {
	t.Helper()
	ready := filepath.Join(t.TempDir(), "ready.json")
	n := &running{t: t, env: env, stderr: new(bytes.Buffer), ended: make(chan struct{})}
	n.cmd = exec.Command(program(t), append([]string{"up", "--http", "127.0.0.1:0", "--name", "n1", "--ready-file", ready}, args...)...)
	n.cmd.Env, n.cmd.Stderr = env, n.stderr
	stdout, err := n.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make(chan string, 1)
	go func() {
		r := bufio.NewReader(stdout)
		first, _ := r.ReadString('\n')
		line <- first
		_, _ = io.Copy(io.Discard, r)
		_ = n.cmd.Wait()
		close(n.ended)
	}()
	t.Cleanup(func() {
		_ = n.cmd.Process.Kill()
		<-n.ended
	})
	select {
	case l := <-line:
		if !strings.Contains(l, "ready") {
			<-n.ended
			t.Fatalf("slicer up printed %q and ended: %s", l, n.stderr)
		}
	case <-time.After(patience):
		t.Fatal("slicer up is not ready")
	}
	var file struct{ Name, HTTP, Join string }
	data, err := os.ReadFile(ready)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &file); err != nil || file.Name != "n1" || file.HTTP == "" {
		t.Fatalf("ready file %s: %v", data, err)
	}
	n.http = file.HTTP
	return n
}

// run runs a client command against the node and returns its standard output; it must succeed.
func (n *running) run(args ...string) string {
	n.t.Helper()
	got := invoke(n.t, append(n.env, "SLICER_SERVER="+n.http), "", args...)
	if got.status != 0 {
		n.t.Fatalf("slicer %s: status %d\n%s%s", strings.Join(args, " "), got.status, got.stdout, got.stderr)
	}
	return got.stdout
}

// signal sends a signal.
func (n *running) signal(s os.Signal) {
	n.t.Helper()
	if err := n.cmd.Process.Signal(s); err != nil {
		n.t.Fatal(err)
	}
}

// wait waits for the node's end.
func (n *running) wait() *os.ProcessState {
	n.t.Helper()
	select {
	case <-n.ended:
	case <-time.After(patience):
		n.t.Fatal("the node does not end")
	}
	return n.cmd.ProcessState
}
