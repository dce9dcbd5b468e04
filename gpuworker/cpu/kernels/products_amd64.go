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
	minOffset    int
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
	ahead        int // from weights to those of the next 4 rows
}

//go:noescape
func smallHalf1(args *groupArgs)

//go:noescape
func smallHalf2(args *groupArgs)

//go:noescape
func smallHalf3(args *groupArgs)

//go:noescape
func smallHalf4(args *groupArgs)

//go:noescape
func fifthHalf1(args *groupArgs)

//go:noescape
func fifthHalf2(args *groupArgs)

//go:noescape
func fifthHalf3(args *groupArgs)

//go:noescape
func fifthHalf4(args *groupArgs)

//go:noescape
func smallSuper1(args *groupArgs)

//go:noescape
func smallSuper2(args *groupArgs)

//go:noescape
func smallSuper3(args *groupArgs)

//go:noescape
func smallSuper4(args *groupArgs)

//go:noescape
func fifthSuper1(args *groupArgs)

//go:noescape
func fifthSuper2(args *groupArgs)

//go:noescape
func fifthSuper3(args *groupArgs)

//go:noescape
func fifthSuper4(args *groupArgs)

//go:noescape
func sixSuper1(args *groupArgs)

//go:noescape
func sixSuper2(args *groupArgs)

//go:noescape
func sixSuper3(args *groupArgs)

//go:noescape
func sixSuper4(args *groupArgs)

//go:noescape
func byteHalf1(args *groupArgs)

//go:noescape
func byteHalf2(args *groupArgs)

//go:noescape
func byteHalf3(args *groupArgs)

//go:noescape
func byteHalf4(args *groupArgs)

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
	for i := 0; i < n; i += fullRows {
		a.out = unsafe.Pointer(&out[i*stride])
		a.ints = unsafe.Pointer(&x.ints[(first+i)*x.Cols])
		a.scales = unsafe.Pointer(&x.scales[(first+i)*m.blocks])
		groupRowsOf(l, &a, min(fullRows, n-i))
	}
}

// groupRowsOf multiplies a group with n activation rows, at most fullRows.
func groupRowsOf(l *layout, a *groupArgs, n int) {
	switch {
	case l.class == classByte:
		byteHalf(a, n)
	case l.class == classSix:
		sixSuper(a, n)
	case l.fifth && l.super:
		fifthSuper(a, n)
	case l.fifth:
		fifthHalf(a, n)
	case l.super:
		smallSuper(a, n)
	default:
		smallHalf(a, n)
	}
}

func smallHalf(a *groupArgs, n int) {
	switch n {
	case 1:
		smallHalf1(a)
	case 2:
		smallHalf2(a)
	case 3:
		smallHalf3(a)
	default:
		smallHalf4(a)
	}
}

func fifthHalf(a *groupArgs, n int) {
	switch n {
	case 1:
		fifthHalf1(a)
	case 2:
		fifthHalf2(a)
	case 3:
		fifthHalf3(a)
	default:
		fifthHalf4(a)
	}
}

func smallSuper(a *groupArgs, n int) {
	switch n {
	case 1:
		smallSuper1(a)
	case 2:
		smallSuper2(a)
	case 3:
		smallSuper3(a)
	default:
		smallSuper4(a)
	}
}

func fifthSuper(a *groupArgs, n int) {
	switch n {
	case 1:
		fifthSuper1(a)
	case 2:
		fifthSuper2(a)
	case 3:
		fifthSuper3(a)
	default:
		fifthSuper4(a)
	}
}

func sixSuper(a *groupArgs, n int) {
	switch n {
	case 1:
		sixSuper1(a)
	case 2:
		sixSuper2(a)
	case 3:
		sixSuper3(a)
	default:
		sixSuper4(a)
	}
}

func byteHalf(a *groupArgs, n int) {
	switch n {
	case 1:
		byteHalf1(a)
	case 2:
		byteHalf2(a)
	case 3:
		byteHalf3(a)
	default:
		byteHalf4(a)
	}
}

func dotsAVX2(out []float32, stride int, m *Matrix, from, to int, x *Rows, first, n int) {
	if to-from != floatGroup || m.Cols%lanes != 0 {
		dotsPortable(out, stride, m, from, to, x, first, n)
		return
	}
	rowBytes := m.Cols * m.DType.BlockBytes()
	a := dotsArgs{outStride: stride * 4, weights: unsafe.Pointer(&m.data[from*rowBytes]), weightStride: rowBytes, steps: m.Cols / lanes, ahead: floatGroup * rowBytes}
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
