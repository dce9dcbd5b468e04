// Package devspec reads what people write after --devices:
//
//	devices = device { ";" device }
//	device  = "cpu" [ ":" cores ] [ "*" count ] { "," option }
//	        | "sim" ":" model [ "*" count ] { "," option }
//	option  = "mem=" size            e.g. mem=4GiB, mem=512MiB
//
// For example "cpu:1,mem=4GiB;cpu:1" or "sim:rtx4090*8".
package devspec

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"slicescheduler/gmg"
)

// Limits of what can be asked for.
const (
	MaxDevices = 1024
	maxCores   = 1024
)

// Device is one device as it was asked for.
type Device struct {
	Kind        gmg.DeviceKind
	Cores       int    // cpu; 0: all that others leave
	Model       string // sim: a key of Models
	MemoryBytes int64  // 0: not said
}

// Error says which piece of which specification is wrong, and why.
type Error struct {
	Spec, Piece, Reason string
}

func (e *Error) Error() string {
	return fmt.Sprintf("devices %q: %q: %s", e.Spec, e.Piece, e.Reason)
}

// Parse reads a specification. Its errors are of type *Error.
func Parse(spec string) ([]Device, error) {
	var devices []Device
	for piece := range strings.SplitSeq(spec, ";") {
		d, count, reason := parsePiece(strings.TrimSpace(piece))
		if reason == "" && len(devices)+count > MaxDevices {
			reason = fmt.Sprintf("more than %d devices", MaxDevices)
		}
		if reason != "" {
			return nil, &Error{spec, strings.TrimSpace(piece), reason}
		}
		devices = append(devices, slices.Repeat([]Device{d}, count)...)
	}
	return devices, nil
}

// parsePiece reads one device; reason is empty on success.
func parsePiece(piece string) (d Device, count int, reason string) {
	fields := strings.Split(piece, ",")
	what, times, counted := strings.Cut(fields[0], "*")
	count = 1
	if counted {
		n, err := strconv.Atoi(times)
		if err != nil || n < 1 || n > MaxDevices {
			return d, 0, fmt.Sprintf("after * goes a number of devices from 1 to %d", MaxDevices)
		}
		count = n
	}
	kind, argument, found := strings.Cut(what, ":")
	switch gmg.DeviceKind(kind) {
	case gmg.DeviceCPU:
		d, reason = parseCPU(argument, found)
	case gmg.DeviceSim:
		d, reason = parseSim(argument)
	default:
		reason = "begin with cpu or sim, as in cpu:2 or sim:rtx4090"
	}
	for _, option := range fields[1:] {
		if reason == "" {
			reason = d.setOption(option)
		}
	}
	return d, count, reason
}

func parseCPU(cores string, given bool) (Device, string) {
	d := Device{Kind: gmg.DeviceCPU}
	if !given {
		return d, ""
	}
	n, err := strconv.Atoi(cores)
	if err != nil || n < 1 || n > maxCores {
		return d, fmt.Sprintf("after cpu: goes a number of cores from 1 to %d", maxCores)
	}
	d.Cores = n
	return d, ""
}

func parseSim(model string) (Device, string) {
	name := strings.ToLower(model)
	m, known := Models()[name]
	if !known {
		return Device{}, "after sim: goes one of " + strings.Join(slices.Sorted(maps.Keys(Models())), ", ")
	}
	return Device{Kind: gmg.DeviceSim, Model: name, MemoryBytes: m.MemoryBytes}, ""
}

func (d *Device) setOption(option string) (reason string) {
	name, value, _ := strings.Cut(strings.TrimSpace(option), "=")
	if name != "mem" {
		return fmt.Sprintf("unknown option %q: there is mem=, as in mem=4GiB", name)
	}
	bytes, err := ParseSize(value)
	if err != nil {
		return err.Error()
	}
	d.MemoryBytes = bytes
	return ""
}

// sizeUnits in the order in which suffixes are tried.
func sizeUnits() []struct {
	suffix string
	bytes  float64
} {
	return []struct {
		suffix string
		bytes  float64
	}{
		{"KIB", 1 << 10}, {"MIB", 1 << 20}, {"GIB", 1 << 30}, {"TIB", 1 << 40},
		{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
		{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40}, {"B", 1},
	}
}

// maxSizeBytes keeps sums of sizes far from overflowing.
const maxSizeBytes = 1 << 50

// ParseSize reads a positive size of memory: a number with KiB, MiB, GiB, TiB (or K, M, G, T), KB, MB, GB, TB or B.
func ParseSize(s string) (int64, error) {
	number, unit := strings.ToUpper(s), 1.0
	for _, u := range sizeUnits() {
		if n, found := strings.CutSuffix(number, u.suffix); found {
			number, unit = n, u.bytes
			break
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !(v > 0) || v*unit < 1 || v*unit > maxSizeBytes {
		return 0, fmt.Errorf("%q is no size of memory: write a number and a unit, as in 4GiB or 512MiB", s)
	}
	return int64(v * unit), nil
}

// Models returns the simulated accelerators by the name they go by here, with NVIDIA's figures: memory, bandwidth, and the peak of F16 matrix products with
// sums in F32, without sparsity. Datasheets that print only figures with sparsity are halved.
func Models() map[string]gmg.Device {
	card := func(model string, gib int64, bandwidth, flops float64) gmg.Device {
		return gmg.Device{Model: model, MemoryBytes: gib << 30, BandwidthBytesPerS: bandwidth, PeakFLOPS: map[gmg.DType]float64{gmg.F16: flops}}
	}
	return map[string]gmg.Device{
		"rtx4090": card("RTX4090", 24, 1008e9, 165.2e12), // Ada architecture whitepaper, appendix A: GeForce RTX 4090
		// RTX PRO 6000 Blackwell datasheet: 1792 GB/s and 4030 TOPS of sparse FP4, of which dense F16 is an eighth.
		"rtxpro6000": card("RTXPRO6000", 96, 1792e9, 503.8e12),
		"a100":       card("A100", 80, 2039e9, 312e12),   // A100 80GB SXM datasheet
		"h100":       card("H100", 80, 3350e9, 989.4e12), // H100 SXM datasheet: 1979 with sparsity
		// H200 SXM datasheet: the H100's processor; the 141 GB that it names are decimal as far as a driver shows them, which is 140 GiB.
		"h200": card("H200", 140, 4800e9, 989.4e12),
	}
}
