#include "textflag.h"

// Products of 4 rows of a float matrix with 1 or 2 activation rows; lane j sums the columns j, j+8, ... The argument block is dotsArgs.
//
//	R8-R11 weight rows, BX from these to the next 4, SI and DI activation rows, CX columns/8 left
//	Y0-Y3 weights, Y4-Y5 activations, Y6-Y7 temporaries, Y8-Y15 sums

#define DOT_ARGS \
	MOVQ args+0(FP), R15; \
	MOVQ 16(R15), R8; \
	MOVQ 24(R15), R9; \
	LEAQ (R8)(R9*2), R10; \
	LEAQ (R10)(R9*1), R11; \
	ADDQ R8, R9; \
	MOVQ 32(R15), CX; \
	MOVQ 40(R15), SI; \
	MOVQ 48(R15), DI; \
	MOVQ 56(R15), BX

#define FROM_FLOAT(reg, y) \
	VMOVUPS (reg), y; \
	ADDQ    $32, reg

#define FROM_HALF(reg, y) \
	VCVTPH2PS (reg), y; \
	ADDQ      $16, reg

#define FROM_BFLOAT(reg, y) \
	VPMOVZXWD (reg), y; \
	VPSLLD    $16, y, y; \
	ADDQ      $16, reg

#define MULADD(w, x, acc, tmp) \
	VMULPS w, x, tmp; \
	VADDPS tmp, acc, acc

#define SUM(acc, x, at, base) \
	VEXTRACTF128 $1, acc, X6; \
	VADDPS       X6, x, x; \
	VMOVHLPS     x, x, X6; \
	VADDPS       X6, x, x; \
	VMOVSHDUP    x, X6; \
	VADDSS       X6, x, x; \
	VMOVSS       x, at(base)

#define TIMES1 MULADD(Y0, Y4, Y8, Y6); MULADD(Y1, Y4, Y9, Y7); MULADD(Y2, Y4, Y10, Y6); MULADD(Y3, Y4, Y11, Y7)
#define TIMES2 VMOVUPS (DI), Y5; ADDQ $32, DI; TIMES1; \
	MULADD(Y0, Y5, Y12, Y6); MULADD(Y1, Y5, Y13, Y7); MULADD(Y2, Y5, Y14, Y6); MULADD(Y3, Y5, Y15, Y7)

#define CLEAR1 VXORPS Y8, Y8, Y8; VXORPS Y9, Y9, Y9; VXORPS Y10, Y10, Y10; VXORPS Y11, Y11, Y11
#define CLEAR2 CLEAR1; VXORPS Y12, Y12, Y12; VXORPS Y13, Y13, Y13; VXORPS Y14, Y14, Y14; VXORPS Y15, Y15, Y15

#define SUMS1 \
	MOVQ 0(R15), AX; \
	SUM(Y8, X8, 0, AX); SUM(Y9, X9, 4, AX); SUM(Y10, X10, 8, AX); SUM(Y11, X11, 12, AX)
#define SUMS2 SUMS1; \
	ADDQ 8(R15), AX; \
	SUM(Y12, X12, 0, AX); SUM(Y13, X13, 4, AX); SUM(Y14, X14, 8, AX); SUM(Y15, X15, 12, AX)

// Weights come from memory: those of the next 4 rows are asked for while these are worked on.
#define AHEAD PREFETCHT0 (R8)(BX*1); PREFETCHT0 (R9)(BX*1); PREFETCHT0 (R10)(BX*1); PREFETCHT0 (R11)(BX*1)

#define DOTS(name, FROM, CLEARS, TIMES, SUMS) \
TEXT name(SB), NOSPLIT, $0-8; \
	DOT_ARGS; \
	CLEARS; \
loop: \
	AHEAD; \
	FROM(R8, Y0); \
	FROM(R9, Y1); \
	FROM(R10, Y2); \
	FROM(R11, Y3); \
	VMOVUPS (SI), Y4; \
	ADDQ $32, SI; \
	TIMES; \
	DECQ CX; \
	JNZ loop; \
	SUMS; \
	VZEROUPPER; \
	RET

// func dotsFloat1(args *dotsArgs)
DOTS(·dotsFloat1, FROM_FLOAT, CLEAR1, TIMES1, SUMS1)

// func dotsFloat2(args *dotsArgs)
DOTS(·dotsFloat2, FROM_FLOAT, CLEAR2, TIMES2, SUMS2)

// func dotsHalf1(args *dotsArgs)
DOTS(·dotsHalf1, FROM_HALF, CLEAR1, TIMES1, SUMS1)

// func dotsHalf2(args *dotsArgs)
DOTS(·dotsHalf2, FROM_HALF, CLEAR2, TIMES2, SUMS2)

// func dotsBFloat1(args *dotsArgs)
DOTS(·dotsBFloat1, FROM_BFLOAT, CLEAR1, TIMES1, SUMS1)

// func dotsBFloat2(args *dotsArgs)
DOTS(·dotsBFloat2, FROM_BFLOAT, CLEAR2, TIMES2, SUMS2)
