// Package whatif is the simulator: what would happen if? A discrete-event engine over integer nanoseconds runs tenants' steps, formed by package
// batching, operator by operator on devices and links; cost models say what an operator takes, from measured tables where there are any, else from the
// roofline.
//
// The package is pure: no goroutines, clocks, randomness, network or files. The same inputs give the same bytes out.
package whatif
