package replay

import (
	"cmp"
	"slices"

	"slicescheduler/batching"
	"slicescheduler/whatif"
	"slicescheduler/workload"
)

// aloneCurve is what requests take alone on an idle device, at some lengths.
type aloneCurve struct {
	ttft, tpot []point
}

type point struct {
	tokens int
	ns     int64
}

// at interpolates, and goes on straight beyond the ends.
func at(curve []point, tokens int) int64 {
	i, _ := slices.BinarySearchFunc(curve, tokens, func(p point, n int) int { return cmp.Compare(p.tokens, n) })
	i = min(max(i, 1), len(curve)-1)
	a, b := curve[i-1], curve[i]
	return max(0, a.ns+int64(float64(b.ns-a.ns)*float64(tokens-a.tokens)/float64(b.tokens-a.tokens)))
}

// request returns what a request takes alone: its TPOT is that at the context in the middle of its answer.
func (c *aloneCurve) request(promptTokens, outputTokens int) workload.Alone {
	return workload.Alone{TTFTNs: at(c.ttft, promptTokens), TPOTNs: at(c.tpot, promptTokens+outputTokens/2)}
}

// aloneAnswer is how many tokens the requests that are timed answer with.
const aloneAnswer = 17

// aloneLengths are the prompts that are timed.
func aloneLengths(contextTokens int) []int {
	var out []int
	for _, n := range []int{1, 32, 64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152, 65536, 98304, 131072} {
		if n+aloneAnswer <= contextTokens {
			out = append(out, n)
		}
	}
	return out
}

// alone times single requests on an otherwise idle device that has all the memory they want, from costs as measured.
func (c *costStore) alone(h whatif.Hardware, model string, maxSequences int) (*aloneCurve, error) {
	key := engineKey{h.Name, model, maxSequences}
	c.mu.Lock()
	curve, ok := c.curves[key]
	c.mu.Unlock()
	if ok {
		return curve, nil
	}
	g, err := c.graph(model)
	if err != nil {
		return nil, err
	}
	p, err := c.program(h, programKey{sourceKey{h.Name, model, maxSequences, asMeasured, 0, -1}, g.Whole()})
	if err != nil {
		return nil, err
	}
	curve = &aloneCurve{}
	for _, n := range aloneLengths(g.ContextTokens) {
		lane := whatif.LaneSpec{
			Engine: c.engine(h, maxSequences),
			Batching: batching.Config{
				KVBlocks: n/batching.DefaultBlockTokens + 3, MaxSequences: maxSequences, AdmitWhole: true, CountOnly: true, InFlight: 2,
				Overlap: batching.OverlapAll, Order: batching.OrderStrict,
			},
			Ranks: []whatif.RankSpec{{Slices: []whatif.SliceSpec{{Program: p}}}},
		}
		s, err := whatif.New(&whatif.Spec{
			Devices: []whatif.DeviceSpec{{ID: "alone"}}, KeepRecords: true,
			Tenants: []whatif.TenantSpec{{ID: model, Lanes: []whatif.LaneSpec{lane}, Requests: []whatif.Request{{PromptTokens: n, OutputTokens: aloneAnswer}}}},
		}, whatif.Fast)
		if err != nil {
			return nil, err
		}
		s.Drain()
		r := s.Records(0)[0]
		curve.ttft = append(curve.ttft, point{n, r.FirstNs})
		curve.tpot = append(curve.tpot, point{n + aloneAnswer/2, (r.LastNs - r.FirstNs) / (aloneAnswer - 1)})
	}
	c.mu.Lock()
	c.curves[key] = curve
	c.mu.Unlock()
	return curve, nil
}
