package whatif

import "math"

// Collective describes how a group of devices exchanges rows.
type Collective struct {
	Members            int
	LatencyNs          int64
	BandwidthBytesPerS float64          // of one device's link, in each direction
	AllReduce          *CollectiveTable // measured; nil: from latency and bandwidth
}

// collectiveCost is an all-gather, reduce-scatter or all-reduce over rings: each device sends its share of the rows to each of the others in turn.
type collectiveCost struct {
	Collective
	bytesPerRow float64
	passes      float64 // 1 for a gather or scatter, 2 for an all-reduce
	grouped     bool    // the rows are those of the largest rank rather than of this one
}

// Ns implements Cost.
func (c collectiveCost) Ns(sh *Shape) int64 {
	rows := float64(sh.Tokens)
	if c.grouped {
		rows = float64(max(sh.GroupMaxRows, sh.Tokens)) * float64(c.Members)
	}
	if c.AllReduce != nil && c.passes == 2 {
		return c.AllReduce.Ns(rows * c.bytesPerRow)
	}
	share := float64(c.Members-1) / float64(c.Members)
	return max(1, c.LatencyNs+int64(math.Round(c.passes*share*rows*c.bytesPerRow/c.BandwidthBytesPerS*1e9)))
}
