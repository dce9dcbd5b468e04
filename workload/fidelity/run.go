// Package fidelity compares recorded runs of real inference servers with the simulator.
package fidelity

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"slicescheduler/workload/costs"
)

// ErrRun is returned for a recording that can't be read.
var ErrRun = errors.New("invalid recording")

// Run is one recorded run of a server.
type Run struct {
	Name     string
	Engine   Engine
	Workload []Asked
	Answers  []Answered
	Series   []Sample
	// Published is the published simulator's mean or percentile by "metric statistic" ("TTFT Mean"), in milliseconds; empty where there is none.
	Published map[string]float64
}

// Engine is what engine.json says of the server.
type Engine struct {
	Model   string
	Version string
	Kwargs  struct {
		TensorParallel int  `json:"tensor_parallel_size"`
		DataParallel   int  `json:"data_parallel_size"`
		ExpertParallel bool `json:"enable_expert_parallel"`
		MaxSequences   int  `json:"max_num_seqs"`
		MaxBatchTokens int  `json:"max_num_batched_tokens"`
		MaxModelLength int  `json:"max_model_len"`
	}
	KVBlocks       int     // of one rank; 0: not recorded
	BlockTokens    int     // 0: not recorded
	PrefixReuse    bool    // true unless recorded otherwise
	AsyncSchedule  bool    // true unless recorded otherwise
	ReserveFull    bool    // true unless recorded otherwise
	Hardware       string  // name of its cost tables
	MemoryBytes    int64   // of one device; 0: not recorded
	Utilization    float64 // share of it that the server may use
	LinkBandwidth  float64 // bytes/s
	LinkLatencyNs  int64
	MaxChunkTokens int
}

// Asked is a row of the workload.
type Asked struct {
	ArrivalNs    int64   `json:"arrival_ns"`
	PromptTokens int     `json:"input_tokens"`
	OutputTokens int     `json:"output_tokens"`
	Blocks       []int64 `json:"blocks"`
}

// Answered is what the server did with a request; times are seconds, of which arrival is in another clock.
type Answered struct {
	ArrivalS   float64 `json:"arrival_time"`
	QueuedS    float64 `json:"queued_ts"`
	ScheduledS float64 `json:"scheduled_ts"`
	FirstS     float64 `json:"first_token_ts"`
	LastS      float64 `json:"last_token_ts"`
	Output     int     `json:"output_toks"`
}

// Sample is a row of the time series: the state at the end of a second.
type Sample struct {
	AtS, KVPct       float64
	Running, Waiting int
}

// maxLine bounds a line of JSON.
const maxLine = 64 << 20

// Load reads a recording's folder.
func Load(dir string) (*Run, error) {
	r := &Run{Name: filepath.Base(filepath.Clean(dir)), Published: map[string]float64{}}
	if err := r.loadEngine(filepath.Join(dir, "engine.json")); err != nil {
		return nil, err
	}
	var err error
	if r.Workload, err = jsonLines[Asked](filepath.Join(dir, "workload.jsonl")); err != nil {
		return nil, err
	}
	if r.Answers, err = jsonLines[Answered](filepath.Join(dir, "vllm-requests.jsonl")); err != nil {
		return nil, err
	}
	if len(r.Answers) != len(r.Workload) || len(r.Workload) == 0 {
		return nil, fmt.Errorf("%w: %s: %d requests and %d answers, want as many and at least one", ErrRun, dir, len(r.Workload), len(r.Answers))
	}
	if err := r.loadSeries(filepath.Join(dir, "vllm-timeseries.csv")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if err := r.loadPublished(filepath.Join(dir, "published-simulator.txt")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return r, nil
}

func jsonLines[T any](path string) ([]T, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(nil, maxLine)
	var out []T
	for line := 1; in.Scan(); line++ {
		if strings.TrimSpace(in.Text()) == "" {
			continue
		}
		var v T
		if err := json.Unmarshal(in.Bytes(), &v); err != nil {
			return nil, fmt.Errorf("%w: %s, line %d: %v", ErrRun, path, line, err)
		}
		out = append(out, v)
	}
	return out, in.Err()
}

// engineFile is the part of engine.json that matters here.
type engineFile struct {
	Model   string          `json:"model"`
	Version string          `json:"vllm_version"`
	Kwargs  json.RawMessage `json:"engine_kwargs"`
	KV      *struct {
		Blocks      int     `json:"num_gpu_blocks"`
		BlockTokens int     `json:"block_size"`
		Utilization float64 `json:"gpu_memory_utilization"`
		Prefix      *bool   `json:"enable_prefix_caching"`
	} `json:"kv_cache"`
	Hardware *struct {
		Memory int64 `json:"device_total_memory_bytes"`
	} `json:"hardware"`
	Cluster struct {
		LinkGBs   float64 `json:"link_bw"`
		LatencyNs int64   `json:"link_latency"`
		Nodes     []struct {
			Instances []struct {
				Hardware string `json:"hardware"`
				Memory   struct {
					GiB         float64 `json:"mem_size"`
					Utilization float64 `json:"mem_util"`
				} `json:"npu_mem"`
			} `json:"instances"`
		} `json:"nodes"`
	} `json:"cluster"`
	Scheduler struct {
		Async   *bool `json:"async_scheduling"`
		Reserve *bool `json:"scheduler_reserve_full_isl"`
		Chunk   int   `json:"long_prefill_token_threshold"`
	} `json:"scheduler_config"`
}

func (r *Run) loadEngine(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var f engineFile
	if err := json.Unmarshal(data, &f); err != nil {
		return fmt.Errorf("%w: %s: %v", ErrRun, path, err)
	}
	e := &r.Engine
	if err := json.Unmarshal(f.Kwargs, &e.Kwargs); err != nil {
		return fmt.Errorf("%w: %s: engine_kwargs: %v", ErrRun, path, err)
	}
	e.Model, e.Version = f.Model, f.Version
	e.PrefixReuse, e.AsyncSchedule, e.ReserveFull = true, orTrue(f.Scheduler.Async), orTrue(f.Scheduler.Reserve)
	e.MaxChunkTokens = f.Scheduler.Chunk
	if len(f.Cluster.Nodes) == 0 || len(f.Cluster.Nodes[0].Instances) == 0 {
		return fmt.Errorf("%w: %s: cluster names no instance, so the hardware is unknown", ErrRun, path)
	}
	one := f.Cluster.Nodes[0].Instances[0]
	e.Hardware, e.Utilization = one.Hardware, costs.DefaultUtilization
	e.LinkBandwidth, e.LinkLatencyNs = f.Cluster.LinkGBs*1e9, f.Cluster.LatencyNs
	if f.KV != nil {
		e.KVBlocks, e.BlockTokens, e.Utilization, e.PrefixReuse = f.KV.Blocks, f.KV.BlockTokens, f.KV.Utilization, orTrue(f.KV.Prefix)
	}
	if f.Hardware != nil && f.Hardware.Memory > 0 {
		e.MemoryBytes = f.Hardware.Memory
	}
	return nil
}

func orTrue(b *bool) bool { return b == nil || *b }

func (r *Run) loadSeries(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	in := csv.NewReader(f)
	header, err := in.Read()
	if err != nil {
		return fmt.Errorf("%w: %s: %v", ErrRun, path, err)
	}
	column := map[string]int{}
	for i, h := range header {
		column[strings.TrimSpace(strings.TrimPrefix(h, "\ufeff"))] = i
	}
	for line := 2; ; line++ {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %v", ErrRun, path, err)
		}
		v := map[string]float64{}
		for _, name := range []string{"t", "running", "waiting", "kv_cache_pct"} {
			i, ok := column[name]
			if !ok {
				return fmt.Errorf("%w: %s has no column %q", ErrRun, path, name)
			}
			if v[name], err = strconv.ParseFloat(row[i], 64); err != nil {
				return fmt.Errorf("%w: %s, line %d: %s is %q", ErrRun, path, line, name, row[i])
			}
		}
		r.Series = append(r.Series, Sample{AtS: v["t"], Running: int(v["running"]), Waiting: int(v["waiting"]), KVPct: v["kv_cache_pct"]})
	}
}

func (r *Run) loadPublished(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for _, line := range strings.Split(string(data), "\n") {
		f := strings.Fields(line)
		if len(f) != 5 {
			continue
		}
		if v, err := strconv.ParseFloat(f[3], 64); err == nil {
			r.Published[f[0]+" "+f[1]] = v
		}
	}
	return nil
}
