package faulty_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker"
	"slicescheduler/gpuworker/faulty"
	"slicescheduler/gpuworker/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func wrap(t *testing.T, plan faulty.Plan) *faulty.Device {
	t.Helper()
	inner, err := sim.New(sim.Config{Device: gmg.Device{ID: "t/sim0", MemoryBytes: 1 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	return faulty.Wrap(inner, plan, sim.NewRealClock().Sleep)
}

func buffer(t *testing.T, d gpuworker.Device) gpuworker.Buffer {
	t.Helper()
	b, err := d.Reserve(gmg.MemStaging, 64)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestScriptedFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		d := wrap(t, faulty.Script{
			{Call: faulty.Upload, Nth: 2, Action: faulty.Action{Kind: faulty.Fail, Err: boom}},
			{Call: faulty.Download, Nth: 1, Action: faulty.Action{Kind: faulty.Slow, DelayNs: 5e9}},
			{Call: faulty.CopyPeer, Nth: 1, Action: faulty.Action{Kind: faulty.Hang}},
			{Call: faulty.Reserve, Nth: 2, Action: faulty.Action{Kind: faulty.Fail}},
		})
		b := buffer(t, d)
		if _, err := d.Reserve(gmg.MemKV, 1); !errors.Is(err, faulty.ErrInjected) {
			t.Errorf("reserve 2: %v", err)
		}
		for i, want := range []error{nil, boom, nil} {
			if err := d.Upload(gpuworker.QueueCopy, b, 0, make([]byte, 8)).Err(); !errors.Is(err, want) {
				t.Errorf("upload %d: %v, wants %v", i+1, err, want)
			}
		}
		start := time.Now()
		if err := d.Download(gpuworker.QueueCopy, make([]byte, 8), b, 0).Err(); err != nil || time.Since(start) != 5*time.Second {
			t.Errorf("slow download: %v after %v", err, time.Since(start))
		}
		hung := d.CopyPeer(gpuworker.QueueCopy, d, b, 0, b, 8, 8)
		synctest.Wait()
		select {
		case <-hung.Done():
			t.Error("a hung copy ended")
		default:
		}
		want := []string{"reserve 1 staging 64 ok", "reserve 2 kv 1 fail", "upload 1 queue 2 8 ok", "upload 2 queue 2 8 fail", "upload 3 queue 2 8 ok",
			"download 1 queue 2 8 slow", "copy-peer 1 queue 2 8 hang"}
		if got := d.Log(); !slices.Equal(got, want) {
			t.Errorf("log %q, wants %q", got, want)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if !errors.Is(hung.Err(), gpuworker.ErrDeviceClosed) {
			t.Errorf("the hung copy: %v", hung.Err())
		}
	})
}

func TestIllness(t *testing.T) {
	d := wrap(t, faulty.Script{{Call: faulty.Enqueue, Nth: 1, Action: faulty.Action{Kind: faulty.Sick}}, {Call: faulty.Upload, Nth: 1, Action: faulty.Action{Kind: faulty.Hang}}})
	defer func() { _ = d.Close() }()
	b := buffer(t, d)
	hung := d.Upload(gpuworker.QueueHome, b, 0, make([]byte, 8))
	if err := d.Enqueue(gpuworker.QueueHome, nil, &gpuworker.Batch{}).Err(); !errors.Is(err, gpuworker.ErrUnhealthy) || !errors.Is(err, faulty.ErrInjected) {
		t.Errorf("the step that made it ill: %v", err)
	}
	if !errors.Is(hung.Err(), gpuworker.ErrUnhealthy) {
		t.Errorf("pending: %v", hung.Err())
	}
	if err := d.Upload(gpuworker.QueueHome, b, 0, make([]byte, 8)).Err(); !errors.Is(err, gpuworker.ErrUnhealthy) {
		t.Errorf("later: %v", err)
	}
	if _, err := d.LoadWeight(context.Background(), gmg.Weight{}, nil); !errors.Is(err, gpuworker.ErrUnhealthy) {
		t.Errorf("load: %v", err)
	}
	if desc := d.Describe(); desc.Healthy || desc.Reason == "" {
		t.Errorf("described as %+v", desc)
	}
	if err := d.Release(b); err != nil {
		t.Errorf("memory of an ill device: %v", err)
	}
}

func TestSeededPlansRepeat(t *testing.T) {
	p := faulty.Seeded{Seed: 7, Actions: []faulty.Action{{Kind: faulty.Fail}, {Kind: faulty.Slow, DelayNs: 1}}}
	p.Rate[faulty.Enqueue] = 0.3
	faults, slow := 0, 0
	for n := 1; n <= 10000; n++ {
		a := p.Decide(faulty.Enqueue, n)
		if a != p.Decide(faulty.Enqueue, n) {
			t.Fatal("a decision changed")
		}
		if a.Kind != faulty.None {
			faults++
		}
		if a.Kind == faulty.Slow {
			slow++
		}
		if p.Decide(faulty.Upload, n).Kind != faulty.None {
			t.Fatal("a fault in a call with rate 0")
		}
	}
	if faults < 2800 || faults > 3200 || slow < 1300 || slow > 1700 {
		t.Errorf("%d faults of 10000, %d of them slow; the rate is 0.3, half of them slow", faults, slow)
	}
}
