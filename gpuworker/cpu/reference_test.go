package cpu_test

import (
	"math"
	"testing"

	"slicescheduler/gmg"
	"slicescheduler/model"
	"slicescheduler/model/quant"
)

// reference runs a graph's operators by their definition: float64, whole sequences, no pages, no batches, weights dequantised.
type reference struct {
	t *testing.T
	m *model.Model
}

// logits returns the logits of a sequence's last token.
func (r *reference) logits(tokens []int32) []float64 {
	var stream [][]float64
	for stage := range r.m.Graph.Stages {
		tensors := map[int][][]float64{0: stream}
		b := r.m.Graph.Block(stage)
		for i := range b.Operators {
			op := &b.Operators[i]
			if op.Kind == gmg.OpSample {
				continue
			}
			tensors[op.Out[0]] = r.run(stage, op, tensors, tokens)
		}
		if stage == len(r.m.Graph.Stages)-1 {
			for i, op := range b.Operators {
				if op.Kind == gmg.OpHead {
					out := tensors[b.Operators[i].Out[0]]
					return out[len(out)-1]
				}
			}
		}
		stream = tensors[0]
	}
	r.t.Fatal("the graph has no head")
	return nil
}

func (r *reference) weight(stage, index int) (gmg.Weight, []float32) {
	w := r.m.Graph.Block(stage).Weights[index]
	_, host, err := r.m.Weight(stage, w.Name)
	if err != nil {
		r.t.Fatal(err)
	}
	out := make([]float32, w.Rows*w.Cols)
	if err := quant.Dequantize(w.DType, host, out); err != nil {
		r.t.Fatal(err)
	}
	return w, out
}

func (r *reference) run(stage int, op *gmg.Operator, tensors map[int][][]float64, tokens []int32) [][]float64 {
	switch op.Kind {
	case gmg.OpEmbedding:
		w, values := r.weight(stage, op.Weights[0])
		return rows(len(tokens), func(i int) []float64 {
			return row(w.Cols, func(c int) float64 { return float64(values[int(tokens[i])*w.Cols+c]) * float64(op.Attrs.Scale) })
		})
	case gmg.OpNorm:
		return r.norm(stage, op, tensors[op.In[0]])
	case gmg.OpLinear, gmg.OpHead:
		return r.linear(stage, op, tensors[op.In[0]])
	case gmg.OpRoPE:
		return rope(op, tensors[op.In[0]])
	case gmg.OpAttention:
		return attend(op, tensors[op.In[0]])
	case gmg.OpActivation:
		return rows(len(tokens), func(i int) []float64 {
			x := tensors[op.In[0]][i]
			n := len(x) / 2
			return row(n, func(c int) float64 { return activate(op.Attrs.Act, x[c]) * x[n+c] })
		})
	case gmg.OpResidual:
		a, b := tensors[op.In[0]], tensors[op.In[1]]
		return rows(len(tokens), func(i int) []float64 { return row(len(a[i]), func(c int) float64 { return a[i][c] + b[i][c] }) })
	}
	r.t.Fatalf("operator %v", op.Kind)
	return nil
}

func rows(n int, f func(i int) []float64) [][]float64 {
	out := make([][]float64, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

func row(n int, f func(c int) float64) []float64 {
	out := make([]float64, n)
	for c := range out {
		out[c] = f(c)
	}
	return out
}

func activate(a gmg.Activation, x float64) float64 {
	if a == gmg.SiLU {
		return x / (1 + math.Exp(-x))
	}
	return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
}

// norm is RMSNorm of whole rows, or of query heads with the first weight and key heads with the second.
func (r *reference) norm(stage int, op *gmg.Operator, in [][]float64) [][]float64 {
	_, first := r.weight(stage, op.Weights[0])
	rms := func(x []float64, w []float32) []float64 {
		var sum float64
		for _, v := range x {
			sum += v * v
		}
		f := 1 / math.Sqrt(sum/float64(len(x))+float64(op.Attrs.Eps))
		return row(len(x), func(c int) float64 { return x[c] * f * float64(w[c]) })
	}
	if op.Attrs.HeadDim == 0 {
		return rows(len(in), func(i int) []float64 { return rms(in[i], first) })
	}
	_, second := r.weight(stage, op.Weights[1])
	a := op.Attrs
	return rows(len(in), func(i int) []float64 {
		out := append([]float64(nil), in[i]...)
		for h := range a.Heads + a.KVHeads {
			w := first
			if h >= a.Heads {
				w = second
			}
			copy(out[h*a.HeadDim:], rms(in[i][h*a.HeadDim:(h+1)*a.HeadDim], w))
		}
		return out
	})
}

func (r *reference) linear(stage int, op *gmg.Operator, in [][]float64) [][]float64 {
	out := make([][]float64, len(in))
	for _, index := range op.Weights {
		w, values := r.weight(stage, index)
		for i, x := range in {
			for o := range w.Rows {
				var sum float64
				for c, v := range x {
					sum += v * float64(values[o*w.Cols+c])
				}
				if limit := float64(op.Attrs.SoftCap); limit != 0 {
					sum = limit * math.Tanh(sum/limit)
				}
				out[i] = append(out[i], sum)
			}
		}
	}
	return out
}

func rope(op *gmg.Operator, in [][]float64) [][]float64 {
	a := op.Attrs
	return rows(len(in), func(position int) []float64 {
		out := append([]float64(nil), in[position]...)
		for h := range a.Heads + a.KVHeads {
			for i := range a.RoPEDims / 2 {
				angle := float64(position) / float64(a.RoPEScale) * math.Pow(float64(a.RoPEBase), -2*float64(i)/float64(a.RoPEDims))
				if a.RoPEFactor != nil {
					angle /= float64(a.RoPEFactor[i])
				}
				x, y := h*a.HeadDim+2*i, h*a.HeadDim+2*i+1
				if a.RoPEStyle == gmg.RoPEHalves {
					x, y = h*a.HeadDim+i, h*a.HeadDim+i+a.RoPEDims/2
				}
				sin, cos := math.Sincos(angle)
				out[x], out[y] = in[position][x]*cos-in[position][y]*sin, in[position][x]*sin+in[position][y]*cos
			}
		}
		return out
	})
}

func attend(op *gmg.Operator, in [][]float64) [][]float64 {
	a := op.Attrs
	q, kv := a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
	return rows(len(in), func(i int) []float64 {
		out := make([]float64, q)
		for h := range a.Heads {
			kvHead := h / (a.Heads / a.KVHeads)
			first := 0
			if a.Window > 0 {
				first = max(0, i+1-a.Window)
			}
			weights, sum := make([]float64, i+1), 0.0
			for j := first; j <= i; j++ {
				var dot float64
				for d := range a.HeadDim {
					dot += in[i][h*a.HeadDim+d] * in[j][q+kvHead*a.HeadDim+d]
				}
				weights[j] = math.Exp(dot * float64(a.Scale))
				sum += weights[j]
			}
			for j := first; j <= i; j++ {
				for d := range a.HeadDim {
					out[h*a.HeadDim+d] += weights[j] / sum * in[j][q+kv+kvHead*a.HeadDim+d]
				}
			}
		}
		return out
	})
}
