// Package faulty wraps any device and makes it fail, be slow, hang or become unhealthy by a plan, and logs what is asked of it.
package faulty

import (
	"errors"
	"fmt"
)

// ErrInjected is the error of injected failures that name none of their own.
var ErrInjected = errors.New("injected fault")

// Call is a kind of call that can be made to fail.
type Call uint8

// Calls.
const (
	Reserve Call = iota
	LoadWeight
	Compile
	Upload
	Download
	CopyPeer
	Enqueue
	NumCalls
)

var callNames = [NumCalls]string{"reserve", "load-weight", "compile", "upload", "download", "copy-peer", "enqueue"}

// String returns the call's name in logs.
func (c Call) String() string {
	if c >= NumCalls {
		return fmt.Sprintf("call(%d)", uint8(c))
	}
	return callNames[c]
}

// Kind is what happens to a call.
type Kind uint8

// Kinds of faults. Slow calls do their work and end later by DelayNs. Hung calls do nothing and end only when the device closes or becomes unhealthy.
// Sick makes the device unhealthy with this call.
const (
	None Kind = iota
	Fail
	Slow
	Hang
	Sick
)

// Action is what a plan wants done to one call.
type Action struct {
	Kind    Kind
	Err     error // of Fail and Sick; nil: ErrInjected
	DelayNs int64 // of Slow
}

// Plan decides about each call; n counts calls of that kind from 1. Plans are pure, so that a run can be repeated.
type Plan interface {
	Decide(c Call, n int) Action
}

// Fault is one line of a Script.
type Fault struct {
	Call Call
	Nth  int // 1: the first call of this kind; 0: every one
	Action
}

// Script is a plan written out. The first line that fits a call counts.
type Script []Fault

// Decide implements Plan.
func (s Script) Decide(c Call, n int) Action {
	for _, f := range s {
		if f.Call == c && (f.Nth == n || f.Nth == 0) {
			return f.Action
		}
	}
	return Action{}
}

// Seeded is a plan that fails each call of some kinds with a probability, by a hash of seed, kind and count.
type Seeded struct {
	Seed    uint64
	Rate    [NumCalls]float64 // 0 to 1
	Actions []Action          // one of these is chosen; none: Fail
}

// Decide implements Plan.
func (s Seeded) Decide(c Call, n int) Action {
	h := scramble(s.Seed ^ scramble(uint64(c)<<32+uint64(n)))
	if float64(h>>11)/(1<<53) >= s.Rate[c] {
		return Action{}
	}
	if len(s.Actions) == 0 {
		return Action{Kind: Fail}
	}
	return s.Actions[scramble(h)%uint64(len(s.Actions))]
}

// scramble is the finaliser of splitmix64.
func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
