#include "textflag.h"
#include "exp_amd64.h"

// func siluAVX2(dst, gate, up *float32, steps int)
TEXT ·siluAVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ gate+8(FP), SI
	MOVQ up+16(FP), DX
	MOVQ steps+24(FP), CX

loop:
	VMOVUPS (SI), Y5
	VXORPS  CONST(14), Y5, Y0
	EXP
	VADDPS  CONST(12), Y0, Y0
	VDIVPS  Y0, Y5, Y0
	VMULPS  (DX), Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DX
	ADDQ    $32, DI
	DECQ    CX
	JNZ     loop
	VZEROUPPER
	RET

// func geluAVX2(dst, gate, up *float32, steps int)
TEXT ·geluAVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ gate+8(FP), SI
	MOVQ up+16(FP), DX
	MOVQ steps+24(FP), CX

loop:
	VMOVUPS (SI), Y5
	VMULPS  Y5, Y5, Y0
	VMULPS  Y5, Y0, Y0
	VMULPS  CONST(15), Y0, Y0
	VADDPS  Y5, Y0, Y0
	VMULPS  CONST(16), Y0, Y0
	EXP
	VADDPS  CONST(12), Y0, Y0
	VDIVPS  Y0, Y5, Y0
	VMULPS  (DX), Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DX
	ADDQ    $32, DI
	DECQ    CX
	JNZ     loop
	VZEROUPPER
	RET

// func addAVX2(dst, a, b *float32, steps int)
TEXT ·addAVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ steps+24(FP), CX

loop:
	VMOVUPS (SI), Y0
	VADDPS  (DX), Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DX
	ADDQ    $32, DI
	DECQ    CX
	JNZ     loop
	VZEROUPPER
	RET

// func sumSquaresAVX2(sums *[8]float32, x *float32, steps int)
TEXT ·sumSquaresAVX2(SB), NOSPLIT, $0-24
	MOVQ   sums+0(FP), DI
	MOVQ   x+8(FP), SI
	MOVQ   steps+16(FP), CX
	VXORPS Y0, Y0, Y0

loop:
	VMOVUPS (SI), Y1
	VMULPS  Y1, Y1, Y1
	VADDPS  Y1, Y0, Y0
	ADDQ    $32, SI
	DECQ    CX
	JNZ     loop
	VMOVUPS Y0, (DI)
	VZEROUPPER
	RET

// func scaleByAVX2(dst, src, weight *float32, steps int, factor, plus float32)
TEXT ·scaleByAVX2(SB), NOSPLIT, $0-40
	MOVQ         dst+0(FP), DI
	MOVQ         src+8(FP), SI
	MOVQ         weight+16(FP), DX
	MOVQ         steps+24(FP), CX
	VBROADCASTSS factor+32(FP), Y2
	VBROADCASTSS plus+36(FP), Y3

loop:
	VMULPS  (SI), Y2, Y0
	VADDPS  (DX), Y3, Y1
	VMULPS  Y1, Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DX
	ADDQ    $32, DI
	DECQ    CX
	JNZ     loop
	VZEROUPPER
	RET

// Quantises 16 columns at (SI) to (DI): the scale goes to X0, 32 times the integers' sum to fixAt, this sum times the scale
// to sum. X13 holds minScale, X14 127, X15 1.
#define QUANTISE(at, iat, scaleAt, fixAt, sum) \
	VMOVUPS     at(SI), Y4; \
	VMOVUPS     (at+32)(SI), Y5; \
	VANDPS      CONST(17), Y4, Y0; \
	VANDPS      CONST(17), Y5, Y1; \
	VMAXPS      Y1, Y0, Y0; \
	LARGEST; \
	VDIVPS      Y14, Y0, Y0; \
	VCMPPS      $13, Y13, Y0, Y2; \
	VDIVPS      Y0, Y15, Y1; \
	VANDPS      Y2, Y1, Y1; \
	VANDPS      Y2, Y0, Y0; \
	VMOVSS      X0, scaleAt(DX); \
	VMULPS      Y1, Y4, Y4; \
	VMULPS      Y1, Y5, Y5; \
	VCVTPS2DQ   Y4, Y4; \
	VCVTPS2DQ   Y5, Y5; \
	VPADDD      Y5, Y4, Y6; \
	VPACKSSDW   Y5, Y4, Y4; \
	VPERMQ      $0xd8, Y4, Y4; \
	VEXTRACTI128 $1, Y4, X5; \
	VPACKSSWB   X5, X4, X4; \
	VMOVDQU     X4, iat(DI); \
	VEXTRACTI128 $1, Y6, X5; \
	VPADDD      X5, X6, X6; \
	VPSHUFD     $0x4e, X6, X5; \
	VPADDD      X5, X6, X6; \
	VPSHUFD     $0xb1, X6, X5; \
	VPADDD      X5, X6, X6; \
	VPSLLD      $5, X6, X5; \
	VMOVD       X5, fixAt(DX); \
	VCVTDQ2PS   X6, X6; \
	VMULPS      X0, X6, sum

// func quantizeAVX2(ints *int8, scales *blockScale, x *float32, blocks int)
TEXT ·quantizeAVX2(SB), NOSPLIT, $0-32
	MOVQ    ints+0(FP), DI
	MOVQ    scales+8(FP), DX
	MOVQ    x+16(FP), SI
	MOVQ    blocks+24(FP), CX
	VMOVUPS CONST(18), Y13
	VMOVUPS CONST(19), Y14
	VMOVUPS CONST(12), Y15

loop:
	QUANTISE(0, 0, 0, 12, X8)
	QUANTISE(64, 16, 4, 16, X9)
	VADDSS X9, X8, X8
	VMOVSS X8, 8(DX)
	ADDQ   $128, SI
	ADDQ   $32, DI
	ADDQ   $20, DX
	DECQ   CX
	JNZ    loop
	VZEROUPPER
	RET

// func halvesAVX2(dst *uint16, src *float32, steps int)
TEXT ·halvesAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ steps+16(FP), CX

loop:
	VMOVUPS   (SI), Y0
	VCVTPS2PH $0, Y0, (DI)
	ADDQ      $32, SI
	ADDQ      $16, DI
	DECQ      CX
	JNZ       loop
	VZEROUPPER
	RET
