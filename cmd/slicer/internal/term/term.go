// Package term knows what the other end of a stream is: a terminal with colours, a dumb one, or a file; and writes tables, sizes and progress for it.
package term

import (
	"io"
	"os"

	xterm "github.com/charmbracelet/x/term"
)

// fallbackWidth and fallbackHeight are assumed where there is no terminal to ask.
const (
	fallbackWidth  = 80
	fallbackHeight = 24
)

// Stream is an output and what may be done to it.
type Stream struct {
	io.Writer
	Terminal bool // a person watches, and the cursor can be moved
	Color    bool
}

// Of looks at an output. A terminal whose TERM is dumb, or absent, counts as a file; NO_COLOR, set to anything, takes the colours away.
func Of(w io.Writer, getenv func(string) string) Stream {
	f, isFile := w.(*os.File)
	kind := getenv("TERM")
	terminal := isFile && xterm.IsTerminal(f.Fd()) && kind != "dumb" && kind != ""
	return Stream{Writer: w, Terminal: terminal, Color: terminal && getenv("NO_COLOR") == ""}
}

// Size returns the columns and rows that there are now.
func (s Stream) Size() (columns, rows int) {
	if f, isFile := s.Writer.(*os.File); isFile {
		if w, h, err := xterm.GetSize(f.Fd()); err == nil && w > 0 && h > 0 {
			return w, h
		}
	}
	return fallbackWidth, fallbackHeight
}

// IsTerminal says whether a person sits at an input.
func IsTerminal(r io.Reader) bool {
	f, isFile := r.(*os.File)
	return isFile && xterm.IsTerminal(f.Fd())
}

// Dim and Bold style text where there are colours.
func (s Stream) Dim(text string) string  { return s.style("\x1b[2m", text) }
func (s Stream) Bold(text string) string { return s.style("\x1b[1m", text) }

func (s Stream) style(code, text string) string {
	if !s.Color || text == "" {
		return text
	}
	return code + text + "\x1b[0m"
}
