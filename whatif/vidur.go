package whatif

import (
	"fmt"
	"io"
	"math"
)

// vidurNames maps operators to the column names of Vidur's profiles (Agrawal et al., "Vidur", MLSys 2024).
func vidurNames() map[string]string {
	return map[string]string{
		"embedding": "emb", "layernorm": "input_layernorm", "qkv_proj": "attn_pre_proj", "rotary_emb": "attn_rope", "o_proj": "attn_post_proj",
		"gate_up_proj": "mlp_up_proj", "act_fn": "mlp_act", "down_proj": "mlp_down_proj",
	}
}

// ReadVidur reads the weight operators of one tensor-parallel degree from Vidur's mlp.csv (median milliseconds by num_tokens and
// num_tensor_parallel_workers). Attention and the head are not in it and take the roofline.
func ReadVidur(mlp io.Reader, tp int) (*Tables, error) {
	columns := []string{"num_tokens", "num_tensor_parallel_workers"}
	var names []string
	for name, column := range vidurNames() {
		names = append(names, name)
		columns = append(columns, "time_stats."+column+".median")
	}
	points := map[string][]point{}
	err := eachRow("mlp", mlp, columns, func(r *row) {
		if int(r.float(1)) != tp {
			return
		}
		for i, name := range names {
			points[name] = append(points[name], point{int(r.float(0)), r.float(2+i) * 1e6})
		}
	})
	if err != nil {
		return nil, err
	}
	if len(points) == 0 {
		return nil, fmt.Errorf("%w: mlp has no row of %d tensor-parallel workers", ErrTable, tp)
	}
	t := &Tables{dense: map[string]curve{}}
	for name, p := range points {
		if t.dense[name], err = newCurve(p); err != nil {
			return nil, fmt.Errorf("mlp, %s: %w", name, err)
		}
	}
	return t, nil
}

// CollectiveTable is a measured time of a collective or transfer over its bytes.
type CollectiveTable struct{ overKiB curve }

// ReadCollective reads Vidur's all_reduce.csv or send_recv.csv (median milliseconds by size in bytes) for a number of workers, of which devicesPerNode
// sit in one host.
func ReadCollective(in io.Reader, kind string, workers, devicesPerNode int) (*CollectiveTable, error) {
	var points []point
	err := eachRow(kind, in, []string{"num_workers", "devices_per_node", "size", "time_stats." + kind + ".median"}, func(r *row) {
		if r.int(0) == workers && r.int(1) == devicesPerNode {
			points = append(points, point{r.int(2) / 1024, r.float(3) * 1e6})
		}
	})
	if err != nil {
		return nil, err
	}
	if len(points) == 0 {
		return nil, fmt.Errorf("%w: %s has no row of %d workers, %d to a host", ErrTable, kind, workers, devicesPerNode)
	}
	c, err := newCurve(points)
	return &CollectiveTable{c}, err
}

// Ns returns the time for a number of bytes.
func (t *CollectiveTable) Ns(bytes float64) int64 { return t.overKiB.at(int(math.Round(bytes / 1024))) }
