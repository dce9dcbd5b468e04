// Package plot holds the plotting library that pages of this room carry within themselves, so that they need nothing from elsewhere.
package plot

import (
	_ "embed" // the library
	"math"
)

// Script is uPlot, which defines the global uPlot.
//
//go:embed uPlot.iife.min.js
var Script string

// Style is uPlot's style sheet.
//
//go:embed uPlot.min.css
var Style string

// Licence must travel with every page that carries the library, as it asks.
//
//go:embed uPlot.LICENSE
var Licence string

// Thousandth rounds to what a chart can show, which keeps pages small.
func Thousandth(v float64) float64 { return Finite(math.Round(v*1e3) / 1e3) }

// Finite replaces by 0 what JSON can't hold.
func Finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}
