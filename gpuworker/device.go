// Package gpuworker is the executor: devices behind one interface, the memory ledger that nothing escapes, paged KV, step execution and sampling.
package gpuworker

import (
	"context"
	"errors"

	"slicescheduler/gmg"
)

// BlockTokens is the number of tokens in one KV page, on every device.
const BlockTokens = 16

// Errors of devices. They are wrapped with context; test with errors.Is.
var (
	ErrDeviceClosed = errors.New("device is closed")
	ErrUnhealthy    = errors.New("device is unhealthy")
	ErrNotSupported = errors.New("not supported by this device")
	ErrBadBuffer    = errors.New("buffer does not belong here or is too small")
)

// Queue is one of a device's ordered queues. Work within a queue runs in the order in which it was enqueued. Home work outranks borrowed work at the
// next operator boundary; copies run beside both.
type Queue uint8

// Queues of every device.
const (
	QueueHome Queue = iota
	QueueBorrowed
	QueueCopy
	NumQueues
)

// Buffer is a piece of device memory, held in the ledger under one class from Reserve until Release. It stays with the caller: a
// device frees nothing on its own except at Close.
type Buffer interface {
	Device() gmg.DeviceID
	Class() gmg.MemoryClass
	Bytes() int64 // as held in the ledger
}

// Event is the completion of one piece of enqueued work. It completes exactly once, also when the device fails or closes.
type Event interface {
	Done() <-chan struct{} // closed on completion
	Err() error            // valid after Done
	BusyNs() int64         // time the device spent on it, valid after Done
}

// Device is one accelerator. All methods may be called from any goroutine.
//
// What blocks: Reserve, Release, Describe and Ledger return at once. LoadWeight blocks until the weight is resident (callers run it away from actors).
// Upload, Download, CopyPeer and Enqueue only append to a queue and return at once; the Event tells when they are done.
//
// Who owns what: host slices passed to Upload, Download and Enqueue (the Batch and all in it) belong to the device until the Event is done.
// Buffers belong to the caller and must not be released while work that uses them is pending.
//
// Order: work on one queue runs in order; across queues only Events order. An error in one piece of work does not stop the queue unless the
// device becomes unhealthy, in which case every pending Event completes with ErrUnhealthy.
type Device interface {
	Describe() gmg.Device
	// Ledger returns the device's memory ledger at this moment.
	Ledger() gmg.Ledger
	// Reserve takes bytes of memory in a class, or fails with gmg.ErrOutOfMemory and takes nothing.
	Reserve(class gmg.MemoryClass, bytes int64) (Buffer, error)
	// Release gives a buffer back. Releasing twice is ErrBadBuffer.
	Release(Buffer) error
	// WeightBytes says what LoadWeight will hold in the ledger for a weight: devices may map, copy or repack.
	WeightBytes(w gmg.Weight) int64
	// LoadWeight makes a weight resident from its bytes in the file's format, which stay valid until Release. On error nothing is held.
	LoadWeight(ctx context.Context, w gmg.Weight, host []byte) (Buffer, error)
	Upload(q Queue, dst Buffer, offset int64, src []byte) Event
	Download(q Queue, dst []byte, src Buffer, offset int64) Event
	// CopyPeer copies from a buffer of this device to one of another device (or this one). Devices of different kinds go through host memory.
	CopyPeer(q Queue, dst Device, dstBuf Buffer, dstOffset int64, src Buffer, srcOffset, bytes int64) Event
	// Compile binds a run of stages to its buffers. The program holds no memory of its own: workspace comes with the spec.
	Compile(spec ProgramSpec) (Program, error)
	// WorkspaceBytes says how much workspace a program of these stages needs for steps of up to maxRows tokens and maxLogits logit rows.
	WorkspaceBytes(g *gmg.Graph, r gmg.Range, maxRows, maxLogits int) int64
	// KVBlockBytes says how many bytes one KV page takes for the stages of r: all layers of the page lie in one piece.
	KVBlockBytes(g *gmg.Graph, r gmg.Range) int64
	// Enqueue runs a program for one step.
	Enqueue(q Queue, p Program, b *Batch) Event
	// Close completes all pending events with ErrDeviceClosed and gives all memory back.
	Close() error
}

// ProgramSpec is everything a program is bound to.
type ProgramSpec struct {
	Graph   *gmg.Graph
	Stages  gmg.Range
	Weights map[WeightKey]Buffer
	// KV holds KVBlocks pages of KVBlockBytes each; page i lies at i*KVBlockBytes. Nil when no stage attends.
	KV       Buffer
	KVBlocks int
	// In and Out are float32 [maxRows][Hidden] rows of the residual stream in the staging class; In is nil for a slice that begins with stage 0,
	// Out for one that ends with the head.
	In, Out Buffer
	// Logits is float32 [maxLogits][Vocab] in the staging class, nil unless the slice ends with the head.
	Logits    Buffer
	Workspace Buffer
	MaxRows   int
	MaxLogits int
}

// WeightKey names a weight of a graph: its stage and its name there.
type WeightKey struct {
	Stage int
	Name  string
}

// Program is a compiled run of stages, made by Device.Compile for that device alone.
type Program interface {
	Stages() gmg.Range
}

// Batch is one step's input: rows of several sequences, each sequence's rows adjacent and in position order. A row's result depends on its own
// sequence alone, bit for bit.
type Batch struct {
	Tokens    []int32 // one per row
	Sequences []Span
	LogitRows []int32 // rows whose logits are wanted, ascending; logits row i belongs to LogitRows[i]
}

// Rows returns the number of token rows of the step.
func (b *Batch) Rows() int { return len(b.Tokens) }

// Span is one sequence's share of a step: Rows rows from row First on, at positions Start, Start+1, ... Blocks is the sequence's page table, long enough for
// position Start+Rows-1.
type Span struct {
	First, Rows int
	Start       int
	Blocks      []int32
}
