package term

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	xterm "golang.org/x/term"
)

// ErrDropped is a line that Ctrl-C took back.
var ErrDropped = errors.New("line dropped")

// maxLineBytes bounds a line of an input that no editor reads.
const maxLineBytes = 1 << 20

// Lines reads what a person types, line by line: on a terminal with an editor and a history, elsewhere as it comes.
type Lines struct {
	out    Stream
	prompt string
	file   *os.File // put into raw mode while a line is edited; nil: none
	keys   keys
	editor *xterm.Terminal
	plain  *bufio.Scanner // in place of the editor
}

// NewLines returns a reader of lines; out shows the prompt and what is typed.
func NewLines(in io.Reader, out Stream, prompt string) *Lines {
	l := &Lines{out: out, prompt: out.Bold(prompt)}
	if !out.Terminal || !IsTerminal(in) {
		l.plain = bufio.NewScanner(in)
		l.plain.Buffer(nil, maxLineBytes)
		return l
	}
	l.file, _ = in.(*os.File) // a terminal is a file
	l.edit(in)
	return l
}

// edit reads in through the editor.
func (l *Lines) edit(in io.Reader) {
	l.keys.in = in
	l.editor = xterm.NewTerminal(struct {
		io.Reader
		io.Writer
	}{&l.keys, l.out}, l.prompt)
	l.editor.History = spokenLines{l.editor.History}
}

// Next returns the next line; io.EOF at the end of input, ErrDropped when Ctrl-C took the line back, the context's error when that ends, after which
// nothing more can be read.
func (l *Lines) Next(ctx context.Context) (string, error) {
	if l.plain != nil {
		return l.nextPlain()
	}
	if l.file != nil {
		state, err := xterm.MakeRaw(int(l.file.Fd()))
		if err != nil {
			return "", fmt.Errorf("terminal: %w", err)
		}
		defer func() { _ = xterm.Restore(int(l.file.Fd()), state) }() // it was a terminal a moment ago
	}
	columns, rows := l.out.Size()
	if err := l.editor.SetSize(columns, rows); err != nil {
		return "", fmt.Errorf("terminal: %w", err)
	}
	type result struct {
		line string
		err  error
	}
	read := make(chan result, 1)
	go func() {
		line, err := l.editor.ReadLine()
		read <- result{line, err}
	}()
	select {
	case r := <-read:
		if r.err == nil && r.line == "" && l.keys.interrupts > 0 {
			l.keys.interrupts--
			return "", ErrDropped
		}
		return r.line, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (l *Lines) nextPlain() (string, error) {
	fmt.Fprint(l.out, l.prompt)
	if l.plain.Scan() {
		return l.plain.Text(), nil
	}
	if err := l.plain.Err(); err != nil {
		return "", err
	}
	return "", io.EOF
}

// Keys that the editor knows: to the end of the line, erase what is before the cursor, enter.
const (
	keyInterrupt  = "\x03"
	keysForDropIt = "\x05\x15\r"
)

// keys turns each Ctrl-C, at which the editor would say that the input has ended, into an empty line, and counts them.
type keys struct {
	in         io.Reader
	waiting    []byte
	interrupts int
}

func (k *keys) Read(p []byte) (int, error) {
	if len(k.waiting) == 0 {
		n, err := k.in.Read(p)
		if n == 0 {
			return 0, err
		}
		typed := string(p[:n])
		k.interrupts += strings.Count(typed, keyInterrupt)
		k.waiting = []byte(strings.ReplaceAll(typed, keyInterrupt, keysForDropIt))
	}
	n := copy(p, k.waiting)
	k.waiting = k.waiting[n:]
	return n, nil
}

// spokenLines is a history without empty lines.
type spokenLines struct{ xterm.History }

func (h spokenLines) Add(line string) {
	if strings.TrimSpace(line) != "" {
		h.History.Add(line)
	}
}
