package kernels

import (
	"unsafe"

	"slicescheduler/gmg"
)

// groupArgs is what the products of one group of weight rows take; the assembly knows its offsets.
type groupArgs struct {
	out          unsafe.Pointer
	outStride    int // bytes, as all strides here
	weights      unsafe.Pointer
	blockBytes   int
	minOffset    int // for classByte, where the scales of unit 1 lie
	valueOffset  int
	blocks       int
	ints         unsafe.Pointer
	intsStride   int
	scales       unsafe.Pointer
	scalesStride int
	zero         float32
}

// dotsArgs is what the products of 4 rows of a float matrix take.
type dotsArgs struct {
	out          unsafe.Pointer
	outStride    int
	weights      unsafe.Pointer
	weightStride int
	steps        int // columns/8
	x0, x1       unsafe.Pointer
}

//go:noescape
func smallHalf1(args *groupArgs)

//go:noescape
func smallHalf4(args *groupArgs)

//go:noescape
func smallFloat1(args *groupArgs)

//go:noescape
func smallFloat4(args *groupArgs)

//go:noescape
func fifthHalf1(args *groupArgs)

//go:noescape
func fifthHalf4(args *groupArgs)

//go:noescape
func fifthFloat1(args *groupArgs)

//go:noescape
func fifthFloat4(args *groupArgs)

//go:noescape
func byteHalf1(args *groupArgs)

//go:noescape
func byteHalf4(args *groupArgs)

//go:noescape
func byteFloat1(args *groupArgs)

//go:noescape
func byteFloat4(args *groupArgs)

//go:noescape
func dotsFloat1(args *dotsArgs)

//go:noescape
func dotsFloat2(args *dotsArgs)

//go:noescape
func dotsHalf1(args *dotsArgs)

//go:noescape
func dotsHalf2(args *dotsArgs)

//go:noescape
func dotsBFloat1(args *dotsArgs)

//go:noescape
func dotsBFloat2(args *dotsArgs)

// fullRows is how many activation rows the assembly multiplies at once.
const fullRows = 4

func groupAVX2(out []float32, stride int, m *Matrix, group int, x *Rows, first, n int) {
	l := &m.layout
	a := groupArgs{outStride: stride * 4, weights: unsafe.Pointer(&m.data[group*m.groupBytes]), blockBytes: l.blockBytes(), minOffset: l.minOffset(),
		valueOffset: l.valueOffset(), blocks: m.blocks, intsStride: x.Cols, scalesStride: m.blocks * blockScaleBytes, zero: l.zero}
	if l.unitScales {
		a.minOffset = l.scaleBytes()
	}
	for i := 0; i < n; {
		a.out = unsafe.Pointer(&out[i*stride])
		a.ints = unsafe.Pointer(&x.ints[(first+i)*x.Cols])
		a.scales = unsafe.Pointer(&x.scales[(first+i)*m.blocks])
		if n-i >= fullRows {
			group4(l, &a)
			i += fullRows
		} else {
			group1(l, &a)
			i++
		}
	}
}

func group1(l *layout, a *groupArgs) {
	switch {
	case l.class == classByte && l.floats:
		byteFloat1(a)
	case l.class == classByte:
		byteHalf1(a)
	case l.fifth && l.floats:
		fifthFloat1(a)
	case l.fifth:
		fifthHalf1(a)
	case l.floats:
		smallFloat1(a)
	default:
		smallHalf1(a)
	}
}

func group4(l *layout, a *groupArgs) {
	switch {
	case l.class == classByte && l.floats:
		byteFloat4(a)
	case l.class == classByte:
		byteHalf4(a)
	case l.fifth && l.floats:
		fifthFloat4(a)
	case l.fifth:
		fifthHalf4(a)
	case l.floats:
		smallFloat4(a)
	default:
		smallHalf4(a)
	}
}

func dotsAVX2(out []float32, stride int, m *Matrix, from, to int, x *Rows, first, n int) {
	if to-from != floatGroup || m.Cols%lanes != 0 {
		dotsPortable(out, stride, m, from, to, x, first, n)
		return
	}
	rowBytes := m.Cols * m.DType.BlockBytes()
	a := dotsArgs{outStride: stride * 4, weights: unsafe.Pointer(&m.data[from*rowBytes]), weightStride: rowBytes, steps: m.Cols / lanes}
	for i := 0; i < n; i += 2 {
		a.out = unsafe.Pointer(&out[i*stride])
		a.x0 = unsafe.Pointer(&x.Float[(first+i)*x.Cols])
		if i+1 < n {
			a.x1 = unsafe.Pointer(&x.Float[(first+i+1)*x.Cols])
			dots2(m.DType, &a)
		} else {
			dots1(m.DType, &a)
		}
	}
}

func dots1(d gmg.DType, a *dotsArgs) {
	switch d {
	case gmg.F32:
		dotsFloat1(a)
	case gmg.F16:
		dotsHalf1(a)
	default:
		dotsBFloat1(a)
	}
}

func dots2(d gmg.DType, a *dotsArgs) {
	switch d {
	case gmg.F32:
		dotsFloat2(a)
	case gmg.F16:
		dotsHalf2(a)
	default:
		dotsBFloat2(a)
	}
}
