package node

import (
	"slices"
	"testing"

	"slicescheduler/cmd/slicer/internal/devspec"
	"slicescheduler/gmg"
)

func TestCompleteSharesWhatIsLeft(t *testing.T) {
	m := Machine{Cores: 8, MemoryBytes: 32 << 30}
	cpu := func(cores int, memory int64) devspec.Device {
		return devspec.Device{Kind: gmg.DeviceCPU, Cores: cores, MemoryBytes: memory}
	}
	sim := devspec.Device{Kind: gmg.DeviceSim, Model: "h100", MemoryBytes: 80 << 30}
	for name, tt := range map[string]struct{ in, want []devspec.Device }{
		"all of it":              {[]devspec.Device{cpu(0, 0)}, []devspec.Device{cpu(8, 16<<30)}},
		"the rest":               {[]devspec.Device{cpu(2, 4<<30), cpu(0, 0)}, []devspec.Device{cpu(2, 4<<30), cpu(6, 12<<30)}},
		"equal shares":           {[]devspec.Device{cpu(0, 0), cpu(0, 0)}, []devspec.Device{cpu(4, 8<<30), cpu(4, 8<<30)}},
		"more than there is":     {[]devspec.Device{cpu(8, 30<<30), cpu(0, 0)}, []devspec.Device{cpu(8, 30<<30), cpu(1, minSharedBytes)}},
		"simulated stays itself": {[]devspec.Device{sim, cpu(0, 0)}, []devspec.Device{sim, cpu(8, 16<<30)}},
	} {
		if got := complete(tt.in, m); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
	if got := complete([]devspec.Device{cpu(0, 0)}, Machine{Cores: 1, MemoryBytes: 1 << 20}); got[0].MemoryBytes != minSharedBytes {
		t.Errorf("a tiny machine: %+v", got)
	}
}

func TestDevicesAndLinks(t *testing.T) {
	specs, err := devspec.Parse("cpu:1*2,mem=64MiB;sim:rtx4090")
	if err != nil {
		t.Fatal(err)
	}
	devices, err := openDevices("n", specs, Machine{Cores: 2, MemoryBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	var ids []gmg.DeviceID
	for _, d := range devices {
		ids = append(ids, d.Describe().ID)
	}
	if !slices.Equal(ids, []gmg.DeviceID{"n/cpu0", "n/cpu1", "n/sim0"}) {
		t.Errorf("devices %v", ids)
	}
	if got := len(linksOf("n", devices)); got != 8 {
		t.Errorf("%d links, want both ways between the host and three devices and between the two CPU devices", got)
	}
	if err := closeDevices(devices); err != nil {
		t.Error(err)
	}
}
