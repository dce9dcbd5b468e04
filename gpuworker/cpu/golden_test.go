package cpu_test

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"slicescheduler/gpuworker/cpu"
	"slicescheduler/gpuworker/enginetest"
	"slicescheduler/model"
)

// Tolerances of the goldens' README for activations rounded to int8 against a float32 reference.
const (
	rmsLimit       = 0.36
	largestLimit   = 1.7
	klLimit        = 0.015
	decisiveMargin = 0.25 // below it, the greedy token may differ, and with it all that follow
)

func engine(t testing.TB, m *model.Model) *enginetest.Engine {
	return enginetest.New(t, m, enginetest.Config{Devices: open(t, 1, cpu.Config{}), KVBlocks: 64, MaxRows: 512, MaxLogits: 1})
}

type embeddedGolden struct {
	Prompt       []int32      `json:"prompt_ids"`
	Continuation []int32      `json:"continuation_ids"`
	Margin       float64      `json:"smallest_margin"`
	Top5         [][2]float64 `json:"top5"`
}

func TestEmbeddedModelsAgainstGoldens(t *testing.T) {
	for _, name := range []string{"tiny-guide", "tiny-story"} {
		t.Run(name, func(t *testing.T) {
			m := embeddedModel(t, name)
			e := engine(t, m)
			largest := 0.0
			for i, g := range readLines[embeddedGolden](t, filepath.Join("..", "..", "model", "embedded", "golden", name+".greedy.jsonl")) {
				s := e.Add(g.Prompt)
				s.Keep = true
				e.Generate(s, 1, 512)
				for _, top := range g.Top5 {
					largest = max(largest, math.Abs(float64(s.Last[int(top[0])])-top[1]))
				}
				e.Generate(s, len(g.Continuation), 512)
				for j, want := range g.Continuation {
					if got := s.Answer()[j]; got != want {
						if g.Margin >= decisiveMargin {
							t.Errorf("chat %d: token %d is %d, wants %d; the smallest margin is %.2f", i, j, got, want, g.Margin)
						}
						break
					}
				}
				e.Drop(s)
			}
			t.Logf("largest difference of the five best logits: %.3f", largest)
			if largest > largestLimit {
				t.Errorf("logits differ by up to %.3f", largest)
			}
		})
	}
}

type greedyGolden struct {
	IDs     []int32      `json:"ids"`
	Top5    [][2]float64 `json:"top5"`
	Greedy  []int32      `json:"greedy_ids"`
	Margins []float64    `json:"greedy_margins"`
}

// equalWhileDecisive returns the first token at which an answer parts from the golden although the reference was sure of it, -1 when none does, and how many are
// equal.
func equalWhileDecisive(answer []int32, g greedyGolden) (wrong, equal int) {
	for i, want := range g.Greedy {
		if i == len(answer) {
			break
		}
		if answer[i] != want {
			if g.Margins[i] >= decisiveMargin {
				return i, i
			}
			return -1, i
		}
		if g.Margins[i] < decisiveMargin {
			return -1, i + 1
		}
	}
	return -1, len(answer)
}

func TestSmolAgainstFloat32Reference(t *testing.T) {
	golden := readLines[greedyGolden](t, sharedData(t, "golden", "smollm2-135m", "greedy_float32.jsonl"))
	reference := readVectors(t, sharedData(t, "golden", "smollm2-135m", "last_logits_float32.npy"), len(golden))
	m := realModel(t, smolFile)
	e := engine(t, m)
	tokens := 48
	if testing.Short() {
		tokens = 8
	}
	var squares, largest, worstKL float64
	for i, g := range golden {
		s := e.Add(g.IDs)
		s.Keep = true
		e.Generate(s, 1, 512)
		sum, most := difference(s.Last, reference[i])
		squares, largest, worstKL = squares+sum, max(largest, most), max(worstKL, klDivergence(reference[i], s.Last))
		e.Generate(s, tokens, 512)
		if wrong, _ := equalWhileDecisive(s.Answer(), g); wrong >= 0 {
			t.Errorf("prompt %d: token %d is %d, wants %d with a margin of %.2f", i, wrong, s.Answer()[wrong], g.Greedy[wrong], g.Margins[wrong])
		}
		e.Drop(s)
	}
	rms := math.Sqrt(squares / float64(len(golden)*m.Graph.Vocab))
	t.Logf("rms %.4f, largest %.3f, KL at most %.5f", rms, largest, worstKL)
	if rms > rmsLimit || largest > largestLimit || worstKL > klLimit {
		t.Errorf("beyond rms %v, largest %v, KL %v", rmsLimit, largestLimit, klLimit)
	}
}

func TestGemmaAgainstPeer(t *testing.T) {
	golden := readLines[greedyGolden](t, sharedData(t, "golden", "gemma3-270m", "greedy_llamacpp.jsonl"))
	m := realModel(t, gemmaFile)
	e := engine(t, m)
	first, largest := 0, 0.0
	for _, g := range golden {
		s := e.Add(g.IDs)
		s.Keep = true
		e.Generate(s, 1, 512)
		for _, top := range g.Top5 {
			largest = max(largest, math.Abs(float64(s.Last[int(top[0])])-top[1]))
		}
		if s.Answer()[0] == g.Greedy[0] {
			first++
		} else if g.Margins[0] >= 2*decisiveMargin {
			t.Errorf("first token %d, the peer's is %d with a margin of %.2f", s.Answer()[0], g.Greedy[0], g.Margins[0])
		}
		e.Drop(s)
	}
	t.Logf("first token equal on %d of %d, the five best logits within %.3f of the peer's", first, len(golden), largest)
	// Both round activations to int8 in their own way, so their differences from the truth may add up.
	if largest > 2*largestLimit {
		t.Errorf("logits differ by up to %.3f", largest)
	}
}

func difference(a, b []float32) (squares, largest float64) {
	for i := range a {
		d := math.Abs(float64(a[i]) - float64(b[i]))
		squares += d * d
		largest = max(largest, d)
	}
	return squares, largest
}

// klDivergence is the sum of p*log(p/q) over the softmaxes of two rows of logits.
func klDivergence(p, q []float32) float64 {
	logSum := func(x []float32) float64 {
		largest, sum := float64(math.Inf(-1)), 0.0
		for _, v := range x {
			largest = max(largest, float64(v))
		}
		for _, v := range x {
			sum += math.Exp(float64(v) - largest)
		}
		return largest + math.Log(sum)
	}
	np, nq := logSum(p), logSum(q)
	var kl float64
	for i := range p {
		lp := float64(p[i]) - np
		kl += math.Exp(lp) * (lp - (float64(q[i]) - nq))
	}
	return kl
}

// readVectors reads n rows from a NumPy file of float32 in C order.
func readVectors(t testing.TB, path string, n int) [][]float32 {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	body := data[10+int(binary.LittleEndian.Uint16(data[8:])):]
	width := len(body) / 4 / n
	rows := make([][]float32, n)
	for i := range rows {
		rows[i] = make([]float32, width)
		for j := range rows[i] {
			rows[i][j] = math.Float32frombits(binary.LittleEndian.Uint32(body[4*(i*width+j):]))
		}
	}
	return rows
}
