// Package planner decides where slices run. It is pure: from sizes and a snapshot to a placement, with no goroutines, clocks or randomness of its own.
package planner
