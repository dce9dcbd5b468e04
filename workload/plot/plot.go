// Package plot holds the plotting library that pages of this room carry within themselves, so that they need nothing from elsewhere.
package plot

import _ "embed" // the library

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
