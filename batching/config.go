package batching

import (
	"errors"
	"fmt"
)

// Errors of this package. ErrTooLarge can never be served, so it is final; ErrQueueFull may be retried.
var (
	ErrConfig    = errors.New("invalid batching configuration")
	ErrRequest   = errors.New("invalid request")
	ErrTooLarge  = errors.New("request exceeds the KV pool or the context")
	ErrQueueFull = errors.New("queue is full")
	ErrDuplicate = errors.New("sequence exists")
	ErrUnknown   = errors.New("no such sequence")
	ErrStep      = errors.New("step is not in flight")
)

// Overlap says which sequences may take part in a step while an earlier step that they take part in is still in flight.
type Overlap uint8

const (
	// OverlapNone: steps in flight have disjoint sequences.
	OverlapNone Overlap = iota
	// OverlapPrefill: a prompt's next chunk may follow while earlier ones are in flight, as lanes of several slices want it; a sequence that waits for
	// a sampled token is left out until the token is there.
	OverlapPrefill
	// OverlapAll: decoding too. The engine hands a sampled token to the next step itself (vLLM's asynchronous scheduling).
	OverlapAll
)

// Order says who is admitted first.
type Order uint8

const (
	// OrderAged: by priority, then arrival; a request that can't be placed lets smaller ones pass until it has waited AgeNs, from when on nothing
	// younger is admitted before it.
	OrderAged Order = iota
	// OrderStrict: first come, first served with head-of-line blocking, priorities ignored: vLLM's "fcfs".
	OrderStrict
)

// Limits of a Config.
const (
	MaxBlockTokens      = 1024
	MaxKVBlocks         = 1 << 26
	DefaultBlockTokens  = 16
	DefaultLookAhead    = 16
	DefaultAgeNs        = 2_000_000_000
	DefaultBatchTokens  = 2048
	DefaultMaxSequences = 256
)

// Config sizes a Scheduler. Zero values of BlockTokens, MaxBatchTokens, MaxSequences, InFlight, LookAhead and AgeNs mean their defaults.
type Config struct {
	BlockTokens    int   // tokens of one KV page
	KVBlocks       int   // KV pages of the pool
	MaxBatchTokens int   // tokens of one step
	MaxSequences   int   // running sequences
	MaxQueue       int   // requests that wait; 0: no limit
	MaxChunkTokens int   // prefill tokens of one sequence in one step; 0: MaxBatchTokens
	MaxContext     int   // prompt plus answer; 0: what the pool holds
	InFlight       int   // steps in flight at a time; 0: 1
	LookAhead      int   // OrderAged: waiting requests that are tried at most in one step
	AgeNs          int64 // OrderAged: how long a request may be passed by others
	Order          Order
	Overlap        Overlap
	CountOnly      bool // pages are counted but not named, so Item.Blocks is empty: for forecasts, without PrefixReuse
	PrefixReuse    bool // share full pages of equal prefixes
	// Separate: steps hold either prompts or decodes, never both, and this many steps of prompts may be in flight (of InFlight); 0: steps hold both. Steps
	// may then complete in any order, as long as chunks of one prompt keep theirs; without OverlapAll.
	Separate     int
	MicroBatches int  // Separate: decodes are cut into about this many steps, to be in flight one after the other; 0: 1
	Watermark    int  // pages that admissions leave free for those that run, unless nothing runs
	AdmitWhole   bool // admit only when the pages of all known tokens are free, even if the first chunk is smaller (scheduler_reserve_full_isl)
}

// withDefaults returns c with zero values replaced.
func (c Config) withDefaults() Config {
	setDefault(&c.BlockTokens, DefaultBlockTokens)
	setDefault(&c.MaxBatchTokens, DefaultBatchTokens)
	setDefault(&c.MaxSequences, DefaultMaxSequences)
	setDefault(&c.InFlight, 1)
	setDefault(&c.MicroBatches, 1)
	setDefault(&c.LookAhead, DefaultLookAhead)
	setDefault(&c.AgeNs, DefaultAgeNs)
	setDefault(&c.MaxChunkTokens, c.MaxBatchTokens)
	setDefault(&c.MaxContext, c.KVBlocks*c.BlockTokens)
	return c
}

func setDefault[T int | int64](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// Validate says what is wrong with a configuration.
func (c Config) Validate() error {
	d := c.withDefaults()
	switch {
	case d.BlockTokens < 1 || d.BlockTokens > MaxBlockTokens:
		return fmt.Errorf("%w: BlockTokens %d, must be 1 to %d", ErrConfig, c.BlockTokens, MaxBlockTokens)
	case d.KVBlocks < 1 || d.KVBlocks > MaxKVBlocks:
		return fmt.Errorf("%w: KVBlocks %d, must be 1 to %d", ErrConfig, c.KVBlocks, MaxKVBlocks)
	case d.MaxBatchTokens < 1:
		return fmt.Errorf("%w: MaxBatchTokens %d, must be positive", ErrConfig, c.MaxBatchTokens)
	case d.MaxSequences < 1:
		return fmt.Errorf("%w: MaxSequences %d, must be positive", ErrConfig, c.MaxSequences)
	case d.MaxQueue < 0 || d.MaxChunkTokens < 0 || d.MaxContext < 0 || d.LookAhead < 0 || d.AgeNs < 0:
		return fmt.Errorf("%w: MaxQueue, MaxChunkTokens, MaxContext, LookAhead and AgeNs must not be negative", ErrConfig)
	case d.InFlight < 1 || d.InFlight > MaxInFlight:
		return fmt.Errorf("%w: InFlight %d, must be 1 to %d", ErrConfig, c.InFlight, MaxInFlight)
	case d.Separate < 0 || d.Separate > 0 && (d.Separate >= d.InFlight || d.Overlap == OverlapAll) || d.MicroBatches < 1 || d.Watermark < 0:
		return fmt.Errorf("%w: Separate %d of %d steps in flight, MicroBatches %d, Watermark %d: Separate must leave a step for decodes and overlap prompts at most",
			ErrConfig, c.Separate, d.InFlight, c.MicroBatches, c.Watermark)
	case c.CountOnly && c.PrefixReuse:
		return fmt.Errorf("%w: CountOnly pages have no content to reuse, switch PrefixReuse off", ErrConfig)
	case d.Order > OrderStrict || d.Overlap > OverlapAll:
		return fmt.Errorf("%w: unknown Order %d or Overlap %d", ErrConfig, c.Order, c.Overlap)
	}
	return nil
}

// MaxInFlight bounds Config.InFlight.
const MaxInFlight = 64
