package whatif

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"slicescheduler/gmg"
)

// Errors of this package.
var (
	ErrTable = errors.New("invalid cost table")
	ErrSpec  = errors.New("invalid simulation")
)

// Tables are one device kind's measured operator times for one model, dtype and tensor-parallel degree. They are immutable once read.
type Tables struct {
	dense       map[string]curve
	perSequence map[string]curve
	attention   *attentionCost
	experts     []expertRow
}

// TableFiles are the parts of a measured table as CSV; nil ones are absent. Columns are found by name; times are microseconds.
type TableFiles struct {
	Dense       io.Reader // layer, tokens, time_us
	PerSequence io.Reader // layer, sequences, time_us
	Attention   io.Reader // prefill_chunk, kv_prefill, n_decode, kv_decode, time_us; one layer
	Experts     io.Reader // tokens, activated_experts, time_us; one layer
	Skew        io.Reader // pc, n_label, skew_rate_label, kv_big_label, kp_label, alpha, n_samples
}

// ReadTables reads measured tables, or returns an ErrTable that names the file, row and column at fault.
func ReadTables(f TableFiles) (*Tables, error) {
	t := &Tables{}
	var err error
	if t.dense, err = readCurves("dense", f.Dense, "tokens"); err != nil {
		return nil, err
	}
	if t.perSequence, err = readCurves("per_sequence", f.PerSequence, "sequences"); err != nil {
		return nil, err
	}
	skew, err := readSkew(f.Skew)
	if err != nil {
		return nil, err
	}
	if f.Attention != nil {
		var rows []attentionRow
		err = eachRow("attention", f.Attention, []string{"prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us"}, func(r *row) {
			rows = append(rows, attentionRow{r.int(0), r.int(1), r.int(2), r.int(3), r.float(4) * 1e3})
		})
		if err != nil {
			return nil, err
		}
		if t.attention, err = newAttention(rows, skew); err != nil {
			return nil, err
		}
	}
	if f.Experts != nil {
		err = eachRow("moe", f.Experts, []string{"tokens", "activated_experts", "time_us"}, func(r *row) {
			t.experts = append(t.experts, expertRow{r.int(0), r.int(1), r.float(2) * 1e3})
		})
	}
	return t, err
}

// WithKernel returns tables whose attention follows k.
func (t *Tables) WithKernel(k DecodeKernel) *Tables {
	u := *t
	if t.attention != nil {
		a := *t.attention
		a.kernel = &k
		u.attention = &a
	}
	return &u
}

// Cost returns the measured cost of an operator, or false where there is none. Group matters to experts only.
func (t *Tables) Cost(op *gmg.Operator, g ExpertGroup) (Cost, bool, error) {
	switch op.Kind {
	case gmg.OpAttention:
		return t.attention, t.attention != nil, nil
	case gmg.OpExperts:
		if t.experts == nil {
			return nil, false, nil
		}
		if g.Experts == 0 {
			g.Experts, g.TopK = op.Attrs.Experts, op.Attrs.TopK
		}
		c, err := newExperts(t.experts, g)
		return c, err == nil, err
	}
	if c, ok := t.dense[op.Name]; ok {
		return tokensCost{c}, true, nil
	}
	if c, ok := t.perSequence[op.Name]; ok {
		return logitsCost{c}, true, nil
	}
	return nil, false, nil
}

func readCurves(file string, r io.Reader, over string) (map[string]curve, error) {
	if r == nil {
		return nil, nil
	}
	points := map[string][]point{}
	err := eachRow(file, r, []string{"layer", over, "time_us"}, func(r *row) {
		points[r.string(0)] = append(points[r.string(0)], point{r.int(1), r.float(2) * 1e3})
	})
	if err != nil {
		return nil, err
	}
	curves := make(map[string]curve, len(points))
	for layer, p := range points {
		if curves[layer], err = newCurve(p); err != nil {
			return nil, fmt.Errorf("%s, layer %s: %w", file, layer, err)
		}
	}
	return curves, nil
}

func readSkew(r io.Reader) (*skewTable, error) {
	if r == nil {
		return nil, nil
	}
	var rows []skewRow
	var bad error
	err := eachRow("skew_fit", r, []string{"pc", "n_label", "skew_rate_label", "kv_big_label", "kp_label", "alpha", "n_samples"}, func(r *row) {
		s := skewRow{alpha: r.float(5), weight: r.float(6)}
		s.edge[0] = r.float(0)
		for d := 1; d < 5; d++ {
			var err error
			if s.edge[d], err = parseEdge(r.string(d)); err != nil {
				bad = err
			}
		}
		rows = append(rows, s)
	})
	return newSkewTable(rows), errors.Join(err, bad)
}

// row gives typed access to the columns that were asked for, keeping the first error.
type row struct {
	fields []string
	column []int
	err    error
}

func (r *row) string(i int) string { return r.fields[r.column[i]] }

func (r *row) float(i int) float64 {
	v, err := strconv.ParseFloat(strings.TrimSpace(r.string(i)), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		r.fail(i)
	}
	return v
}

func (r *row) int(i int) int {
	v, err := strconv.Atoi(strings.TrimSpace(r.string(i)))
	if err != nil || v < 0 {
		r.fail(i)
	}
	return v
}

func (r *row) fail(i int) {
	if r.err == nil {
		r.err = fmt.Errorf("column %d holds %q, not a number", r.column[i]+1, r.string(i))
	}
}

// eachRow calls f for every row of a CSV file with the named columns, in any order and among others.
func eachRow(file string, in io.Reader, columns []string, f func(*row)) error {
	c := csv.NewReader(in)
	c.ReuseRecord = true
	header, err := c.Read()
	if err != nil {
		return fmt.Errorf("%w: %s: %v", ErrTable, file, err)
	}
	r := &row{}
	for _, name := range columns {
		at := -1
		for i, h := range header {
			if strings.TrimSpace(strings.TrimPrefix(h, "\ufeff")) == name {
				at = i
			}
		}
		if at < 0 {
			return fmt.Errorf("%w: %s has no column %q", ErrTable, file, name)
		}
		r.column = append(r.column, at)
	}
	for line := 2; ; line++ {
		r.fields, err = c.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %v", ErrTable, file, err)
		}
		if f(r); r.err != nil {
			return fmt.Errorf("%w: %s, line %d: %v", ErrTable, file, line, r.err)
		}
	}
}
