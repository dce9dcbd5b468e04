package miniature_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"slicescheduler/gmg"
	"slicescheduler/model"
	"slicescheduler/model/miniature"
	"slicescheduler/model/quant"
)

func TestEveryFamilyAndTypeOpens(t *testing.T) {
	for _, arch := range []string{"llama", "gemma3"} {
		for dtype := gmg.F32; dtype <= gmg.Q6_K; dtype++ {
			t.Run(fmt.Sprintf("%s/%d", arch, dtype), func(t *testing.T) {
				spec := miniature.Default()
				spec.Arch, spec.DType, spec.Layers = arch, dtype, 1
				if dtype.BlockSize() == 256 {
					spec.Hidden, spec.FFN, spec.Heads, spec.KVHeads, spec.HeadDim = 256, 256, 4, 2, 64
				}
				checkMiniature(t, spec)
			})
		}
	}
}

func checkMiniature(t *testing.T, spec miniature.Spec) {
	data, err := miniature.Make(spec)
	if err != nil {
		t.Fatal(err)
	}
	again, err := miniature.Make(spec)
	if err != nil || !bytes.Equal(data, again) {
		t.Fatalf("the same specification gave other bytes (%v)", err)
	}
	m, err := model.OpenBytes("miniature", data)
	if err != nil {
		t.Fatal(err)
	}
	for stage := range m.Graph.Stages {
		for _, w := range m.Graph.Block(stage).Weights {
			got, bytes, err := m.Weight(stage, w.Name)
			if err != nil || int64(len(bytes)) != got.Bytes {
				t.Fatalf("stage %d, %s: %d bytes of %d, %v", stage, w.Name, len(bytes), got.Bytes, err)
			}
			values := make([]float32, got.Rows*got.Cols)
			if err := quant.Dequantize(got.DType, bytes, values); err != nil {
				t.Fatal(err)
			}
			for i, x := range values {
				if x != x || x > 8 || x < -8 {
					t.Fatalf("stage %d, %s: weight %d is %g", stage, w.Name, i, x)
				}
			}
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestBadSpecificationsAreRefused(t *testing.T) {
	for name, change := range map[string]func(*miniature.Spec){
		"architecture": func(s *miniature.Spec) { s.Arch = "gpt5" },
		"layers":       func(s *miniature.Spec) { s.Layers = 0 },
		"heads":        func(s *miniature.Spec) { s.Heads = 3 },
		"blocks":       func(s *miniature.Spec) { s.Hidden = 33 },
	} {
		spec := miniature.Default()
		change(&spec)
		if _, err := miniature.Make(spec); !errors.Is(err, miniature.ErrSpec) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
