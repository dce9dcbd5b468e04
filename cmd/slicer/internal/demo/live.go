package demo

import (
	"context"
	"errors"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"slicescheduler/actors"
	"slicescheduler/cmd/slicer/internal/term"
)

// Answers come far faster than people read, so the screen spells them out at its own pace, and a question follows when the screen is there. What is
// measured is not slowed down by that.
const (
	framePeriod    = time.Second / 30
	revealPerFrame = 9 // bytes
	pauseFrames    = 12
	devicePeriod   = 100 * time.Millisecond
)

// Messages of the screen.
type (
	updateMsg  Update
	devicesMsg []actors.DeviceStatus
	frameMsg   struct{}
	endMsg     struct{ err error }
)

// Live runs the demo on a terminal and adds what was measured to totals. An interrupt by key gives context.Canceled.
func Live(ctx context.Context, api actors.API, tenants []Tenant, totals []Totals, start time.Time, out term.Stream, in io.Reader) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !term.IsTerminal(in) {
		in = nil // nobody can press a key; the program would end with the input
	}
	s := newScreen(tenants, totals, cancel)
	s.width, s.height = out.Size()
	options := []tea.ProgramOption{tea.WithContext(ctx), tea.WithOutput(out.Writer), tea.WithInput(in), tea.WithoutSignalHandler()}
	if !out.Color {
		options = append(options, tea.WithColorProfile(colorprofile.Ascii))
	}
	program := tea.NewProgram(s, options...)
	go watchDevices(ctx, api, program)
	var first time.Duration
	ended := make(chan error, 1)
	go func() {
		var err error
		first, err = Run(ctx, api, tenants, start, func(u Update) { program.Send(updateMsg(u)) }, s.awaitTurn)
		ended <- err
		program.Send(endMsg{err})
	}()
	_, err := program.Run()
	cancel()
	runErr := <-ended
	if errors.Is(err, tea.ErrProgramKilled) || errors.Is(err, tea.ErrInterrupted) {
		err = nil // ctx tells why
	}
	if s.interrupted {
		return first, context.Canceled
	}
	return first, errors.Join(runErr, err)
}

// watchDevices sends what the devices hold until ctx ends.
func watchDevices(ctx context.Context, api actors.API, program *tea.Program) {
	ticker := time.NewTicker(devicePeriod)
	defer ticker.Stop()
	for {
		if devices, err := api.Devices(ctx); err == nil {
			program.Send(devicesMsg(devices))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// column is one tenant on the screen.
type column struct {
	lines    []entry // what was said, the last one still growing
	shown    int     // bytes of the last entry that are spelt out
	pause    int     // frames until the next question
	asked    int     // questions so far
	turn     chan struct{}
	answered bool // the last answer is complete
}

// entry is a question or an answer.
type entry struct {
	question bool
	text     string
}

// caughtUp says whether all that was said stands on the screen.
func (c *column) caughtUp() bool {
	return len(c.lines) == 0 || c.answered && c.shown >= len(c.lines[len(c.lines)-1].text)
}

// screen is the model of the program. All of it belongs to the program's goroutine but for the columns' turns.
type screen struct {
	tenants       []Tenant
	totals        []Totals
	columns       []column
	devices       []actors.DeviceStatus
	width, height int
	done          bool // all is answered
	interrupted   bool
	cancel        context.CancelFunc
}

func newScreen(tenants []Tenant, totals []Totals, cancel context.CancelFunc) *screen {
	s := &screen{tenants: tenants, totals: totals, columns: make([]column, len(tenants)), cancel: cancel}
	for i := range s.columns {
		s.columns[i].turn = make(chan struct{}, 1)
		s.columns[i].turn <- struct{}{}
	}
	return s
}

// awaitTurn holds a tenant's next question back until the screen has shown the last answer.
func (s *screen) awaitTurn(ctx context.Context, tenant int) error {
	select {
	case <-s.columns[tenant].turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Init implements tea.Model.
func (s *screen) Init() tea.Cmd { return frame() }

func frame() tea.Cmd {
	return tea.Tick(framePeriod, func(time.Time) tea.Msg { return frameMsg{} })
}

// Update implements tea.Model.
func (s *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch m := msg.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = m.Width, m.Height
	case tea.KeyPressMsg:
		if key := m.String(); key == "ctrl+c" || key == "q" || key == "esc" {
			s.interrupted = true
			s.cancel()
			return s, tea.Quit
		}
	case updateMsg:
		s.take(Update(m))
	case devicesMsg:
		s.devices = m
	case endMsg:
		s.done = true
		if m.err != nil {
			return s, tea.Quit
		}
	case frameMsg:
		if s.advance() && s.done {
			return s, tea.Quit
		}
		return s, frame()
	}
	return s, nil
}

// take adds an update to its column.
func (s *screen) take(u Update) {
	c := &s.columns[u.Tenant]
	switch {
	case u.Question != "":
		c.lines = append(c.lines, entry{question: true, text: u.Question}, entry{})
		c.shown, c.answered, c.asked = 0, false, c.asked+1
	case u.Done != nil:
		s.totals[u.Tenant].Add(*u.Done)
		c.answered, c.pause = true, pauseFrames
	default:
		c.lines[len(c.lines)-1].text += u.Text
	}
}

// advance spells out a little more of every answer and gives turns. It says whether every column has caught up.
func (s *screen) advance() bool {
	all := true
	for i := range s.columns {
		c := &s.columns[i]
		if !c.caughtUp() {
			c.shown = min(c.shown+revealPerFrame, len(c.lines[len(c.lines)-1].text))
			all = false
			continue
		}
		if !c.answered {
			continue
		}
		if c.pause > 0 {
			c.pause--
			all = false
			if c.pause == 0 && c.asked < len(s.tenants[i].Questions) {
				c.turn <- struct{}{}
			}
		}
	}
	return all
}
