// Package workload holds what requests are, were and should have been: SLA accounting, trace formats, generators and reports of replays.
//
// It is pure but for reading trace files at its edge: time is an argument in integer nanoseconds.
package workload
