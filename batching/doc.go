// Package batching forms steps: admission, chunked prefill, the decode set, KV blocks, prefix reuse, preemption by recompute and ageing. Tenant actors and
// the simulator share this one implementation, so a forecast schedules exactly as the runtime does.
//
// The package is pure: no goroutines, clocks, randomness, network or files. Time is an argument in integer nanoseconds.
package batching
