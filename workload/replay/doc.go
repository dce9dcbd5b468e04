// Package replay runs scheduling policies on replayed traces: a simulated world that knows the truth, and policies that see only what can be observed.
//
// A Scenario describes a cluster, its tenants and a trace. Open makes a Setup of it, on which Run replays one policy at one load. Search finds a policy's
// capacity, Sweep compares policies, and Size finds the smallest cluster. All of them may be used from several goroutines.
package replay
