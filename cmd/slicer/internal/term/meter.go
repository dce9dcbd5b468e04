package term

import (
	"fmt"
	"time"
)

// How often a meter shows something: a terminal's line is rewritten, a file gets few lines.
const (
	terminalPeriod = 100 * time.Millisecond
	filePeriod     = 5 * time.Second
)

// Meter shows how far a long piece of work is, with rate and time left. It is for one goroutine.
type Meter struct {
	out   Stream
	now   func() time.Time
	start time.Time
	last  time.Time
	shown bool // a line stands there that the next one overwrites
}

// NewMeter returns a meter that writes to out; now tells the time.
func NewMeter(out Stream, now func() time.Time) *Meter {
	t := now()
	return &Meter{out: out, now: now, start: t, last: t}
}

// Show says that done of total bytes are there, from of which were there at the start. total below 0 means that it isn't known.
func (m *Meter) Show(what string, done, total, from int64) { m.show(what, done, total, from, Bytes) }

// ShowCount is Show for things that are counted.
func (m *Meter) ShowCount(what string, done, total, from int64) {
	m.show(what, done, total, from, Count)
}

func (m *Meter) show(what string, done, total, from int64, unit func(int64) string) {
	now := m.now()
	period := filePeriod
	if m.out.Terminal {
		period = terminalPeriod
	}
	if now.Sub(m.last) < period {
		return
	}
	m.last = now
	line := what + "  " + progress(done, total, from, now.Sub(m.start), unit)
	if !m.out.Terminal {
		fmt.Fprintln(m.out, line)
		return
	}
	if columns, _ := m.out.Size(); len(line) >= columns {
		line = line[:columns-1]
	}
	fmt.Fprintf(m.out, "\r\x1b[K%s", line)
	m.shown = true
}

// Restart begins the next piece of work.
func (m *Meter) Restart() {
	m.Clear()
	m.start = m.now()
}

// Clear takes the line away.
func (m *Meter) Clear() {
	if m.shown {
		fmt.Fprint(m.out, "\r\x1b[K")
		m.shown = false
	}
}

// progress writes "12.0 MiB of 98.1 MiB  12 %  4.1 MiB/s  21s left". The rate is that of this run alone.
func progress(done, total, from int64, elapsed time.Duration, unit func(int64) string) string {
	rate := float64(done-from) / max(elapsed.Seconds(), 1e-3)
	if total <= 0 {
		return fmt.Sprintf("%s  %s/s", unit(done), unit(int64(rate)))
	}
	left := "-"
	if rate > 0 {
		left = (time.Duration(float64(total-done)/rate*float64(time.Second)) + time.Second - 1).Truncate(time.Second).String()
	}
	return fmt.Sprintf("%s of %s  %d %%  %s/s  %s left", unit(done), unit(total), 100*done/total, unit(int64(rate)), left)
}
