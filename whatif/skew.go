package whatif

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// skewTable holds the measured share of the way from "all decodes of mean context" to "all as long as the longest" that a batch of unequal decodes
// takes, in buckets by chunk, decodes, skew rate, longest context and prefill context.
type skewTable struct {
	edges    [5][]float64 // inclusive upper edges of the buckets
	share    []float64    // NaN where not measured
	fallback float64      // the measurements' weighted mean
}

// skewRow is one bucket; its labels are upper edges, +Inf for the overflow bucket.
type skewRow struct {
	edge   [5]float64
	alpha  float64
	weight float64
}

func newSkewTable(rows []skewRow) *skewTable {
	if len(rows) == 0 {
		return nil
	}
	t := &skewTable{}
	size := 1
	for d := range t.edges {
		for _, r := range rows {
			t.edges[d] = append(t.edges[d], r.edge[d])
		}
		slices.Sort(t.edges[d])
		t.edges[d] = slices.Compact(t.edges[d])
		size *= len(t.edges[d])
	}
	t.share = make([]float64, size)
	for i := range t.share {
		t.share[i] = math.NaN()
	}
	var sum, weight float64
	for _, r := range rows {
		i := 0
		for d := range t.edges {
			at, _ := slices.BinarySearch(t.edges[d], r.edge[d])
			i = i*len(t.edges[d]) + at
		}
		t.share[i] = r.alpha
		sum += r.alpha * r.weight
		weight += r.weight
	}
	t.fallback = sum / max(weight, 1)
	return t
}

// alpha returns the share for a batch. A chunk between two measured ones takes the nearer one's bucket.
func (t *skewTable) alpha(chunk, decodes int, rate float64, longest int, chunkContext float64) float64 {
	i := nearest(t.edges[0], float64(chunk))
	for d, x := range [4]float64{float64(decodes), rate, float64(longest), max(chunkContext, 0)} {
		e := t.edges[d+1]
		at := 0
		for at < len(e)-1 && x > e[at] {
			at++
		}
		i = i*len(e) + at
	}
	if a := t.share[i]; !math.IsNaN(a) {
		return a
	}
	return t.fallback
}

// nearest returns the index of the edge next to x by ratio; 0 is only next to 0.
func nearest(e []float64, x float64) int {
	best := 0
	for i, v := range e {
		if x == v {
			return i
		}
		if v > 0 && x > 0 && (e[best] <= 0 || math.Abs(math.Log(x/v)) < math.Abs(math.Log(x/e[best]))) {
			best = i
		}
	}
	return best
}

// parseEdge reads a bucket label such as "n<=128", "sr<=15%", "kvB<=16k", "kp=0", "kvB>16k" as its upper edge; open buckets are +Inf.
func parseEdge(label string) (float64, error) {
	i := strings.IndexAny(label, "<>=")
	if i < 0 {
		return 0, fmt.Errorf("%w: bucket label %q", ErrTable, label)
	}
	if label[i] == '>' {
		return math.Inf(1), nil
	}
	number := strings.TrimLeft(label[i:], "<=")
	factor := 1.0
	switch {
	case strings.HasSuffix(number, "%"):
		number, factor = strings.TrimSuffix(number, "%"), 0.01
	case strings.HasSuffix(number, "k"):
		number, factor = strings.TrimSuffix(number, "k"), 1024
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: bucket label %q", ErrTable, label)
	}
	return v * factor, nil
}
