package actors

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
	"slicescheduler/model"
)

// ErrConfig is an invalid NodeConfig or Limits.
var ErrConfig = errors.New("invalid node configuration")

// Defaults of Limits, and the bounds that Validate checks.
const (
	DefaultBatchTokens     = 512
	DefaultMaxSequences    = 32
	DefaultMaxQueue        = 256
	DefaultStreamTokens    = 256
	DefaultKVSharePct      = 50
	DefaultMinKVBlocks     = 16
	DefaultPublishInterval = 250 * time.Millisecond
	DefaultBusyWindow      = 5 * time.Second
	DefaultStepRetries     = 1
	DefaultStepTimeout     = 5 * time.Minute
	DefaultMaxStops        = 16
	DefaultMaxStopBytes    = 1024
	DefaultMaxLogprobs     = 20
	MaxBatchTokens         = 1 << 16
	MaxSequencesBound      = 1 << 12
)

// Limits bound what a node takes on. Zero values mean the defaults.
type Limits struct {
	BatchTokens     int           // token rows of one step
	MaxSequences    int           // sequences in one step, for tenants that don't say
	MaxQueue        int           // waiting requests, for tenants that don't say
	StreamTokens    int           // tokens a client may be behind before its request pauses
	KVSharePct      int           // share of a device's free memory that one tenant's KV may take when it is placed
	MinKVBlocks     int           // KV pages below which a lane isn't started
	PublishInterval time.Duration // of execution state
	BusyWindow      time.Duration // over which busy shares are taken
	StepTimeout     time.Duration // after which a device that doesn't end a step is given up
	StepRetries     int           // how often a request is computed again after a step failed; below 0: never
	MaxStops        int           // stop strings of a request
	MaxStopBytes    int           // of one stop string
	MaxLogprobs     int           // alternatives for each token
}

func setDefault[T int | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

func (l Limits) withDefaults() Limits {
	setDefault(&l.BatchTokens, DefaultBatchTokens)
	setDefault(&l.MaxSequences, DefaultMaxSequences)
	setDefault(&l.MaxQueue, DefaultMaxQueue)
	setDefault(&l.StreamTokens, DefaultStreamTokens)
	setDefault(&l.KVSharePct, DefaultKVSharePct)
	setDefault(&l.MinKVBlocks, DefaultMinKVBlocks)
	setDefault(&l.PublishInterval, DefaultPublishInterval)
	setDefault(&l.BusyWindow, DefaultBusyWindow)
	setDefault(&l.StepTimeout, DefaultStepTimeout)
	setDefault(&l.StepRetries, DefaultStepRetries)
	setDefault(&l.MaxStops, DefaultMaxStops)
	setDefault(&l.MaxStopBytes, DefaultMaxStopBytes)
	setDefault(&l.MaxLogprobs, DefaultMaxLogprobs)
	return l
}

// Validate says what is wrong with limits.
func (l Limits) Validate() error {
	d := l.withDefaults()
	bounds := []struct {
		name              string
		value, least, top int
	}{
		{"BatchTokens", d.BatchTokens, 1, MaxBatchTokens},
		{"MaxSequences", d.MaxSequences, 1, MaxSequencesBound},
		{"MaxQueue", d.MaxQueue, 1, 1 << 20},
		{"StreamTokens", d.StreamTokens, 1, 1 << 20},
		{"KVSharePct", d.KVSharePct, 1, 100},
		{"MinKVBlocks", d.MinKVBlocks, 1, 1 << 20},
		{"StepRetries", d.StepRetries, -1, 100},
		{"MaxStops", d.MaxStops, 1, 1 << 10},
		{"MaxStopBytes", d.MaxStopBytes, 1, 1 << 16},
		{"MaxLogprobs", d.MaxLogprobs, 1, 1 << 10},
	}
	for _, b := range bounds {
		if b.value < b.least || b.value > b.top {
			return fmt.Errorf("%w: Limits.%s is %d, must be %d to %d", ErrConfig, b.name, b.value, b.least, b.top)
		}
	}
	if d.StepTimeout < time.Millisecond {
		return fmt.Errorf("%w: Limits.StepTimeout %v must be at least 1ms", ErrConfig, d.StepTimeout)
	}
	if d.PublishInterval < time.Millisecond || d.BusyWindow < d.PublishInterval {
		return fmt.Errorf("%w: Limits.PublishInterval %v must be at least 1ms, and BusyWindow %v at least as long", ErrConfig, d.PublishInterval, d.BusyWindow)
	}
	return nil
}

// NodeConfig is what a node starts with. Devices stay the caller's: the node gives back all memory it took of them in Close, the caller closes them.
type NodeConfig struct {
	Name     gmg.NodeID
	Devices  []gpuworker.Device
	Links    []gmg.Link
	DataDir  string // where tenant specs and keys are kept; empty: in memory only
	Library  *model.Library
	Version  string
	HTTPAddr string
	Logger   *slog.Logger // nil: none
	Limits   Limits

	// inject is called before each message an actor handles; tests panic in it.
	inject func(actor string, message any)
}

// Validate says what is wrong with a configuration.
func (c NodeConfig) Validate() error {
	switch {
	case c.Name == "":
		return fmt.Errorf("%w: Name is empty", ErrConfig)
	case len(c.Devices) == 0:
		return fmt.Errorf("%w: no devices; name at least one", ErrConfig)
	case c.Library == nil:
		return fmt.Errorf("%w: Library is nil", ErrConfig)
	}
	seen := make(map[gmg.DeviceID]bool)
	for i, d := range c.Devices {
		if d == nil {
			return fmt.Errorf("%w: Devices[%d] is nil", ErrConfig, i)
		}
		id := d.Describe().ID
		if id == "" || seen[id] {
			return fmt.Errorf("%w: Devices[%d] has the id %q, which is empty or taken", ErrConfig, i, id)
		}
		seen[id] = true
	}
	return c.Limits.Validate()
}
