package whatif

// MigrateSequence moves one running sequence's KV to another lane of its tenant while it goes on decoding: all pages in a first stage, what was added
// meanwhile in a second, then a stop of StopNs for the last. It ends where it is when the target has no room. Unknown or ended sequences are no error.
type MigrateSequence struct {
	Tenant, Request int
	From, To        int // lanes
	StopNs          int64
	Free            bool // at once and for nothing (bounds only)
}

// LiveRequest is the number by which MigrateSequence names the k-th of a tenant's Live sequences.
func LiveRequest(k int) int { return firstLive + k }

// firstLive is above all numbers of requests.
const firstLive = 1<<40 + 1

// Reshape moves several lanes at once, layer by layer while they serve: each To replaces its lane after LoadNs, and running sequences follow with their KV
// within one step. Memory has to suffice before and after, not for both together.
type Reshape struct {
	Moves []MoveLane
}

// Throttle limits how many sequences a tenant may have running on each lane; 0 lifts the limit. Who runs already goes on.
type Throttle struct {
	Tenant       int
	MaxSequences int
}

// BorrowAttention lets a helper device hold the KV and run the attention of a share of a lane's decodes, in every layer. Percent 0 ends it.
type BorrowAttention struct {
	Tenant, Lane int
	Helper       int // device
	Percent      int // of the decodes, the longest contexts first
	KVBytes      int64
}

// BorrowRows lets a helper device, which holds a copy of the lane's weights, run a share of the rows of its weight operators. Percent 0 ends it.
type BorrowRows struct {
	Tenant, Lane int
	Helper       int
	Percent      int // of the rows
	LoadNs       int64
}
