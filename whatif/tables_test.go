package whatif

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slicescheduler/gmg"
)

func profile(t *testing.T, parts ...string) *os.File {
	dir := os.Getenv("SLICER_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared")
	}
	f, err := os.Open(filepath.Join(append([]string{dir, "profiles"}, parts...)...))
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("no cost tables under %s; set SLICER_DATA to where they are", dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestCurve(t *testing.T) {
	c, err := newCurve([]point{{4, 40}, {1, 10}, {2, 30}})
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[int]int64{0: 10, 1: 10, 2: 30, 3: 35, 4: 40, 5: 45, 10: 70} {
		if got := c.at(at); got != want {
			t.Errorf("at %d: %d ns, want %d", at, got, want)
		}
	}
}

// grid is attention that is linear in everything, so interpolation must be exact between and beyond its points.
func grid() []attentionRow {
	var rows []attentionRow
	for _, chunk := range []int{0, 16, 64, 256} {
		for _, decodes := range []int{0, 1, 8, 64} {
			if chunk == 0 && decodes == 0 {
				continue
			}
			for _, context := range []int{0, 64, 512} {
				for _, kv := range []int{16, 256, 4096} {
					if chunk == 0 && context > 0 || decodes == 0 && kv > 16 {
						continue
					}
					kvAt := kv
					if decodes == 0 {
						kvAt = 0
					}
					rows = append(rows, attentionRow{chunk, context, decodes, kvAt, exactAttention(float64(chunk), float64(context), float64(decodes), float64(kvAt))})
				}
			}
		}
	}
	return rows
}

func exactAttention(chunk, context, decodes, kv float64) float64 {
	return 1000 + 2*chunk + chunk*context/8 + decodes*kv/4
}

func TestAttentionInterpolates(t *testing.T) {
	c, err := newAttention(grid(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range [][4]float64{{0, 0, 5, 100}, {0, 0, 64, 4096}, {40, 100, 0, 0}, {40, 0, 20, 1000}, {100, 300, 30, 2000}, {300, 600, 90, 5000}} {
		got, want := c.at(x[0], x[1], x[2], x[3]), exactAttention(x[0], x[1], x[2], x[3])
		if math.Abs(got-want) > 1e-6*want {
			t.Errorf("chunk %g over %g, %g decodes over %g: %.3f, want %.3f", x[0], x[1], x[2], x[3], got, want)
		}
	}
}

func TestKernelTail(t *testing.T) {
	k := DecodeKernel{Multiprocessors: 10, BandwidthBytesPerS: 1e9, KVHeads: 1, BytesPerToken: 100, NsPerToken: 400, MixedFactor: 2}
	// Four sequences read as fast as the device: 1e9 x 400 / 1e9 / 100 = 4. Of 20 sequences of 10 tokens and one of 110 the level is 0.9 x 31: 82.1 tokens of one
	// sequence alone cost 3/4 of 400 ns each beyond what the whole device would take.
	sh := Shape{Decodes: 21, DecodeContext: 310}
	sh.keep(110)
	for range 20 {
		sh.keep(10)
	}
	if got := k.tail(&sh); math.Abs(got-82.1*0.75*400) > 1e-6 {
		t.Errorf("tail of %g ns, want %g", got, 82.1*0.75*400)
	}
	few := Shape{Decodes: 15, DecodeContext: 250} // fewer than 0.8 x 2 x 10: keys are split, no tail
	few.keep(110)
	if got := k.tail(&few); got != 0 {
		t.Errorf("tail of %g ns with split keys", got)
	}
}

func TestTablesName(t *testing.T) {
	for name, f := range map[string]TableFiles{
		`dense has no column "tokens"`: {Dense: strings.NewReader("layer,rows,time_us\nx,1,2\n")},
		"dense, line 3: column 3":      {Dense: strings.NewReader("layer,tokens,time_us\nx,1,2\nx,2,soon\n")},
		"attention, line 2: column 1":  {Attention: strings.NewReader("prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n-1,0,0,0,1\n")},
		"bucket label":                 {Skew: strings.NewReader("pc,n_label,skew_rate_label,kv_big_label,kp_label,alpha,n_samples\n0,many,sr<=5%,kvB<=1k,kp=0,0.1,3\n")},
	} {
		if _, err := ReadTables(f); !errors.Is(err, ErrTable) || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want an ErrTable that says %q", err, name)
		}
	}
}

func TestReadVidur(t *testing.T) {
	tables, err := ReadVidur(profile(t, "vidur", "a100", "meta-llama", "Llama-2-7b-hf", "mlp.csv"), 2)
	if err != nil {
		t.Fatal(err)
	}
	a, err := FindArchitecture("Llama-2-7b-hf")
	if err != nil {
		t.Fatal(err)
	}
	h, err := FindHardware("A100")
	if err != nil {
		t.Fatal(err)
	}
	all, err := ReadCollective(profile(t, "vidur", "network", "a100_dgx", "all_reduce.csv"), "all_reduce", 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	g := a.Graph(2)
	p, err := Compile(g, g.Whole(), Source(tables, ExpertGroup{}, Roofline{FLOPS: h.FLOPS, BandwidthBytesPerS: h.BandwidthBytesPerS, LaunchNs: 3000}),
		Parallelism{Tensor: Collective{Members: 2, AllReduce: all}})
	if err != nil {
		t.Fatal(err)
	}
	// A decode of one sequence reads the half model's 6.6 GB once: at 2 TB/s at least 3.3 ms, and not many times that.
	sh := Shape{Tokens: 1, Logits: 1, Decodes: 1, DecodeContext: 500, DecodeMax: 500, DecodeMin: 500}
	ns := make([]int64, p.distinct())
	if total := p.times([]Shape{sh}, ns); total < 3_300_000 || total > 20_000_000 {
		t.Errorf("a decode takes %d ns", total)
	}
	if _, err := ReadVidur(profile(t, "vidur", "a100", "meta-llama", "Llama-2-7b-hf", "mlp.csv"), 3); !errors.Is(err, ErrTable) {
		t.Errorf("3 workers were not measured, got %v", err)
	}
}

// Architectures must add up to the sizes that their names give.
func TestArchitectureSizes(t *testing.T) {
	for name, want := range map[string]float64{"Llama-3.1-8B": 8.03e9, "Qwen3-32B": 32.8e9, "Qwen3-30B-A3B-Instruct-2507": 30.5e9, "Llama-3.1-70B": 70.6e9, "Llama-2-7b-hf": 6.74e9} {
		a, err := FindArchitecture(name)
		if err != nil {
			t.Fatal(err)
		}
		g := a.Graph(1)
		if got := float64(g.WeightBytes(g.Whole())) / 2; math.Abs(got/want-1) > 0.01 {
			t.Errorf("%s has %.3g parameters, want %.3g", name, got, want)
		}
	}
	a, _ := FindArchitecture("Llama-3.1-8B")
	g := a.Graph(1)
	if got := g.KVBytesPerToken(gmg.Range{From: 0, To: len(g.Stages)}); got != 131072 {
		t.Errorf("%d bytes of KV a token, want 131072", got)
	}
}
