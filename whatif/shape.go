package whatif

import "slicescheduler/batching"

// Shape is what the cost of a step's operators depends on. Prefill items are those of more than one token; items of one token are decodes, whatever
// phase they are in, as attention kernels see them.
type Shape struct {
	Tokens        int // rows of weight operators
	Logits        int // rows of the head: one an item
	PrefillTokens int
	PrefillWork   int64 // sum over prefill items of q(2c+q), q tokens after a context of c
	Decodes       int
	DecodeContext int64 // sum of context over decodes
	DecodeMax     int   // longest context of a decode
	DecodeMin     int
	GroupRows     int // rows of all members of a group of ranks together, 0 without one
	GroupMaxRows  int // rows of the largest member
	kept          int
	longest       [keptLongest]int32 // contexts of the longest decodes, descending
}

// keptLongest is how many of the longest contexts a shape keeps.
const keptLongest = 32

// ShapeOf sums a step up.
func ShapeOf(step *batching.Step) Shape {
	var sh Shape
	sh.set(step)
	return sh
}

func (sh *Shape) set(step *batching.Step) {
	*sh = Shape{Tokens: step.Tokens, Logits: len(step.Items)}
	for i := range step.Items {
		it := &step.Items[i]
		if it.Tokens > 1 {
			sh.PrefillTokens += it.Tokens
			sh.PrefillWork += int64(it.Tokens) * int64(2*it.Start+it.Tokens)
			continue
		}
		sh.decode(it.Start)
	}
}

// decode adds a decode after a context.
func (sh *Shape) decode(context int) {
	if sh.Decodes == 0 || context < sh.DecodeMin {
		sh.DecodeMin = context
	}
	sh.DecodeMax = max(sh.DecodeMax, context)
	sh.keep(int32(context))
	sh.Decodes++
	sh.DecodeContext += int64(context)
}

// keep inserts a context into the longest ones.
func (sh *Shape) keep(context int32) {
	i := sh.kept
	if i == keptLongest {
		if i--; sh.longest[i] >= context {
			return
		}
	} else {
		sh.kept++
	}
	for i > 0 && sh.longest[i-1] < context {
		sh.longest[i] = sh.longest[i-1]
		i--
	}
	sh.longest[i] = context
}

// grow is the shape of the same decodes k tokens later.
func (sh *Shape) grow(k int) {
	sh.DecodeContext += int64(k) * int64(sh.Decodes)
	sh.DecodeMax += k
	sh.DecodeMin += k
	for i := range sh.kept {
		sh.longest[i] += int32(k)
	}
}

// Cost is what one operator takes. Implementations are immutable and depend on nothing but the shape.
type Cost interface {
	// Ns returns the operator's time in nanoseconds, at least 1.
	Ns(sh *Shape) int64
}
