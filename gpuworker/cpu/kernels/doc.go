// Package kernels holds the arithmetic of the CPU device: matrix products over stored weights, norms, RoPE, activations and attention over paged KV.
//
// Every result row is one function of its own inputs: how many rows are in the batch, how work is split over threads and which path (portable Go or
// assembly) ran leave no trace in its bits. To that end each kernel fixes the order of its float32 operations, multiplies and adds are separate and
// each is rounded (no fused multiply-add, whose use would depend on the machine), and elementary functions are polynomials of our own.
//
// # Orders of sums
//
// Quantised products: activations are rounded to int8 per unit of 16 columns with a float32 scale. For weight row w and activation row x, with
// i(u) the exact integer sum of unit u:
//
//	acc  = acc + (float32(i(u))*xscale(u))*wscale(u)   for u = 0, 1, 2, ...
//	acc2 = acc2 + wmin(b)*xsum(b)                      for every block b of 32 columns (types with a minimum or a zero point)
//	y    = acc + zero*acc2
//
// where types with a zero point use wmin = wscale and zero = -8 or -16, types with a minimum zero = 1.
//
// Float products: lane j of 8 sums x[k]*w[k] for k = j, j+8, ... in order, then the lanes are added as ((0+4)+(2+6))+((1+5)+(3+7)), the order of
// every 8-lane sum here.
//
// Attention walks pages of 16 tokens from the first page of its window; see Attention.
//
// Callers own all buffers; nothing is allocated by a kernel. Sizes are checked where slices come in, and a wrong one panics: it is a bug of the caller.
package kernels
