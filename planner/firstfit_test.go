package planner

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"slicescheduler/gmg"
)

// device returns a device on which each of stages stages takes 100 bytes of weights and 1 byte a KV page.
func device(id string, free int64, stages int) Sizes {
	s := Sizes{Device: gmg.DeviceID(id), CapacityBytes: 1 << 20, FreeBytes: free, FixedBytes: 10}
	for range stages {
		s.StageBytes, s.BlockBytes = append(s.StageBytes, 100), append(s.BlockBytes, 1)
	}
	return s
}

func layout(p Placement) string {
	text := fmt.Sprintf("%d pages", p.KVBlocks)
	for _, s := range p.Slices {
		text += fmt.Sprintf(" %s[%d,%d)", s.Device, s.Stages.From, s.Stages.To)
	}
	return text
}

func TestFirstFit(t *testing.T) {
	demand := Demand{Stages: 6, WantBlocks: 100, MinBlocks: 10, KVSharePct: 50}
	tied := device("a", 700, 6)
	tied.TiedBytes = 100
	over := demand
	over.SplitOver = 2
	staged := device("a", 500, 6)
	staged.SlotBytes = 60
	tests := []struct {
		name    string
		demand  Demand
		devices []Sizes
		want    string
		err     error
	}{
		{"first that fits", demand, []Sizes{device("a", 600, 6), device("b", 2000, 6), device("c", 4000, 6)}, "100 pages b[0,6)", nil},
		{"KV takes its share only", demand, []Sizes{device("a", 1210, 6)}, "50 pages a[0,6)", nil},
		{"tied weight counts once", demand, []Sizes{tied}, "", ErrNoRoom},
		{"split when none holds all", demand, []Sizes{device("a", 500, 6), device("b", 500, 6)}, "31 pages a[0,3) b[3,6)", nil},
		{"staging for a second step in flight", demand, []Sizes{staged, device("b", 500, 6)}, "21 pages a[0,3) b[3,6)", nil},
		{"uneven where memory is", demand, []Sizes{device("a", 280, 6), device("b", 550, 6)}, "17 pages a[0,2) b[2,6)", nil},
		{"as few as fit", demand, []Sizes{device("a", 300, 6), device("b", 500, 6), device("c", 500, 6)}, "31 pages b[0,3) c[3,6)", nil},
		{"split over two though one would do", over, []Sizes{device("a", 4000, 6), device("b", 4000, 6), device("c", 4000, 6)},
			"100 pages a[0,3) b[3,6)", nil},
		{"split over more than there are", over, []Sizes{device("a", 4000, 6)}, "", ErrNoRoom},
		{"later, perhaps", demand, []Sizes{device("a", 100, 6)}, "", ErrNoRoom},
		{"nothing wanted", Demand{}, []Sizes{device("a", 100, 6)}, "", ErrDemand},
		{"no devices", demand, nil, "", ErrNoRoom},
	}
	tests[2].devices[0].FreeBytes = 520 // weights and workspace take 510, half of the 10 left is less than one page for all six stages
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p, err := FirstFit(test.demand, test.devices)
			if !errors.Is(err, test.err) {
				t.Fatalf("error %v, want %v", err, test.err)
			}
			if err == nil && layout(p) != test.want {
				t.Errorf("%s, want %s", layout(p), test.want)
			}
		})
	}
}

func TestFirstFitNeverFits(t *testing.T) {
	small := device("a", 100, 6)
	small.CapacityBytes = 100
	_, err := FirstFit(Demand{Stages: 6, WantBlocks: 10, MinBlocks: 10, KVSharePct: 50}, []Sizes{small})
	if !errors.Is(err, ErrNeverFits) {
		t.Errorf("error %v, want ErrNeverFits", err)
	}
}

func TestFirstFitTiedWeight(t *testing.T) {
	d := device("a", 1000, 6)
	d.TiedBytes = 100
	p, err := FirstFit(Demand{Stages: 6, WantBlocks: 10, MinBlocks: 10, KVSharePct: 50}, []Sizes{d})
	if err != nil || p.Slices[0].WeightBytes != 500 {
		t.Errorf("%d weight bytes, error %v; want 500", p.Slices[0].WeightBytes, err)
	}
}

// Whatever is placed covers the graph once and stays within every device's free memory.
func TestFirstFitStaysWithinMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stages := rapid.IntRange(1, 12).Draw(t, "stages")
		var devices []Sizes
		for i := range rapid.IntRange(1, 4).Draw(t, "devices") {
			s := Sizes{Device: gmg.DeviceID(fmt.Sprint("d", i)), FixedBytes: rapid.Int64Range(0, 50).Draw(t, "fixed"),
				SlotBytes: rapid.Int64Range(0, 20).Draw(t, "slot")}
			s.FreeBytes = rapid.Int64Range(0, 2000).Draw(t, "free")
			s.CapacityBytes = s.FreeBytes + rapid.Int64Range(0, 2000).Draw(t, "taken")
			for range stages {
				s.StageBytes = append(s.StageBytes, rapid.Int64Range(0, 300).Draw(t, "weights"))
				s.BlockBytes = append(s.BlockBytes, rapid.Int64Range(0, 9).Draw(t, "page"))
			}
			devices = append(devices, s)
		}
		d := Demand{Stages: stages, MinBlocks: 2, WantBlocks: 20, KVSharePct: rapid.IntRange(1, 100).Draw(t, "share"),
			SplitOver: rapid.IntRange(0, min(stages, 4)).Draw(t, "over")}
		p, err := FirstFit(d, devices)
		if err != nil {
			if !errors.Is(err, ErrNoRoom) && !errors.Is(err, ErrNeverFits) {
				t.Fatal(err)
			}
			return
		}
		checkPlacement(t, d, devices, p)
	})
}

func checkPlacement(t *rapid.T, d Demand, devices []Sizes, p Placement) {
	if len(p.Slices) < d.SplitOver || p.KVBlocks < d.MinBlocks || p.KVBlocks > d.WantBlocks {
		t.Fatalf("%s for %+v", layout(p), d)
	}
	at := 0
	for _, slice := range p.Slices {
		if slice.Stages.From != at || slice.Stages.Len() < 1 {
			t.Fatalf("stages aren't covered in order: %s", layout(p))
		}
		at = slice.Stages.To
		for _, s := range devices {
			if s.Device == slice.Device && slice.WeightBytes+slice.KVBytes+s.FixedBytes+int64(len(p.Slices)-1)*s.SlotBytes > s.FreeBytes {
				t.Fatalf("%s takes more than is free: %+v", layout(p), slice)
			}
		}
	}
	if at != d.Stages {
		t.Fatalf("%d of %d stages are placed", at, d.Stages)
	}
}
