package gpuworker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"slicescheduler/gmg"
)

// ErrSlice is returned for a slice configuration that can't be.
var ErrSlice = errors.New("invalid slice")

// MaxSlots bounds SliceConfig.Slots.
const MaxSlots = 16

// WeightSource finds a weight's description and bytes by stage and name. *model.Model is one. The bytes stay valid while the slice lives.
type WeightSource interface {
	Weight(stage int, name string) (gmg.Weight, []byte, error)
}

// SliceConfig says what a slice is and for which steps it is sized.
type SliceConfig struct {
	Graph     *gmg.Graph
	Stages    gmg.Range
	KVBlocks  int // KV pages of BlockTokens tokens, shared by all sequences of the slice
	MaxRows   int // token rows of one step
	MaxLogits int // rows of one step that ask for logits; only read where the slice ends with the head
	// Slots is how many steps may be in flight between this slice and its neighbours: each slot has hidden rows and logits of its own. 0: 1.
	Slots int
}

// Validate says what is wrong with a configuration.
func (c SliceConfig) Validate() error {
	switch {
	case c.Graph == nil:
		return fmt.Errorf("%w: no graph", ErrSlice)
	case c.Stages.From < 0 || c.Stages.To > len(c.Graph.Stages) || c.Stages.Len() <= 0:
		return fmt.Errorf("%w: stages [%d, %d) of %d", ErrSlice, c.Stages.From, c.Stages.To, len(c.Graph.Stages))
	case c.KVBlocks < 0 || c.KVBlocks == 0 && c.Graph.KVBytesPerToken(c.Stages) > 0:
		return fmt.Errorf("%w: %d KV pages; a slice that attends needs at least 1", ErrSlice, c.KVBlocks)
	case c.MaxRows < 1:
		return fmt.Errorf("%w: steps of %d rows; at least 1 is needed", ErrSlice, c.MaxRows)
	case c.last() && c.MaxLogits < 1:
		return fmt.Errorf("%w: %d rows of logits; a slice that ends with the head needs at least 1", ErrSlice, c.MaxLogits)
	case c.Slots < 0 || c.Slots > MaxSlots:
		return fmt.Errorf("%w: %d slots, must be 1 to %d", ErrSlice, c.Slots, MaxSlots)
	}
	return nil
}

func (c SliceConfig) first() bool { return c.Stages.From == 0 }
func (c SliceConfig) last() bool  { return c.Stages.To == len(c.Graph.Stages) }
func (c SliceConfig) slots() int  { return max(1, c.Slots) }

// attends says whether the slice keeps KV.
func (c SliceConfig) attends() bool { return c.Graph.KVBytesPerToken(c.Stages) > 0 }

// hiddenBytes is the size of the hidden rows of one step, between two slices.
func (c SliceConfig) hiddenBytes() int64 {
	return int64(c.MaxRows) * int64(c.Graph.Hidden) * float32Bytes
}

func (c SliceConfig) logitsBytes() int64 {
	return int64(c.MaxLogits) * int64(c.Graph.Vocab) * float32Bytes
}

const float32Bytes = 4

// SliceRunner is a loaded slice: weights, KV pages, workspace and hidden rows on one device, and programs that run its stages. Its owner (one actor)
// calls its methods one at a time; Events may be waited for anywhere.
//
// A step through a lane of several slices, in slot s: Run on the first; when its Event is done, PassTo the next; when that is done, Run there; and so
// on; after the last Run, FetchLogits, then read Logits. A slot's rows must not be written again before their reader is done. Steps of one slice that may be
// pending at the same time go to the same queue, because they share workspace and KV.
type SliceRunner struct {
	dev    Device
	config SliceConfig
	memory SliceMemory
	kv     Buffer
	slots  []slot

	mu      sync.Mutex
	held    []heldBuffer // all that was taken or shared, in order
	weights map[WeightKey]heldBuffer
}

// slot is what one step in flight has to itself.
type slot struct {
	in, out, logits Buffer
	program         Program
	mirror          []byte // of the logits, on devices whose memory the host can't read
	logitRows       []float32
}

// LoadSlice reserves all memory of a slice, loads its weights and compiles its programs, all or nothing: on error, or when ctx ends first, nothing stays
// held. It blocks until the weights are resident. progress, which may be nil, is called with the weight bytes loaded so far and in all.
func LoadSlice(ctx context.Context, dev Device, src WeightSource, c SliceConfig, progress func(done, total int64)) (*SliceRunner, error) {
	return LoadSliceWith(ctx, dev, src, c, LoadOptions{Progress: progress})
}

// LoadOptions are what a load may have beside its configuration; the zero value is LoadSlice's.
type LoadOptions struct {
	Progress func(done, total int64) // of weight bytes
	// From are slices on the same device, of the same model, whose weights are used where the new slice has the same, and whose KV pages where it has the
	// same stages and as many pages. They may be closed at any time: what is shared is released by who closes last.
	From []*SliceRunner
	// Taken counts up with the bytes that the load has taken of the ledger, shared ones aside.
	Taken *atomic.Int64
}

// LoadSliceWith is LoadSlice with options.
func LoadSliceWith(ctx context.Context, dev Device, src WeightSource, c SliceConfig, o LoadOptions) (*SliceRunner, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	l := loader{r: &SliceRunner{dev: dev, config: c, weights: make(map[WeightKey]heldBuffer)}, src: src, options: o}
	if err := l.load(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("load stages [%d, %d) of %s on %s: %w", c.Stages.From, c.Stages.To, c.Graph.Name,
			dev.Describe().ID, err), l.r.Close())
	}
	return l.r, nil
}

// Device returns the slice's device.
func (r *SliceRunner) Device() Device { return r.dev }

// Config returns what the slice was loaded with.
func (r *SliceRunner) Config() SliceConfig { return r.config }

// Memory returns what the slice holds, by class.
func (r *SliceRunner) Memory() SliceMemory { return r.memory }

// KV returns the buffer of the KV pages, nil for a slice that doesn't attend. Page i lies at i*Device.KVBlockBytes(...).
func (r *SliceRunner) KV() Buffer { return r.kv }

// Run runs one step in a slot. A batch that doesn't fit the slice completes the Event with ErrBadBatch.
func (r *SliceRunner) Run(q Queue, slot int, b *Batch) Event {
	if err := b.Validate(r.config); err != nil {
		return CompletedEvent(err)
	}
	return r.dev.Enqueue(q, r.slots[slot].program, b)
}

// In returns the hidden rows that a slot reads, nil for a slice that begins with the embedding; Out those that it leaves, nil for one that ends
// with the head. Both are float32 [MaxRows][Hidden]; a step uses the first Rows of them.
func (r *SliceRunner) In(slot int) Buffer  { return r.slots[slot].in }
func (r *SliceRunner) Out(slot int) Buffer { return r.slots[slot].out }

// PassTo copies the first rows hidden rows that a slot left to the same slot of the lane's next slice.
func (r *SliceRunner) PassTo(q Queue, slot int, next *SliceRunner, rows int) Event {
	return r.dev.CopyPeer(q, next.dev, next.slots[slot].in, 0, r.slots[slot].out, 0, r.rowBytes(rows))
}

// ReadOut copies the hidden rows that a slot left into host memory (rows*Hidden float32, little-endian), for a next slice on another host.
func (r *SliceRunner) ReadOut(q Queue, slot, rows int, dst []byte) Event {
	return r.dev.Download(q, dst[:r.rowBytes(rows)], r.slots[slot].out, 0)
}

// WriteIn copies hidden rows from host memory into a slot.
func (r *SliceRunner) WriteIn(q Queue, slot, rows int, src []byte) Event {
	return r.dev.Upload(q, r.slots[slot].in, 0, src[:r.rowBytes(rows)])
}

func (r *SliceRunner) rowBytes(rows int) int64 {
	return int64(rows) * int64(r.config.Graph.Hidden) * float32Bytes
}

// FetchLogits makes the first n rows of a slot's logits readable by the host. On devices whose memory the host can read it is done at once.
func (r *SliceRunner) FetchLogits(q Queue, slot, n int) Event {
	s := &r.slots[slot]
	if s.mirror == nil {
		return CompletedEvent(nil)
	}
	return r.dev.Download(q, s.mirror[:n*r.config.Graph.Vocab*float32Bytes], s.logits, 0)
}

// Logits returns row i of a slot's logits, which belongs to Batch.LogitRows[i]: float32 [Vocab], valid from FetchLogits' completion to the slot's
// next Run. The caller may change it (sampling does).
func (r *SliceRunner) Logits(slot, i int) []float32 {
	v := r.config.Graph.Vocab
	return r.slots[slot].logitRows[i*v : (i+1)*v : (i+1)*v]
}

// Close gives all memory back, but for what a slice that was loaded from this one still holds. No work of the slice may be pending. It may be called twice.
func (r *SliceRunner) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for i := len(r.held) - 1; i >= 0; i-- {
		if h := r.held[i]; h.owners.Add(-1) == 0 {
			errs = append(errs, r.dev.Release(h.buffer))
		}
	}
	r.held, r.slots, r.kv, r.weights = nil, nil, nil, nil
	return errors.Join(errs...)
}
