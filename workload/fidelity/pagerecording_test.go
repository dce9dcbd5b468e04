package fidelity

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// madeUp is a small recording of a server that never was, and profiles its cost tables. Both lie under testdata for other packages' tests too.
const (
	madeUp         = "testdata/made-up"
	madeUpProfiles = "testdata/profiles"
)

// madeUpFiles makes the recording: ten requests a quarter of a second apart, whose first token took 100 ms and the others 10 ms each.
func madeUpFiles() map[string]string {
	var asked, answered, series strings.Builder
	const queuedAt, output = 500.0, 11
	for i := range 10 {
		arrival := 0.25 * float64(i)
		prompt := 200 + 100*i
		fmt.Fprintf(&asked, "{\"arrival_ns\":%d,\"input_tokens\":%d,\"output_tokens\":%d}\n", int64(arrival*1e9), prompt, output)
		queued := queuedAt + arrival
		fmt.Fprintf(&answered, "{\"arrival_time\":%.3f,\"queued_ts\":%.3f,\"scheduled_ts\":%.3f,\"first_token_ts\":%.3f,\"last_token_ts\":%.3f,\"output_toks\":%d}\n",
			1e6+arrival, queued, queued+0.01, queued+0.1, queued+0.2, output)
	}
	series.WriteString("t,running,waiting,kv_cache_pct\r\n")
	for at := 1; at <= 3; at++ {
		fmt.Fprintf(&series, "%d.0,%d,0,0.0\r\n", at, 1-at/3)
	}
	const path = madeUpProfiles + "/A100/meta-llama/Llama-3.1-8B/bf16/tp1/"
	dense := "layer,tokens,time_us\n"
	for _, op := range []string{"embedding", "layernorm", "qkv_proj", "rotary_emb", "o_proj", "gate_up_proj", "act_fn", "down_proj", "final_layernorm"} {
		dense += op + ",1,20\n" + op + ",2048,500\n"
	}
	return map[string]string{
		madeUp + "/engine.json": `{
 "model": "meta-llama/Llama-3.1-8B",
 "vllm_version": "0.19.0",
 "engine_kwargs": {"max_num_seqs": 16, "max_num_batched_tokens": 2048, "max_model_len": 4096},
 "kv_cache": {"num_gpu_blocks": 1000, "block_size": 16, "gpu_memory_utilization": 0.9},
 "cluster": {"nodes": [{"instances": [{"hardware": "A100"}]}]}
}
`,
		madeUp + "/workload.jsonl":          asked.String(),
		madeUp + "/vllm-requests.jsonl":     answered.String(),
		madeUp + "/vllm-timeseries.csv":     series.String(),
		madeUp + "/published-simulator.txt": "Metric vLLM Sim Diff%\nTTFT Mean 100.0 90.0 -10.0%\nLatency P99 200.0 220.0 +10.0%\n",
		path + "dense.csv":                  dense,
		path + "per_sequence.csv":           "layer,sequences,time_us\nlm_head,1,400\nlm_head,16,500\nsampler,1,50\nsampler,16,60\n",
	}
}

// TestMadeUpRecording sees that the files under testdata are those made here; SLICER_UPDATE=1 writes them anew.
func TestMadeUpRecording(t *testing.T) {
	for path, want := range madeUpFiles() {
		if os.Getenv("SLICER_UPDATE") != "" {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is not as made here (%v); SLICER_UPDATE=1 writes it", path, err)
		}
	}
}
