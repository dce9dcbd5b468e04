// Package demo shows the whole on one machine within seconds: one process, two devices, three tenants of the embedded models, one of them split by
// layers over both devices.
package demo

import (
	"slicescheduler/actors"
	"slicescheduler/cmd/slicer/internal/devspec"
	"slicescheduler/gmg"
)

// Tenant is one tenant of the demo and what it is asked, one question after the other in one conversation.
type Tenant struct {
	Spec      gmg.TenantSpec
	Questions []string
}

// deviceBytes is small on purpose: the first device has room for one whole model and half of another, so that the third tenant goes to the second device.
const deviceBytes = 8 << 20

// sequences that each tenant may run at once; little, so that KV pages fit in little memory.
const sequences = 2

// Devices are the demo's two devices: one core each.
func Devices() []devspec.Device {
	d := devspec.Device{Kind: gmg.DeviceCPU, Cores: 1, MemoryBytes: deviceBytes}
	return []devspec.Device{d, d}
}

// Limits keep the node's buffers as small as its devices.
func Limits() actors.Limits { return actors.Limits{BatchTokens: 128, MaxSequences: sequences} }

// Tenants are the demo's tenants in the order in which they are submitted. The questions are of the kinds that the models were trained for.
func Tenants() []Tenant {
	return []Tenant{
		{gmg.TenantSpec{ID: "story", Model: "tiny-story"},
			[]string{"Tell me a story about a brave fox and a lantern.", "What was the fox's name?"}},
		{gmg.TenantSpec{ID: "split", Model: "tiny-story", SplitOver: 2},
			[]string{"a funny story about an owl who mends a clock", "What do we learn from it?"}},
		{gmg.TenantSpec{ID: "guide", Model: "tiny-guide"},
			[]string{"What is 7 + 5?", "What is the opposite of hot?", "What is SliceScheduler?", "What is the GMG?", "What does the planner do?"}},
	}
}
