package sim

import (
	"context"
	"time"
)

// Clock is where a simulated device's time comes from.
type Clock interface {
	NowNs() int64
	// Sleep blocks for a time, or until ctx is done.
	Sleep(ctx context.Context, ns int64)
}

// RealClock is the machine's time, or that of a testing/synctest bubble.
type RealClock struct {
	start time.Time
}

// NewRealClock returns a clock that begins at 0.
func NewRealClock() RealClock { return RealClock{time.Now()} }

// NowNs implements Clock.
func (c RealClock) NowNs() int64 { return time.Since(c.start).Nanoseconds() }

// Sleep implements Clock.
func (c RealClock) Sleep(ctx context.Context, ns int64) {
	if ns <= 0 {
		return
	}
	timer := time.NewTimer(time.Duration(ns))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
