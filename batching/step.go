package batching

import "math/bits"

// SeqID names a sequence: one request while it is served. The caller chooses it, unique among the live ones.
type SeqID uint64

// BlockHash identifies the tokens of a full page together with everything before them. The zero value means unknown: such a page is never shared.
type BlockHash [2]uint64

// Request is a sequence to be served.
type Request struct {
	ID           SeqID
	PromptTokens int
	MaxTokens    int         // answer tokens at most
	Blocks       []BlockHash // of the prompt's full pages; may go on into the answer where it is known (simulation). Kept, not copied.
	Priority     int         // higher is served first (OrderAged)
	ArrivalNs    int64
}

// Item is one sequence's share of a step: tokens Start to Start+Tokens of prompt and answer.
type Item struct {
	ID     SeqID
	Start  int
	Tokens int
	Sample bool    // the last token's logits are sampled; Complete counts one more token of the answer
	Cached int     // tokens that were found in the prefix cache, in the first item after an admission
	Blocks []int32 // page table from position 0, one entry for BlockTokens tokens; must be read before the next Schedule
	slot   int32
}

// Step is what a Scheduler wants computed next. The caller owns it and may reuse it after Complete; its slices are reused too.
type Step struct {
	ID        uint64  // rises by one
	Items     []Item  // running sequences first, then admitted ones
	Preempted []SeqID // lost their pages and wait again, to be recomputed
	Tokens    int     // sum over Items
}

// item adds an item whose fields are all to be set; filling it in place is measurably cheaper than appending a whole one.
func (s *Step) item() *Item {
	n := len(s.Items)
	if n < cap(s.Items) {
		s.Items = s.Items[:n+1]
	} else {
		s.Items = append(s.Items, Item{})
	}
	return &s.Items[n]
}

// Stats are counts at a moment.
type Stats struct {
	Waiting, Running, Paused int // Paused ones are counted in the other two as well
	InFlight                 int // steps
	// FreeBlocks + HeldBlocks + CachedBlocks = Config.KVBlocks. Cached pages belong to nobody, but their content can be reused until they are needed.
	FreeBlocks, HeldBlocks, CachedBlocks int
	Preemptions                          int64 // since start
	PromptTokens, CachedTokens           int64 // of admitted prompts, and of these found in the cache
}

// HashBlock returns the hash of a full page from the hash of the page before it (zero for the first), its tokens and a salt that keeps apart what must
// never share pages. 128 bits mixed by multiplication, so that unrelated prompts don't meet by accident; it is no defence against an attacker who
// searches for collisions, hence salts differ by tenant.
func HashBlock(prev BlockHash, tokens []int32, salt uint64) BlockHash {
	a := prev[0] ^ 0x9e3779b97f4a7c15 ^ salt
	b := prev[1] ^ 0xc2b2ae3d27d4eb4f ^ uint64(len(tokens))
	for _, t := range tokens {
		a, b = mix(a^uint64(uint32(t)), b)
	}
	a, b = mix(a, b^salt)
	a, b = mix(a, b)
	if a|b == 0 {
		a = 1
	}
	return BlockHash{a, b}
}

// mix is an invertible round on 128 bits of state: each word is changed by a 64x64 product of the other.
func mix(a, b uint64) (uint64, uint64) {
	hi, lo := bits.Mul64(a|1, 0xd6e8feb86659fd93)
	b = bits.RotateLeft64(b, 29) + (hi ^ lo) ^ a
	hi, lo = bits.Mul64(b|1, 0xa0761d6478bd642f)
	a = bits.RotateLeft64(a, 37) + (hi ^ lo) ^ b
	return a, b
}
