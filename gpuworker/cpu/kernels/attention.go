package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
)

// PageTokens is the number of tokens of a KV page, and the block in which attention walks.
const PageTokens = 16

// AttentionShape is what attention needs to know of a layer.
type AttentionShape struct {
	Heads, KVHeads int
	HeadDim        int     // a multiple of 8
	Window         int     // tokens a query sees, itself included; 0 for all
	Scale          float32 // factor on q.k
	SoftCap        float32 // 0 for none
}

// Validate checks that the kernels can take the shape.
func (a AttentionShape) Validate() error {
	if a.Heads < 1 || a.KVHeads < 1 || a.Heads%a.KVHeads != 0 || a.HeadDim < 8 || a.HeadDim%8 != 0 || a.Window < 0 {
		return fmt.Errorf("attention of %d heads on %d KV heads of %d (must divide, a multiple of 8), window %d", a.Heads, a.KVHeads, a.HeadDim, a.Window)
	}
	return nil
}

// PageBytes returns the bytes of one layer's share of a KV page: keys, then values, as halves. Keys lie by KV head as [HeadDim][16 tokens], so that a
// vector holds one element of 8 tokens; values by KV head as [16 tokens][HeadDim].
func (a AttentionShape) PageBytes() int64 {
	return int64(2 * a.KVHeads * a.HeadDim * PageTokens * halfBytes)
}

const halfBytes = 2

// Pages is one sequence's KV of one layer: page i of the sequence lies in Memory at Table[i]*StrideBytes + OffsetBytes.
type Pages struct {
	Memory                   []byte
	Table                    []int32
	StrideBytes, OffsetBytes int
}

func (p *Pages) page(i, size int) []byte {
	at := int(p.Table[i])*p.StrideBytes + p.OffsetBytes
	return p.Memory[at : at+size]
}

// AppendKV stores one token's keys and values (KVHeads x HeadDim floats each), rounded to half, at a position.
func (s *Set) AppendKV(a *AttentionShape, p *Pages, position int, k, v []float32) {
	n := a.KVHeads * a.HeadDim
	mustBe("AppendKV", len(k) == n && len(v) == n, len(k), len(v), n)
	page, slot := p.page(position/PageTokens, int(a.PageBytes())), position%PageTokens
	keys, values := page[slot*halfBytes:], page[n*PageTokens*halfBytes:]
	var halves [appendChunk]uint16
	for from := 0; from < n; from += appendChunk {
		chunk := halves[:min(appendChunk, n-from)]
		s.halves(chunk, k[from:])
		for i, h := range chunk {
			binary.LittleEndian.PutUint16(keys[(from+i)*PageTokens*halfBytes:], h)
		}
	}
	for head := range a.KVHeads {
		row := values[(head*PageTokens+slot)*a.HeadDim*halfBytes:]
		for from := 0; from < a.HeadDim; from += appendChunk {
			chunk := halves[:min(appendChunk, a.HeadDim-from)]
			s.halves(chunk, v[head*a.HeadDim+from:])
			for i, h := range chunk {
				binary.LittleEndian.PutUint16(row[(from+i)*halfBytes:], h)
			}
		}
	}
}

// appendChunk is how many elements are rounded to half at once.
const appendChunk = 64

func halvesPortable(dst []uint16, src []float32) {
	for i := range dst {
		dst[i] = floatToHalf(src[i])
	}
}

// softState is a query's running softmax: the largest score so far and the sum of the weights, by lane of 8 tokens.
type softState struct {
	largest float32
	sums    [lanes]float32
}

// pageArgs is one query head against one KV page.
type pageArgs struct {
	q, out       []float32 // HeadDim
	keys, values []byte    // one head's, as in PageBytes
	from, to     int       // tokens of the page that the query sees; not empty
	scale, cap   float32
	state        *softState
}

// Attention writes, for query heads [headFrom, headTo) of rows of one sequence at positions start, start+1, ..., the attention over the sequence's KV
// up to each row's own position, which must have been appended. Row i of q and out begins at i*qStride and i*outStride; head h within it at h*HeadDim.
//
// A query walks the pages of its window in order with a running maximum (online softmax, arXiv 1805.02867): scores s = (q.k)*scale, q.k as four
// sums over d = i mod 4 added as (0+1)+(2+3); the maximum so far m; weights e^(s-m); what was summed before is scaled by e^(m_old-m).
func (s *Set) Attention(out []float32, outStride int, q []float32, qStride, rows, start int, p *Pages, a *AttentionShape, headFrom, headTo int) {
	mustBe("Attention", 0 <= headFrom && headFrom <= headTo && headTo <= a.Heads && a.HeadDim%lanes == 0 && rows >= 0 && start >= 0, headFrom, headTo, a.Heads, rows, start)
	group := a.Heads / a.KVHeads
	for h := headFrom; h < headTo; h++ {
		at := h * a.HeadDim
		for i := 0; i < rows; {
			n := s.tile(out[i*outStride+at:], outStride, q[i*qStride+at:], qStride, rows-i, start+i, p, a, h/group)
			if n == 0 {
				n = 1
				s.query(out[i*outStride+at:][:a.HeadDim], q[i*qStride+at:][:a.HeadDim], start+i, p, a, h/group)
			}
			i += n
		}
	}
}

// query computes one head of one row.
func (s *Set) query(out, q []float32, position int, p *Pages, a *AttentionShape, kvHead int) {
	clear(out)
	first := a.firstSeen(position)
	var state softState
	state.largest = float32(math.Inf(-1))
	args := pageArgs{q: q, out: out, scale: a.Scale, cap: a.SoftCap, state: &state}
	headBytes, pageBytes := a.HeadDim*PageTokens*halfBytes, int(a.PageBytes())
	for i := first / PageTokens; i <= position/PageTokens; i++ {
		page := p.page(i, pageBytes)
		args.keys = page[kvHead*headBytes:][:headBytes]
		args.values = page[(a.KVHeads+kvHead)*headBytes:][:headBytes]
		args.from, args.to = max(first-i*PageTokens, 0), min(position+1-i*PageTokens, PageTokens)
		s.page(&args)
	}
	finish(out, &state)
}

// firstSeen returns the first position that a query at a position sees.
func (a *AttentionShape) firstSeen(position int) int {
	if a.Window > 0 {
		return max(0, position+1-a.Window)
	}
	return 0
}

// finish divides the weighted sum by the sum of weights.
func finish(out []float32, state *softState) {
	factor := 1 / sumLanes(&state.sums)
	for d, v := range out {
		out[d] = v * factor
	}
}

func pagePortable(a *pageArgs) {
	var scores [PageTokens]float32
	keyScores(&scores, a.q, a.keys)
	pageSoftmax(&scores, a)
	width := len(a.out)
	for t := a.from; t < a.to; t++ {
		w := scores[t]
		row := a.values[t*width*halfBytes:]
		for d := range a.out {
			a.out[d] = a.out[d] + float32(w*half(row[d*halfBytes:]))
		}
	}
}

func keyScores(scores *[PageTokens]float32, q []float32, keys []byte) {
	for t := range scores {
		var part [4]float32
		for d, v := range q {
			part[d%4] = part[d%4] + float32(v*half(keys[(d*PageTokens+t)*halfBytes:]))
		}
		scores[t] = (part[0] + part[1]) + (part[2] + part[3])
	}
}

// pageSoftmax turns dot products into weights, and brings the state and the sums so far to the new maximum.
func pageSoftmax(scores *[PageTokens]float32, a *pageArgs) {
	largest := a.state.largest
	for t := a.from; t < a.to; t++ {
		scores[t] = scores[t] * a.scale
		if a.cap != 0 {
			scores[t] = a.cap * tanh32(scores[t]/a.cap)
		}
		largest = max(largest, scores[t])
	}
	for t := range scores {
		if t < a.from || t >= a.to {
			scores[t] = 0
		} else {
			scores[t] = exp32(scores[t] - largest)
		}
	}
	factor := exp32(a.state.largest - largest)
	for l := range lanes {
		a.state.sums[l] = float32(a.state.sums[l]*factor) + (scores[l] + scores[l+lanes])
	}
	for d := range a.out {
		a.out[d] = a.out[d] * factor
	}
	a.state.largest = largest
}
