// Package gmg is the global mapping graph: one live graph of the whole cluster that holds every operator's dependencies,
// symbolic shapes, cost and weights; the devices and links it may run on; the lanes and slices it is mapped to; and the
// execution state of both.
//
// The package is pure: no goroutines, clocks, randomness, network, files or actor imports. Time is an argument in integer
// nanoseconds. Everything else in SliceScheduler imports it, and it imports nothing of SliceScheduler.
package gmg
