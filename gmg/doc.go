// Package gmg is the global mapping graph: one live graph of the whole cluster that holds every operator's dependencies,
// symbolic shapes, cost and weights; the devices and links it may run on; the lanes and slices it is mapped to; and the
// execution state of both.
//
// What is known is kept as facts (Fact), each written by one node. A Store is one node's copy: it writes its own facts, merges the others' deltas
// and hands out Snapshots, which are immutable and cost the same at any size of cluster. How conflicts end is said at Fact; how gaps are
// noticed and repaired, at Span, Gap and Snapshot.DeltaSince.
//
// The package is pure: no goroutines, clocks, randomness, network, files or actor imports. Time is an argument in integer
// nanoseconds. Everything else in SliceScheduler imports it, and it imports nothing of SliceScheduler.
package gmg
