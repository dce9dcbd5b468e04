package workload

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// Columns by the names that published traces give them. The unit of a time column is part of its name; a bare "timestamp" is milliseconds when it is a
// number (Mooncake) and a date otherwise (Azure).
func promptColumns() []string {
	return []string{"input_tokens", "input_toks", "input_length", "contexttokens", "num_prefill_tokens", "prompt_tokens"}
}

func outputColumns() []string {
	return []string{"output_tokens", "output_toks", "output_length", "generatedtokens", "num_decode_tokens", "completion_tokens"}
}

func tenantColumns() []string { return []string{"tenant", "tenant_id", "client", "client_id", "model"} }

func timeColumns() []timeColumn {
	return []timeColumn{
		{"arrival_ns", 1}, {"arrival_time_ns", 1}, {"arrival_us", 1e3}, {"arrival_ms", 1e6}, {"arrival_s", 1e9}, {"arrived_at", 1e9}, {"arrival_time", 1e9}, {"timestamp", 1e6},
	}
}

// Columns of prefix blocks, with the tokens of one: vLLM's pages and Mooncake's.
const (
	vllmBlocks, vllmBlockTokens         = "blocks", 16
	mooncakeBlocks, mooncakeBlockTokens = "hash_ids", 512
)

type timeColumn struct {
	name string
	ns   int64 // of one unit
}

// ReadTrace reads a trace as CSV or as JSON lines, whichever it is. A byte order mark, CRLF and columns in any order are fine.
func ReadTrace(r io.Reader, name string, limits TraceLimits) (*Trace, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	if mark, err := in.Peek(3); err == nil && bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		if _, err := in.Discard(3); err != nil {
			return nil, err
		}
	}
	first, err := in.Peek(1)
	if err != nil {
		return nil, fmt.Errorf("%w: %s is empty", ErrTrace, name)
	}
	t := &Trace{Name: name}
	if first[0] == '{' {
		err = t.readJSON(in, limits)
	} else {
		err = t.readCSV(in, limits)
	}
	if err != nil {
		return nil, err
	}
	return t, t.finish()
}

func (t *Trace) readCSV(in io.Reader, limits TraceLimits) error {
	c := csv.NewReader(in)
	c.FieldsPerRecord = -1
	c.ReuseRecord = true
	header, err := c.Read()
	if err != nil {
		return fmt.Errorf("%w: %s: %v", ErrTrace, t.Name, err)
	}
	index := map[string]int{}
	for i, h := range header {
		index[strings.ToLower(strings.TrimSpace(h))] = i
	}
	cols, err := findColumns(t.Name, func(name string) bool { _, ok := index[name]; return ok })
	if err != nil {
		return err
	}
	for row := 2; ; row++ {
		fields, err := c.Read()
		if errors.Is(err, io.EOF) || limits.MaxRows > 0 && row-1 > limits.MaxRows {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %v", ErrTrace, t.Name, err)
		}
		get := func(name string) string {
			if i, ok := index[name]; ok && name != "" && i < len(fields) {
				return strings.TrimSpace(fields[i])
			}
			return ""
		}
		t.add(row, limits, cols, get, nil)
	}
}

func (t *Trace) readJSON(in *bufio.Reader, limits TraceLimits) error {
	var cols columns
	d := json.NewDecoder(in)
	d.UseNumber()
	for row := 1; limits.MaxRows == 0 || row <= limits.MaxRows; row++ {
		var v map[string]any
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %s, row %d: %v", ErrTrace, t.Name, row, err)
		}
		if row == 1 {
			if cols, err = findColumns(t.Name, func(name string) bool { _, ok := v[name]; return ok }); err != nil {
				return err
			}
			switch cols.blocks {
			case vllmBlocks:
				t.BlockTokens = vllmBlockTokens
			case mooncakeBlocks:
				t.BlockTokens = mooncakeBlockTokens
			}
		}
		get := func(name string) string {
			if x, ok := v[name]; ok && name != "" {
				return fmt.Sprint(x)
			}
			return ""
		}
		blocks, _ := v[cols.blocks].([]any)
		t.add(row, limits, cols, get, blocks)
	}
	return nil
}

// columns are the names that a trace uses; tenant and blocks may be empty.
type columns struct {
	at                             timeColumn
	prompt, output, tenant, blocks string
}

func findColumns(trace string, has func(string) bool) (columns, error) {
	var c columns
	pick := func(names []string) string {
		for _, n := range names {
			if has(n) {
				return n
			}
		}
		return ""
	}
	for _, tc := range timeColumns() {
		if has(tc.name) {
			c.at = tc
			break
		}
	}
	c.prompt, c.output, c.tenant, c.blocks = pick(promptColumns()), pick(outputColumns()), pick(tenantColumns()), pick([]string{vllmBlocks, mooncakeBlocks})
	switch {
	case c.at.name == "":
		return c, fmt.Errorf("%w: %s has no column of arrival times (arrival_s, arrival_ns, timestamp ..)", ErrTrace, trace)
	case c.prompt == "":
		return c, fmt.Errorf("%w: %s has no column of prompt lengths (%s)", ErrTrace, trace, strings.Join(promptColumns(), ", "))
	case c.output == "":
		return c, fmt.Errorf("%w: %s has no column of answer lengths (%s)", ErrTrace, trace, strings.Join(outputColumns(), ", "))
	}
	return c, nil
}

// add takes a row in, or reports why it can't be used.
func (t *Trace) add(row int, limits TraceLimits, c columns, get func(string) string, blocks []any) {
	reject := func(reason string) { t.Rejected = append(t.Rejected, Reject{row, reason}) }
	a := Arrival{Tenant: get(c.tenant)}
	var err error
	if a.ArrivalNs, err = parseTime(get(c.at.name), c.at.ns); err != nil {
		reject(fmt.Sprintf("%s is %q", c.at.name, get(c.at.name)))
		return
	}
	for _, f := range []struct {
		name string
		to   *int
	}{{c.prompt, &a.PromptTokens}, {c.output, &a.OutputTokens}} {
		v, err := strconv.ParseFloat(get(f.name), 64)
		if err != nil || v != math.Trunc(v) || math.Abs(v) > 1<<31 {
			reject(fmt.Sprintf("%s is %q", f.name, get(f.name)))
			return
		}
		*f.to = int(v)
	}
	if reason := limits.check(&a); reason != "" {
		reject(reason)
		return
	}
	for _, b := range blocks {
		n, ok := b.(json.Number)
		id, err := n.Int64()
		if !ok || err != nil {
			reject(fmt.Sprintf("%s holds %v", c.blocks, b))
			return
		}
		a.Blocks = append(a.Blocks, id)
	}
	t.Arrivals = append(t.Arrivals, a)
}

// parseTime reads a number in units of ns nanoseconds, or a date, exact to the nanosecond.
func parseTime(s string, ns int64) (int64, error) {
	if v, err := parseDecimal(s, ns); err == nil {
		return v, nil
	}
	for _, layout := range []string{time.DateTime, time.RFC3339} { // either may end in a fraction of any length
		if d, err := time.Parse(layout, s); err == nil {
			return d.UnixNano(), nil
		}
	}
	return 0, fmt.Errorf("%w: %q is no time", ErrTrace, s)
}

// parseDecimal multiplies a decimal number by a power of ten without going through a float, so that the last digit survives; digits below a nanosecond
// are cut off.
func parseDecimal(s string, ns int64) (int64, error) {
	if strings.ContainsAny(s, "eE") {
		v, err := strconv.ParseFloat(s, 64)
		return int64(math.Round(v * float64(ns))), err
	}
	whole, fraction, _ := strings.Cut(s, ".")
	sign := int64(1)
	if strings.HasPrefix(whole, "-") {
		sign, whole = -1, whole[1:]
	}
	v, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || v < 0 || v > math.MaxInt64/ns {
		return 0, fmt.Errorf("%w: %q is no number of a usable size", ErrTrace, s)
	}
	v *= ns
	for unit := ns / 10; fraction != ""; unit /= 10 {
		d := fraction[0]
		if d < '0' || d > '9' {
			return 0, fmt.Errorf("%w: %q is no number", ErrTrace, s)
		}
		v += int64(d-'0') * unit
		fraction = fraction[1:]
	}
	return sign * v, nil
}
