package whatif

import "slices"

// DecodeKernel describes how an engine's attention kernel spreads decodes over a device. It replaces the measured skew of a table, which holds for the
// two-valued mixtures that it was measured with but not for the lengths of real traffic.
//
// A decode kernel without split keys (FlashAttention-2 once sequences x KV heads fill the device) gives each (sequence, KV head) to one multiprocessor.
// While all of them are busy the device reads keys at its full bandwidth. Then only the longest sequences go on, each at the speed of one multiprocessor:
// a tail that grows with the difference between the longest and the level up to which all were busy.
type DecodeKernel struct {
	Multiprocessors    int
	BandwidthBytesPerS float64
	KVHeads            int
	BytesPerToken      int     // of keys and values of one KV head
	NsPerToken         float64 // one multiprocessor reading one token of one head
	// MixedFactor is how much longer decodes take beside a prefill, whose kernel computes a whole tile of rows for each.
	MixedFactor float64
	// PadTo are the batch sizes that the engine recorded, ascending; a batch is padded up to the next one. Empty: none.
	PadTo []int
}

// splitBelow is the share of the device that sequences x KV heads must fill, at two blocks a multiprocessor, for keys not to be split.
const splitBelow = 0.8

// tailFrom is the share of the keys per multiprocessor from which on a sequence's length tells. It is below one since blocks start in order of the batch,
// not the longest first, so that a long sequence is still being read when others are through.
const tailFrom = 0.9

func (k *DecodeKernel) ns(c *attentionCost, sh *Shape, chunk, context, mean float64) float64 {
	n := float64(sh.Decodes)
	if sh.PrefillTokens > 0 {
		ns := c.at(chunk, context, 0, 0)
		if sh.Decodes > 0 {
			ns += k.MixedFactor * c.at(0, 0, n, mean)
		}
		return ns
	}
	return c.at(0, 0, n, mean) + k.tail(sh)
}

// tail returns the time for which only the longest sequences are read.
func (k *DecodeKernel) tail(sh *Shape) float64 {
	padded := sh.Decodes
	if i, _ := slices.BinarySearch(k.PadTo, padded); i < len(k.PadTo) {
		padded = k.PadTo[i]
	}
	if float64(padded*k.KVHeads) < splitBelow*2*float64(k.Multiprocessors) {
		return 0
	}
	level := tailFrom * float64(sh.DecodeContext) * float64(k.KVHeads) / float64(k.Multiprocessors)
	// So many sequences together read as fast as the whole device.
	full := k.BandwidthBytesPerS * k.NsPerToken / 1e9 / float64(k.BytesPerToken*k.KVHeads)
	tokens := 0.0
	for i := 0; i < sh.kept && float64(i+1) < full; i++ {
		c := float64(sh.longest[i])
		if c <= level {
			break
		}
		next := level
		if i+1 < sh.kept {
			next = max(level, float64(sh.longest[i+1]))
		}
		tokens += (c - next) * (1 - float64(i+1)/full)
	}
	return tokens * k.NsPerToken
}
