// Package cpu is a device made of CPU cores: a memory budget, queues, and programs that are flat lists of kernel calls. Each call's work is split over the
// device's cores by output features, heads or rows, none of which changes a bit of the result.
package cpu

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"sync"
	"time"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
	"slicescheduler/gpuworker/cpu/kernels"
	"slicescheduler/gpuworker/hostmem"
)

// ErrConfig is returned for a device that can't be.
var ErrConfig = errors.New("invalid CPU device")

// MaxCores bounds the cores of one device.
const MaxCores = 1024

// Kernel sets by name, beside those of kernels.Named.
const KernelsBest = "best"

// Config describes a CPU device.
type Config struct {
	ID          gmg.DeviceID
	Node        gmg.NodeID
	Cores       int
	MemoryBytes int64
	Kernels     string // "best" (also when empty), "portable", or a path of kernels.Named
	Pin         bool   // keep each core's work on one operating-system thread
	// Figures for planning, shown by Describe; 0 and nil: unknown.
	BandwidthBytesPerS float64
	PeakFLOPS          map[gmg.DType]float64
}

// Validate says what is wrong with a configuration.
func (c Config) Validate() error {
	switch {
	case c.ID == "":
		return fmt.Errorf("%w: no id", ErrConfig)
	case c.Cores < 1 || c.Cores > MaxCores:
		return fmt.Errorf("%w: %s: %d cores, must be 1 to %d", ErrConfig, c.ID, c.Cores, MaxCores)
	case c.MemoryBytes < 1:
		return fmt.Errorf("%w: %s: %d bytes of memory, must be positive", ErrConfig, c.ID, c.MemoryBytes)
	case c.BandwidthBytesPerS < 0:
		return fmt.Errorf("%w: %s: negative bandwidth", ErrConfig, c.ID)
	}
	return nil
}

// kernelSet finds the kernels that a configuration names.
func (c Config) kernelSet() (*kernels.Set, error) {
	if c.Kernels == "" || c.Kernels == KernelsBest {
		return kernels.Best(), nil
	}
	return kernels.Named(c.Kernels)
}

// Device is a set of cores. One goroutine owns its queues and leads its steps; the other cores' goroutines follow it.
type Device struct {
	*hostmem.Base
	config  Config
	kernels *kernels.Set
	pool    *pool
	close   sync.Once
}

var _ gpuworker.Device = (*Device)(nil)

// Open starts a device.
func Open(c Config) (*Device, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	set, err := c.kernelSet()
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrConfig, c.ID, err)
	}
	c.PeakFLOPS = maps.Clone(c.PeakFLOPS)
	around := func(run func()) { run() }
	if c.Pin {
		around = pinned
	}
	start := time.Now()
	d := &Device{config: c, kernels: set, pool: newPool(c.Cores, around)}
	d.Base = hostmem.New(hostmem.Config{Device: c.ID, MemoryBytes: c.MemoryBytes, NowNs: func() int64 { return time.Since(start).Nanoseconds() }, Around: around})
	return d, nil
}

// pinned runs a goroutine on a thread of its own, which ends with it.
func pinned(run func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	run()
}

// Describe implements gpuworker.Device.
func (d *Device) Describe() gmg.Device {
	desc := gmg.Device{ID: d.config.ID, Node: d.config.Node, Kind: gmg.DeviceCPU, Model: "cpu-" + d.kernels.Name(), Cores: d.config.Cores,
		MemoryBytes: d.config.MemoryBytes, BandwidthBytesPerS: d.config.BandwidthBytesPerS, PeakFLOPS: maps.Clone(d.config.PeakFLOPS), Healthy: true}
	if err := d.Dispatcher().Err(); err != nil {
		desc.Healthy, desc.Reason = false, err.Error()
	}
	return desc
}

// WorkspaceBytes implements gpuworker.Device.
func (d *Device) WorkspaceBytes(g *gmg.Graph, r gmg.Range, maxRows, maxLogits int) int64 {
	return newLayout(g, r, maxRows, maxLogits).bytes
}

// KVBlockBytes implements gpuworker.Device.
func (d *Device) KVBlockBytes(g *gmg.Graph, r gmg.Range) int64 {
	var bytes int64
	for stage := r.From; stage < r.To; stage++ {
		for _, op := range g.Block(stage).Operators {
			if op.Kind == gmg.OpAttention {
				shape := attentionShape(&op.Attrs)
				bytes += shape.PageBytes()
			}
		}
	}
	return bytes
}

// Compile implements gpuworker.Device.
func (d *Device) Compile(spec gpuworker.ProgramSpec) (gpuworker.Program, error) {
	p, err := d.compile(spec)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Enqueue implements gpuworker.Device.
func (d *Device) Enqueue(q gpuworker.Queue, p gpuworker.Program, b *gpuworker.Batch) gpuworker.Event {
	own, ok := p.(*program)
	if !ok || own.device != d {
		return gpuworker.CompletedEvent(fmt.Errorf("program of another device on %s: %w", d.config.ID, gpuworker.ErrBadBuffer))
	}
	if err := b.Validate(own.limits); err != nil {
		return gpuworker.CompletedEvent(err)
	}
	return d.Dispatcher().Submit(q, &step{own, b})
}

// Close implements gpuworker.Device.
func (d *Device) Close() error {
	err := d.Base.Close()
	d.close.Do(d.pool.close)
	return err
}

// WeightBytes implements gpuworker.Device. Vectors are kept as floats, quantised matrices in packed form; floating-point matrices stay where they are mapped,
// and count in full because reading them makes them resident.
func (d *Device) WeightBytes(w gmg.Weight) int64 {
	if w.Rows == 1 {
		return int64(w.Cols) * floatBytes
	}
	if packed := kernels.PackedBytes(w); packed > 0 {
		return packed
	}
	return w.Bytes
}

// weight is what a buffer of the weights class holds: a matrix, or a vector.
type weight struct {
	matrix kernels.Matrix
	vector []float32
}

// LoadWeight implements gpuworker.Device.
func (d *Device) LoadWeight(ctx context.Context, w gmg.Weight, host []byte) (gpuworker.Buffer, error) {
	if int64(len(host)) != w.Bytes {
		return nil, fmt.Errorf("weight %s has %d bytes, %d given: %w", w.Name, w.Bytes, len(host), gpuworker.ErrBadBuffer)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	held := new(weight)
	b, err := d.Hold(gmg.MemWeights, d.WeightBytes(w), held)
	if err != nil {
		return nil, err
	}
	if err := held.load(w, host); err != nil {
		return nil, errors.Join(err, d.Release(b))
	}
	return b, nil
}

func (h *weight) load(w gmg.Weight, host []byte) (err error) {
	if w.Rows > 1 {
		h.matrix, err = kernels.Pack(w, host, make([]byte, kernels.PackedBytes(w)))
		return err
	}
	m, err := kernels.Pack(w, host, make([]byte, kernels.PackedBytes(w)))
	if err != nil {
		return err
	}
	h.vector = make([]float32, w.Cols)
	m.Row(h.vector, 0, 1)
	return nil
}
