package whatif

import (
	"fmt"
	"strings"

	"slicescheduler/gmg"
)

// Hardware is what is known of a kind of accelerator and of the hosts it is sold in. Peaks are data sheets'; the rest was measured, see FINDINGS.md.
type Hardware struct {
	Name               string
	MemoryBytes        int64 // as CUDA reports it, somewhat below the name
	BandwidthBytesPerS float64
	FLOPS              float64 // dense, 16 bits
	Multiprocessors    int
	NsPerToken         float64    // DecodeKernel.NsPerToken; 0: the default
	MixedFactor        float64    // DecodeKernel.MixedFactor; 0: the default
	TableScale         float64    // serving against its own cost tables; 0: 1
	Host               HostFigure // what an engine on such a host adds to its kernels; zero where nobody measured it
	Peers              Collective // how several of them exchange rows within a host; zero where nobody measured it
}

// HostFigure are an engine's own times on a kind of host.
type HostFigure struct {
	DecodeStepNs, PrefillStepNs, PrefillLayerNs int64
	ColdNs                                      int64 // the launch of a server's first step, see LaneSpec.ColdNs
}

const gib = 1 << 30

// HardwareKinds are the kinds with known figures.
func HardwareKinds() []Hardware {
	return []Hardware{
		{Name: "RTX4090", MemoryBytes: 25_250_627_584, BandwidthBytesPerS: 1008e9, FLOPS: 165e12, Multiprocessors: 128, TableScale: fitted4090Scale,
			Host: HostFigure{ColdNs: cold4090Ns}, Peers: pciePeers()},
		{Name: "RTXPRO6000", MemoryBytes: 9497 * gib / 100, BandwidthBytesPerS: 1597e9, FLOPS: 500e12, Multiprocessors: 188,
			Host:  HostFigure{DecodeStepNs: fittedPRO6000DecodeNs, PrefillLayerNs: fittedPRO6000PrefillLayerNs, ColdNs: coldPRO6000Ns},
			Peers: pciePeers()},
		{Name: "A100", MemoryBytes: 80 * gib, BandwidthBytesPerS: 2039e9, FLOPS: 312e12, Multiprocessors: 108},
		{Name: "H100", MemoryBytes: 80 * gib, BandwidthBytesPerS: 3350e9, FLOPS: 989e12, Multiprocessors: 132},
		{Name: "H200", MemoryBytes: 141 * gib, BandwidthBytesPerS: 4800e9, FLOPS: 989e12, Multiprocessors: 132},
	}
}

// pciePeers is assumed, not fitted: boards without a link of their own exchange through host memory at some 20 GB/s, and a collective of two starts in 10 us.
func pciePeers() Collective { return Collective{LatencyNs: 10_000, BandwidthBytesPerS: 20e9} }

// Figures fitted to recorded runs of vLLM 0.19.
const (
	fitted4090Scale             = 0.9825
	fittedPRO6000DecodeNs       = 800_000
	fittedPRO6000PrefillLayerNs = 185_000
	fittedNsPerToken            = 32
	fittedMixedFactor           = 1.7
	cold4090Ns                  = 387_000_000 // measured, not fitted
	coldPRO6000Ns               = 80_000_000  // measured, not fitted
)

// FindHardware returns a kind by name; case and a vendor's prefix don't matter.
func FindHardware(name string) (Hardware, error) {
	flat := strings.NewReplacer(" ", "", "-", "", "_", "").Replace(strings.ToUpper(name))
	for _, h := range HardwareKinds() {
		if strings.Contains(flat, h.Name) {
			return h, nil
		}
	}
	return Hardware{}, fmt.Errorf("%w: unknown hardware %q; describe it as a Hardware", ErrSpec, name)
}

// VLLM is the engine kind of vLLM 0.19 on a kind of hardware: asynchronous scheduling with two steps in flight, graphs recorded for batches of up to
// twice the sequences (at most 512) in steps of 8, from 256 up of 16.
func VLLM(h Hardware, maxSequences int) *EngineKind {
	e := &EngineKind{
		Name: "vllm-0.19", CaptureSizes: []int{1, 2, 4}, RouteNs: 100_000_000,
		DecodeStepNs: h.Host.DecodeStepNs, PrefillStepNs: h.Host.PrefillStepNs, PrefillLayerNs: h.Host.PrefillLayerNs,
	}
	largest := min(2*maxSequences, 512)
	for n := 8; n < 256 && n <= largest; n += 8 {
		e.CaptureSizes = append(e.CaptureSizes, n)
	}
	for n := 256; n <= largest; n += 16 {
		e.CaptureSizes = append(e.CaptureSizes, n)
	}
	return e
}

// Kernel is the decode kernel of vLLM's FlashAttention backend for an architecture.
func (h Hardware) Kernel(a Architecture, tp int, e *EngineKind) DecodeKernel {
	k := DecodeKernel{
		Multiprocessors: h.Multiprocessors, BandwidthBytesPerS: h.BandwidthBytesPerS, KVHeads: max(a.KVHeads/max(tp, 1), 1),
		BytesPerToken: 2 * a.HeadDim * activationBytes, NsPerToken: h.NsPerToken, MixedFactor: h.MixedFactor, PadTo: e.CaptureSizes,
	}
	if k.NsPerToken == 0 {
		k.NsPerToken = fittedNsPerToken
	}
	if k.MixedFactor == 0 {
		k.MixedFactor = fittedMixedFactor
	}
	return k
}

// Scaled returns tables with all times multiplied.
func (t *Tables) Scaled(by float64) *Tables {
	if by == 0 || by == 1 {
		return t
	}
	u := &Tables{dense: scaleCurves(t.dense, by), perSequence: scaleCurves(t.perSequence, by)}
	for _, r := range t.experts {
		u.experts = append(u.experts, expertRow{r.rows, r.experts, r.ns * by})
	}
	if t.attention != nil {
		a := *t.attention
		a.ns = make([]float64, len(t.attention.ns))
		for i, v := range t.attention.ns {
			a.ns[i] = v * by
		}
		u.attention = &a
	}
	return u
}

func scaleCurves(m map[string]curve, by float64) map[string]curve {
	out := make(map[string]curve, len(m))
	for name, c := range m {
		s := curve{table: make([]int64, len(c.table)), slope: c.slope * by}
		for i, v := range c.table {
			s.table[i] = roundNs(float64(v) * by)
		}
		out[name] = s
	}
	return out
}

// Source gives operators their measured cost, else the roofline.
func Source(t *Tables, g ExpertGroup, fallback Roofline) CostSource {
	return func(op *gmg.Operator) (Cost, error) {
		if t != nil {
			if c, ok, err := t.Cost(op, g); ok || err != nil {
				return c, err
			}
		}
		if fallback.FLOPS <= 0 || fallback.BandwidthBytesPerS <= 0 {
			return nil, fmt.Errorf("%w: not measured, and the device has no peaks for a roofline", ErrTable)
		}
		return fallback.Cost(op), nil
	}
}
