package devspec

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"slicescheduler/gmg"
)

func TestParse(t *testing.T) {
	cpu := func(cores int, memory int64) Device {
		return Device{Kind: gmg.DeviceCPU, Cores: cores, MemoryBytes: memory}
	}
	sim := Device{Kind: gmg.DeviceSim, Model: "rtx4090", MemoryBytes: 24 << 30}
	for spec, want := range map[string][]Device{
		"cpu":                            {cpu(0, 0)},
		"cpu:2":                          {cpu(2, 0)},
		"cpu:1,mem=4GiB;cpu:1":           {cpu(1, 4<<30), cpu(1, 0)},
		" cpu:1 ; cpu:3,mem=1.5g":        {cpu(1, 0), cpu(3, 3<<29)},
		"cpu:1*2":                        {cpu(1, 0), cpu(1, 0)},
		"sim:RTX4090*2":                  {sim, sim},
		"sim:rtx4090,mem=12GB;cpu:1*1":   {{Kind: gmg.DeviceSim, Model: "rtx4090", MemoryBytes: 12e9}, cpu(1, 0)},
		"cpu:1,mem=1024;cpu:1,mem=2.5kb": {cpu(1, 1024), cpu(1, 2500)},
	} {
		got, err := Parse(spec)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %+v, %v; want %+v", spec, got, err, want)
		}
	}
}

func TestErrorsNameThePiece(t *testing.T) {
	for _, tt := range []struct{ spec, piece, says string }{
		{"", "", "begin with cpu or sim"},
		{"cpu:1;", "", "begin with cpu or sim"},
		{"cpu:1;gpu:2", "gpu:2", "begin with cpu or sim"},
		{"cpu:1;cpu:0", "cpu:0", "number of cores"},
		{"cpu:x", "cpu:x", "number of cores"},
		{"cpu:", "cpu:", "number of cores"},
		{"sim:rtx5", "sim:rtx5", "rtx4090"},
		{"sim", "sim", "rtx4090"},
		{"cpu:1*0", "cpu:1*0", "number of devices"},
		{"cpu:1*999999999999", "cpu:1*999999999999", "number of devices"},
		{"cpu:1*1000;cpu:1*1000", "cpu:1*1000", "more than"},
		{"cpu:1,mem=lots", "cpu:1,mem=lots", "size of memory"},
		{"cpu:1,mem=-4GiB", "cpu:1,mem=-4GiB", "size of memory"},
		{"cpu:1,mem=NaN", "cpu:1,mem=NaN", "size of memory"},
		{"cpu:1,mem=1e30", "cpu:1,mem=1e30", "size of memory"},
		{"cpu:1,mem=64MiB*2", "cpu:1,mem=64MiB*2", "size of memory"},
		{"cpu:1,cores=2", "cpu:1,cores=2", "mem="},
	} {
		_, err := Parse(tt.spec)
		var e *Error
		if !errors.As(err, &e) || e.Piece != tt.piece || !strings.Contains(e.Reason, tt.says) {
			t.Errorf("%q: got %v, want piece %q and %q", tt.spec, err, tt.piece, tt.says)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"cpu:1,mem=4GiB;cpu:1", "sim:rtx4090*8", "cpu*3", ";;", "cpu:1,mem=1e-9TiB"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		devices, err := Parse(spec)
		if err != nil {
			if devices != nil {
				t.Errorf("%q: both devices and %v", spec, err)
			}
			return
		}
		if len(devices) == 0 || len(devices) > MaxDevices {
			t.Errorf("%q: %d devices", spec, len(devices))
		}
		for _, d := range devices {
			if d.MemoryBytes < 0 || d.Cores < 0 {
				t.Errorf("%q: %+v", spec, d)
			}
		}
	})
}
