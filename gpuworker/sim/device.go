package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
	"slicescheduler/gpuworker/hostmem"
)

// ErrConfig is returned for a simulated device that can't be.
var ErrConfig = errors.New("invalid simulated device")

// Config describes a simulated device. Device.MemoryBytes is its ledger's capacity.
type Config struct {
	Device gmg.Device
	Cost   Cost  // nil: Roofline of Device for F16, with a launch of 5 us
	Clock  Clock // nil: the machine's
	// Bandwidths of loading weights and up- and downloads, and of copies to peers; 0: they take no time.
	HostBytesPerS, PeerBytesPerS float64
}

const defaultLaunchNs = 5_000

// Validate says what is wrong with a configuration.
func (c Config) Validate() error {
	switch {
	case c.Device.ID == "":
		return fmt.Errorf("%w: no id", ErrConfig)
	case c.Device.MemoryBytes <= 0:
		return fmt.Errorf("%w: %s: memory of %d bytes, must be positive", ErrConfig, c.Device.ID, c.Device.MemoryBytes)
	case c.HostBytesPerS < 0 || c.PeerBytesPerS < 0:
		return fmt.Errorf("%w: %s: negative bandwidth", ErrConfig, c.Device.ID)
	}
	return nil
}

// Device is a simulated accelerator.
type Device struct {
	*hostmem.Base
	config Config
	alive  context.Context // ends with the device, and with it every sleep
	end    context.CancelFunc
}

var _ gpuworker.Device = (*Device)(nil)

// New opens a simulated device.
func New(c Config) (*Device, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.Device.Kind, c.Device.Healthy = gmg.DeviceSim, true
	c.Device.PeakFLOPS = maps.Clone(c.Device.PeakFLOPS)
	if c.Cost == nil {
		c.Cost = Roofline{Device: c.Device, Weights: gmg.F16, LaunchNs: defaultLaunchNs}
	}
	if c.Clock == nil {
		c.Clock = NewRealClock()
	}
	d := &Device{config: c}
	d.alive, d.end = context.WithCancel(context.Background())
	d.Base = hostmem.New(hostmem.Config{Device: c.Device.ID, MemoryBytes: c.Device.MemoryBytes, NowNs: c.Clock.NowNs, Spend: d.spendTransfer,
		Sparse: [gmg.NumMemoryClasses]bool{gmg.MemKV: true, gmg.MemWorkspace: true, gmg.MemWeights: true}})
	return d, nil
}

// Describe implements gpuworker.Device.
func (d *Device) Describe() gmg.Device {
	desc := d.config.Device
	desc.PeakFLOPS = maps.Clone(desc.PeakFLOPS)
	if err := d.Dispatcher().Err(); err != nil {
		desc.Healthy, desc.Reason = false, err.Error()
	}
	return desc
}

// WeightBytes implements gpuworker.Device.
func (d *Device) WeightBytes(w gmg.Weight) int64 { return w.Bytes }

// LoadWeight implements gpuworker.Device.
func (d *Device) LoadWeight(ctx context.Context, w gmg.Weight, host []byte) (gpuworker.Buffer, error) {
	if int64(len(host)) != w.Bytes {
		return nil, fmt.Errorf("weight %s has %d bytes, %d given: %w", w.Name, w.Bytes, len(host), gpuworker.ErrBadBuffer)
	}
	b, err := d.Hold(gmg.MemWeights, w.Bytes, w)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.alive, cancel)()
	d.config.Clock.Sleep(ctx, transferNs(w.Bytes, d.config.HostBytesPerS))
	if err := errors.Join(ctx.Err(), d.Dispatcher().Err()); err != nil {
		return nil, errors.Join(err, d.Release(b))
	}
	return b, nil
}

func transferNs(bytes int64, bytesPerS float64) int64 {
	if bytesPerS == 0 {
		return 0
	}
	return int64(float64(bytes) / bytesPerS * 1e9)
}

func (d *Device) spendTransfer(bytes int64, peer bool) error {
	rate := d.config.HostBytesPerS
	if peer {
		rate = d.config.PeerBytesPerS
	}
	d.config.Clock.Sleep(d.alive, transferNs(bytes, rate))
	return nil
}

// WorkspaceBytes implements gpuworker.Device: the widest activations of a step, as a GPU would hold them.
func (d *Device) WorkspaceBytes(g *gmg.Graph, r gmg.Range, maxRows, maxLogits int) int64 {
	var most int64
	for stage := r.From; stage < r.To; stage++ {
		var bytes int64
		for _, t := range g.Block(stage).Tensors {
			if t.Rows == gmg.RowToken {
				bytes += int64(maxRows) * int64(t.Width) * activationBytes
			}
		}
		most = max(most, bytes)
	}
	return most
}

const activationBytes = 4

// KVBlockBytes implements gpuworker.Device.
func (d *Device) KVBlockBytes(g *gmg.Graph, r gmg.Range) int64 {
	return gpuworker.BlockTokens * g.KVBytesPerToken(r)
}

// Compile implements gpuworker.Device.
func (d *Device) Compile(spec gpuworker.ProgramSpec) (gpuworker.Program, error) {
	return d.compile(spec)
}

// Enqueue implements gpuworker.Device.
func (d *Device) Enqueue(q gpuworker.Queue, p gpuworker.Program, b *gpuworker.Batch) gpuworker.Event {
	own, ok := p.(*program)
	if !ok || own.device != d {
		return gpuworker.CompletedEvent(fmt.Errorf("program of another device on %s: %w", d.config.Device.ID, gpuworker.ErrBadBuffer))
	}
	if err := b.Validate(own.limits()); err != nil {
		return gpuworker.CompletedEvent(err)
	}
	return d.Dispatcher().Submit(q, &step{own, b})
}

// Fail makes the device unhealthy for a reason, as a real one might become.
func (d *Device) Fail(reason error) {
	d.Dispatcher().Fail(reason)
	d.end()
}

// Close implements gpuworker.Device.
func (d *Device) Close() error {
	d.end()
	return d.Base.Close()
}
