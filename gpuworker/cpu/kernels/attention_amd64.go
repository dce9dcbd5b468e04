package kernels

import (
	"math"
	"unsafe"
)

// seenTable gives masks of the tokens [from, to) of a page: all bits at and after token from in the 16 entries from 16-from on, and before
// token to in those from 32-to on.
//
//lint:ignore U1000 read by assembly
var seenTable = func() (t [3 * PageTokens]uint32) {
	for i := PageTokens; i < 2*PageTokens; i++ {
		t[i] = math.MaxUint32
	}
	return t
}()

//go:noescape
func keyScoresAVX2(scores *[16]float32, q *float32, keys *byte, headDim int)

//go:noescape
func softmaxAVX2(scores *[16]float32, state *softState, from, to int, scale float32) (factor float32)

//go:noescape
func valuesAVX2(out *float32, values *byte, weights *float32, tokens, headDim int, factor float32)

//go:noescape
func floatKeyScoresAVX2(scores *[16]float32, q *float32, keys *float32, headDim int)

//go:noescape
func floatValuesAVX2(out *float32, values *float32, weights *float32, tokens, headDim int, factor float32)

// floatsStep is how many halves a step of floatsAVX2 converts.
const floatsStep = 4 * lanes

//go:noescape
func floatsAVX2(dst *float32, halves *byte, steps int)

func pageAVX2(a *pageArgs) {
	var scores [PageTokens]float32
	keyScoresAVX2(&scores, &a.q[0], &a.keys[0], len(a.q))
	factor := a.weights(&scores)
	values := unsafe.Pointer(&a.values[a.from*len(a.out)*halfBytes])
	valuesAVX2(&a.out[0], (*byte)(values), &scores[a.from], a.to-a.from, len(a.out), factor)
}

const (
	tileRows     = 32  // queries that meet a converted page
	tileFewest   = 4   // fewer are not worth the conversion
	tileHeadDims = 256 // largest head whose page is kept converted
)

// tilePage is a head's page as floats.
type tilePage struct {
	keys, values []float32
}

// lineFloats is how many floats a cache line holds.
const lineFloats = 16

// fromLine returns the part of some floats that begins with a cache line: a vector across two lines costs two loads.
func fromLine(x []float32) []float32 {
	return x[-uintptr(unsafe.Pointer(&x[0]))/4%lineFloats:]
}

// tileAVX2 computes one head of up to tileRows rows page by page, so that a page is converted to floats once for all of them. Each row goes through
// the same operations as alone.
func tileAVX2(out []float32, outStride int, q []float32, qStride, rows, start int, p *Pages, a *AttentionShape, kvHead int) {
	var room [2*tileHeadDims*PageTokens + lineFloats]float32
	var states [tileRows]softState
	width := a.HeadDim
	floats := fromLine(room[:])
	page := tilePage{floats[:width*PageTokens], floats[width*PageTokens:]}
	for i := range rows {
		clear(out[i*outStride:][:width])
		states[i].largest = float32(math.Inf(-1))
	}
	headBytes, pageBytes := width*PageTokens*halfBytes, int(a.PageBytes())
	for at := a.firstSeen(start) / PageTokens; at <= (start+rows-1)/PageTokens; at++ {
		b := p.page(at, pageBytes)
		floatsAVX2(&page.keys[0], &b[kvHead*headBytes], width*PageTokens/floatsStep)
		floatsAVX2(&page.values[0], &b[(a.KVHeads+kvHead)*headBytes], width*PageTokens/floatsStep)
		for i := range rows {
			first, position := a.firstSeen(start+i), start+i
			from, to := max(first-at*PageTokens, 0), min(position+1-at*PageTokens, PageTokens)
			if from < to {
				args := pageArgs{q: q[i*qStride:][:width], out: out[i*outStride:][:width], from: from, to: to, scale: a.Scale, cap: a.SoftCap, state: &states[i]}
				page.query(&args)
			}
		}
	}
	for i := range rows {
		finish(out[i*outStride:][:width], &states[i])
	}
}

func (p *tilePage) query(a *pageArgs) {
	var scores [PageTokens]float32
	floatKeyScoresAVX2(&scores, &a.q[0], &p.keys[0], len(a.q))
	factor := a.weights(&scores)
	floatValuesAVX2(&a.out[0], &p.values[a.from*len(a.out)], &scores[a.from], a.to-a.from, len(a.out), factor)
}

// weights turns scores into weights and returns the factor that is still to be applied to the sums so far.
func (a *pageArgs) weights(scores *[PageTokens]float32) float32 {
	if a.cap != 0 {
		pageSoftmax(scores, a)
		return 1
	}
	return softmaxAVX2(scores, a.state, a.from, a.to, a.scale)
}
