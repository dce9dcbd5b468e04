package demo

import (
	"fmt"
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"slicescheduler/actors"
	"slicescheduler/cmd/slicer/internal/term"
	"slicescheduler/gmg"
)

// Sizes of the screen's parts.
const (
	columnGap    = 2
	minColumn    = 16
	maxWidth     = 160
	headRows     = 2 // title, empty
	columnHead   = 3 // name, figures, rule
	deviceMargin = 1
	minBodyRows  = 4
	maxBodyRows  = 26  // what the longest conversation takes
	wideEnough   = 100 // for the figures beside the devices' bars
)

// Colours of the sixteen that every terminal has, so that they fit its theme.
var (
	accents  = []string{"6", "5", "2", "3", "4"}
	kvColor  = lipgloss.Color("4")
	wColor   = lipgloss.Color("5")
	wsColor  = lipgloss.Color("3")
	dimStyle = lipgloss.NewStyle().Faint(true)
)

// View implements tea.Model.
func (s *screen) View() tea.View {
	width := min(s.width, maxWidth)
	n := len(s.columns)
	each := max(minColumn, (width-(n-1)*columnGap)/n)
	rows := max(minBodyRows, min(maxBodyRows, s.height-headRows-columnHead-deviceMargin-len(s.devices)-2))
	var parts []string
	for i := range s.columns {
		if i > 0 {
			parts = append(parts, strings.Repeat(" ", columnGap))
		}
		parts = append(parts, s.columnView(i, each, rows))
	}
	title := lipgloss.NewStyle().Bold(true).Render("SliceScheduler") + dimStyle.Render(fmt.Sprintf("  %d tenants share %d devices", n, len(s.devices)))
	lines := []string{title, "", lipgloss.JoinHorizontal(lipgloss.Top, parts...), ""}
	for _, d := range s.devices {
		lines = append(lines, deviceView(d, width))
	}
	// The renderer clears the row of the cursor when it ends: an empty one, then.
	lines = append(lines, "")
	return tea.NewView(strings.Join(lines, "\n"))
}

// columnView draws a tenant: its name, what was measured so far, the end of what was said.
func (s *screen) columnView(i, width, rows int) string {
	t, c, sum := s.tenants[i], &s.columns[i], &s.totals[i]
	style := lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Color(accents[i%len(accents)]))
	name := style.Render(string(t.Spec.ID)) + dimStyle.Render(" "+t.Spec.Model)
	if t.Spec.SplitOver > 1 {
		name += dimStyle.Render(fmt.Sprintf(" on %d", t.Spec.SplitOver))
	}
	figures := dimStyle.Render("waiting for the first token")
	if sum.Answers > 0 {
		figures = dimStyle.Render(fmt.Sprintf("%d tok  %.0f tok/s", sum.Tokens, sum.TokensPerS()))
	}
	box := lipgloss.NewStyle().Width(width).MaxWidth(width)
	head := []string{box.MaxHeight(1).Render(name), box.MaxHeight(1).Render(figures), dimStyle.Render(strings.Repeat("─", width))}
	return strings.Join(append(head, s.said(c, width, rows, style)...), "\n")
}

// said wraps a conversation and keeps its last rows; all columns have as many.
func (s *screen) said(c *column, width, rows int, style lipgloss.Style) []string {
	plain := lipgloss.NewStyle()
	var lines []string
	for i, e := range c.lines {
		text, look := e.text, plain
		if e.question {
			text, look = "› "+e.text, style.Bold(false)
			if i > 0 {
				lines = append(lines, "")
			}
		}
		if i == len(c.lines)-1 {
			text = cut(text, c.shown)
			if !c.caughtUp() {
				text += "▌"
			}
		}
		for line := range strings.SplitSeq(lipgloss.Wrap(text, width, ""), "\n") {
			lines = append(lines, look.Render(line))
		}
	}
	lines = lines[max(0, len(lines)-rows):]
	for i, line := range lines {
		lines[i] = line + strings.Repeat(" ", max(0, width-lipgloss.Width(line)))
	}
	for len(lines) < rows {
		lines = append(lines, strings.Repeat(" ", width))
	}
	return lines
}

// cut returns about the first n bytes of a text and never half a character.
func cut(text string, n int) string {
	n = min(n, len(text))
	for n > 0 && n < len(text) && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// deviceView draws a device's memory as a bar by class, and how busy it is.
func deviceView(d actors.DeviceStatus, width int) string {
	name := fmt.Sprintf("%-5s", shortDevice(d.Device.ID))
	weights, kv := d.Held[gmg.MemWeights.String()], d.Held[gmg.MemKV.String()]
	used := d.Device.MemoryBytes - d.FreeBytes
	legend := fmt.Sprintf(" %3.0f %% of %s  busy %3.0f %%", fill(d)*100, term.Bytes(d.Device.MemoryBytes), d.BusyPct)
	key := fmt.Sprintf("  weights %9s  KV %9s", term.Bytes(weights), term.Bytes(kv))
	if width < wideEnough {
		key = ""
	}
	cells := max(minColumn, width-len(name)-1-len(legend)-len(key))
	bar := ""
	drawn := 0
	upTo := int64(0)
	for _, part := range []struct {
		bytes int64
		style lipgloss.Style
	}{{weights, lipgloss.NewStyle().Foreground(wColor)}, {kv, lipgloss.NewStyle().Foreground(kvColor)}, {used - weights - kv, lipgloss.NewStyle().Foreground(wsColor)}} {
		upTo += part.bytes
		end := int(float64(cells) * float64(upTo) / float64(max(1, d.Device.MemoryBytes)))
		bar += part.style.Render(strings.Repeat("█", max(0, end-drawn)))
		drawn = max(drawn, end)
	}
	bar += dimStyle.Render(strings.Repeat("░", max(0, cells-drawn)))
	return name + " " + bar + legend + dimStyle.Render(key)
}
