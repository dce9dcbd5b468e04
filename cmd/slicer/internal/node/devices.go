package node

import (
	"errors"
	"fmt"

	"slicescheduler/cmd/slicer/internal/devspec"
	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
	"slicescheduler/gpuworker/cpu"
	"slicescheduler/gpuworker/sim"
)

// Bounds of the memory that CPU devices get together when nobody says how much: half of the machine's, within these.
const (
	minSharedBytes = 256 << 20
	maxSharedBytes = 256 << 30
)

// Figures of links within a host, for devices whose real ones nobody has measured yet.
const (
	memoryBytesPerS = 20e9 // two sets of cores share memory
	hostBytesPerS   = 25e9 // host memory to an accelerator
	memoryLatencyNs = 1_000
	hostLatencyNs   = 10_000
)

// Machine is what devices are made of when a specification leaves it open.
type Machine struct {
	Cores       int
	MemoryBytes int64
}

// complete fills in what a specification left open: cores that no other device asks for, and equal shares of the memory.
func complete(specs []devspec.Device, m Machine) []devspec.Device {
	out := append([]devspec.Device(nil), specs...)
	openCores, openMemory, cores, memory := 0, int64(0), m.Cores, min(max(m.MemoryBytes/2, minSharedBytes), maxSharedBytes)
	for _, d := range out {
		if d.Kind != gmg.DeviceCPU {
			continue
		}
		cores -= d.Cores
		memory -= d.MemoryBytes
		if d.Cores == 0 {
			openCores++
		}
		if d.MemoryBytes == 0 {
			openMemory++
		}
	}
	for i, d := range out {
		if d.Kind != gmg.DeviceCPU {
			continue
		}
		if d.Cores == 0 {
			out[i].Cores = max(1, cores/openCores)
		}
		if d.MemoryBytes == 0 {
			out[i].MemoryBytes = max(minSharedBytes, memory) / openMemory
		}
	}
	return out
}

// openDevices starts a node's devices. On error none is left open.
func openDevices(id gmg.NodeID, specs []devspec.Device, m Machine) ([]gpuworker.Device, error) {
	count := make(map[gmg.DeviceKind]int)
	var devices []gpuworker.Device
	for _, spec := range complete(specs, m) {
		name := gmg.DeviceID(fmt.Sprintf("%s/%s%d", id, spec.Kind, count[spec.Kind]))
		count[spec.Kind]++
		d, err := openDevice(id, name, spec)
		if err != nil {
			return nil, errors.Join(err, closeDevices(devices))
		}
		devices = append(devices, d)
	}
	return devices, nil
}

func openDevice(node gmg.NodeID, id gmg.DeviceID, spec devspec.Device) (gpuworker.Device, error) {
	switch spec.Kind {
	case gmg.DeviceCPU:
		return cpu.Open(cpu.Config{ID: id, Node: node, Cores: spec.Cores, MemoryBytes: spec.MemoryBytes})
	case gmg.DeviceSim:
		device, known := devspec.Models()[spec.Model]
		if !known {
			return nil, fmt.Errorf("device %s: no simulated model %q", id, spec.Model)
		}
		device.ID, device.Node, device.MemoryBytes = id, node, spec.MemoryBytes
		return sim.New(sim.Config{Device: device, HostBytesPerS: hostBytesPerS, PeerBytesPerS: memoryBytesPerS})
	}
	return nil, fmt.Errorf("device %s: unknown kind %q", id, spec.Kind)
}

func closeDevices(devices []gpuworker.Device) error {
	var errs []error
	for _, d := range devices {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

// linksOf joins every device with its host's memory, and CPU devices, which share it, with each other.
func linksOf(id gmg.NodeID, devices []gpuworker.Device) []gmg.Link {
	host := gmg.HostOf(id)
	var links []gmg.Link
	both := func(a, b gmg.DeviceID, kind gmg.LinkKind, bytesPerS float64, latencyNs int64) {
		links = append(links, gmg.Link{From: a, To: b, Kind: kind, BandwidthBytesPerS: bytesPerS, LatencyNs: latencyNs},
			gmg.Link{From: b, To: a, Kind: kind, BandwidthBytesPerS: bytesPerS, LatencyNs: latencyNs})
	}
	for i, d := range devices {
		a := d.Describe()
		if a.Kind != gmg.DeviceCPU {
			both(host, a.ID, gmg.LinkHost, hostBytesPerS, hostLatencyNs)
			continue
		}
		both(host, a.ID, gmg.LinkMemory, memoryBytesPerS, memoryLatencyNs)
		for _, other := range devices[:i] {
			if b := other.Describe(); b.Kind == gmg.DeviceCPU {
				both(b.ID, a.ID, gmg.LinkMemory, memoryBytesPerS, memoryLatencyNs)
			}
		}
	}
	return links
}
