package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"slicescheduler/actors"
)

// dial opens a connection to a server at base that the test closes.
func dial(t *testing.T, base string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// endless is a script whose stream says the same until it is closed.
func endless(text string) func(actors.GenerateRequest) (*fakeStream, error) {
	return func(actors.GenerateRequest) (*fakeStream, error) {
		s := script()
		go func() {
			for {
				select {
				case s.events <- actors.Event{Text: text}:
				case <-s.closed:
					return
				}
			}
		}()
		return s, nil
	}
}

func TestBodyThatStopsComing(t *testing.T) {
	base := listen(t, newTestServer(t, newFake(), func(c *Config) { c.Limits.ReadTimeout = 20 * time.Millisecond }))
	for path, want := range map[string]string{"/v1/chat/completions": "408", "/v1/nothing": "404"} {
		c := dial(t, base)
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{", path)
		answer, err := io.ReadAll(c) // to the end: the server must close, not wait for the rest
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 "+want) {
			t.Errorf("%s: %v %s", path, err, answer)
		}
	}
}

func TestBodyCutShort(t *testing.T) {
	c := dial(t, listen(t, newTestServer(t, newFake(), nil)))
	fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil || !strings.Contains(string(answer), "body_incomplete") {
		t.Errorf("%v %s", err, answer)
	}
}

func TestStreamOutlivesTheBodysDeadline(t *testing.T) {
	const readTimeout = 100 * time.Millisecond
	f := newFake()
	stream := script()
	f.script = func(actors.GenerateRequest) (*fakeStream, error) { return stream, nil }
	base := listen(t, newTestServer(t, f, func(c *Config) { c.Limits.ReadTimeout = readTimeout }))
	r, err := http.Post(base+"/v1/chat/completions", "application/json", strings.NewReader(helloChat+`,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	select { // the deadline passes, and nobody ends the stream
	case <-stream.closed:
		t.Error("the stream was closed")
	case <-time.After(2 * readTimeout):
	}
	go func() { stream.events <- actors.Event{Finish: actors.FinishStop} }()
	body, err := io.ReadAll(r.Body)
	if err != nil || !strings.HasSuffix(string(body), "data: [DONE]\n\n") {
		t.Errorf("%v %s", err, body)
	}
}

func TestClientThatDoesNotReadIsGivenUp(t *testing.T) {
	f := newFake()
	closed := make(chan struct{})
	play := endless(strings.Repeat("x", 64<<10))
	f.script = func(r actors.GenerateRequest) (*fakeStream, error) {
		s, err := play(r)
		go func() { <-s.closed; close(closed) }()
		return s, err
	}
	base := listen(t, newTestServer(t, f, func(c *Config) { c.Limits.WriteTimeout = 20 * time.Millisecond }))
	body := helloChat + `,"stream":true}`
	fmt.Fprintf(dial(t, base), "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	<-closed
}

func TestShutdownWaitsForStreamsThenTellsThem(t *testing.T) {
	f := newFake()
	f.script = endless("x")
	s := newTestServer(t, f, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	r, err := http.Post("http://"+l.Addr().String()+"/v1/chat/completions", "application/json", strings.NewReader(helloChat+`,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	lines := bufio.NewReader(r.Body)
	if _, err := lines.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	ctx, endGrace := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(ctx) }()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("new connections are taken")
	}
	select { // the stream goes on in its grace
	case err := <-ended:
		t.Fatalf("Shutdown did not wait: %v", err)
	default:
	}
	endGrace()
	rest, err := io.ReadAll(lines)
	if err != nil || !strings.Contains(string(rest), "shutting_down") || strings.Contains(string(rest), "[DONE]") {
		t.Errorf("%v, the stream ends with %.300s", err, rest[max(0, len(rest)-300):])
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
}
