package term

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// typed returns what comes of keys: lines, "^C" for each that was dropped, and how it ended.
func typed(t *testing.T, in io.Reader) (lines []string, end error) {
	t.Helper()
	l := &Lines{out: Stream{Writer: new(bytes.Buffer)}, prompt: "> "}
	l.edit(in)
	for {
		line, err := l.Next(t.Context())
		switch {
		case errors.Is(err, ErrDropped):
			line = "^C"
		case err != nil:
			return lines, err
		}
		lines = append(lines, line)
	}
}

func TestLines(t *testing.T) {
	const left, up = "\x1b[D", "\x1b[A"
	for _, tt := range []struct {
		name, keys string
		want       []string
	}{
		{"lines, then Ctrl-D", "one\rtwo\r\x04", []string{"one", "two"}},
		{"Ctrl-C drops a line, wherever the cursor is", "abc" + left + left + "\x03def\r\x04", []string{"^C", "def"}},
		{"Ctrl-C at the prompt ends nothing", "\x03\x03x\r\x04", []string{"^C", "^C", "x"}},
		{"history", "one\rtwo\r" + up + up + "\r\x04", []string{"one", "two", "one"}},
		{"history without dropped and empty lines", "one\rab\x03\r" + up + "\r\x04", []string{"one", "^C", "", "one"}},
		{"end of input", "one\r", []string{"one"}},
	} {
		for pace, in := range map[string]io.Reader{"at once": strings.NewReader(tt.keys), "key by key": iotest.OneByteReader(strings.NewReader(tt.keys))} {
			if got, end := typed(t, in); !slices.Equal(got, tt.want) || !errors.Is(end, io.EOF) {
				t.Errorf("%s, %s: %q, %v; want %q", tt.name, pace, got, end, tt.want)
			}
		}
	}
}

func TestLinesEndWithTheContext(t *testing.T) {
	in, out := io.Pipe()
	defer out.Close()
	l := &Lines{out: Stream{Writer: io.Discard}, prompt: "> "}
	l.edit(in)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestLinesFromFiles(t *testing.T) {
	var out bytes.Buffer
	l := NewLines(strings.NewReader("one\ntwo"), Stream{Writer: &out}, "> ")
	for _, want := range []string{"one", "two"} {
		if got, err := l.Next(t.Context()); got != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	if _, err := l.Next(t.Context()); !errors.Is(err, io.EOF) || out.String() != "> > > " {
		t.Errorf("at the end %v; shown %q", err, out.String())
	}
}
