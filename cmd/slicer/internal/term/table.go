package term

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// Table writes rows under a header, columns two spaces apart. A column whose cells all begin with a digit stands to the right.
func Table(w io.Writer, header []string, rows [][]string) error {
	widths := make([]int, len(header))
	right := make([]bool, len(header))
	for i, h := range header {
		widths[i], right[i] = ansi.StringWidth(h), len(rows) > 0
	}
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], ansi.StringWidth(cell))
			right[i] = right[i] && (cell == "-" || cell != "" && unicode.IsDigit(rune(cell[0])))
		}
	}
	for _, row := range append([][]string{header}, rows...) {
		if _, err := fmt.Fprintln(w, tableLine(row, widths, right)); err != nil {
			return err
		}
	}
	return nil
}

func tableLine(row []string, widths []int, right []bool) string {
	var b strings.Builder
	for i, cell := range row {
		if i > 0 {
			b.WriteString("  ")
		}
		pad := strings.Repeat(" ", widths[i]-ansi.StringWidth(cell))
		if right[i] {
			b.WriteString(pad + cell)
		} else {
			b.WriteString(cell + pad)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// Bytes writes a size in the largest unit that leaves at least one before the point: 1.1 MiB.
func Bytes(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/(1<<10), 0
	for v >= 1<<10 && unit < 3 {
		v /= 1 << 10
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", v, "KMGT"[unit])
}

// Count writes a large number in short: 134.5M.
func Count(n int64) string {
	switch v := float64(n); {
	case n >= 1e9:
		return fmt.Sprintf("%.1fB", v/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1fM", v/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1fK", v/1e3)
	}
	return fmt.Sprint(n)
}

// Ms writes milliseconds with the digits that matter; "-" for none.
func Ms(v float64) string {
	switch {
	case v <= 0:
		return "-"
	case v < 10:
		return fmt.Sprintf("%.2f ms", v)
	case v < 1000:
		return fmt.Sprintf("%.0f ms", v)
	}
	return fmt.Sprintf("%.2f s", v/1000)
}

// Age writes how long ago something was, in its largest unit.
func Age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
