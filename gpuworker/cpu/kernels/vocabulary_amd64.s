#include "textflag.h"
#include "exp_amd64.h"

// func magnitudeAVX2(most *[8]uint32, x *float32, steps int)
TEXT ·magnitudeAVX2(SB), NOSPLIT, $0-24
	MOVQ    most+0(FP), DI
	MOVQ    x+8(FP), SI
	MOVQ    steps+16(FP), CX
	VPXOR   Y0, Y0, Y0
	VMOVDQU CONST(17), Y2

loop:
	VPAND   (SI), Y2, Y1
	VPMAXUD Y1, Y0, Y0
	ADDQ    $32, SI
	DECQ    CX
	JNZ     loop
	VMOVDQU Y0, (DI)
	VZEROUPPER
	RET

// func largestAVX2(most *[8]float32, x *float32, steps int)
TEXT ·largestAVX2(SB), NOSPLIT, $0-24
	MOVQ    most+0(FP), DI
	MOVQ    x+8(FP), SI
	MOVQ    steps+16(FP), CX
	VMOVUPS (DI), Y0

loop:
	VMAXPS  (SI), Y0, Y0
	ADDQ    $32, SI
	DECQ    CX
	JNZ     loop
	VMOVUPS Y0, (DI)
	VZEROUPPER
	RET

// func weightsAVX2(dst, x *float32, steps int, largest, factor float32)
TEXT ·weightsAVX2(SB), NOSPLIT, $0-32
	MOVQ         dst+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         steps+16(FP), CX
	VBROADCASTSS largest+24(FP), Y7
	VBROADCASTSS factor+28(FP), Y8

loop:
	VMOVUPS (SI), Y0
	VSUBPS  Y7, Y0, Y0
	VMULPS  Y8, Y0, Y0
	EXP
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	DECQ    CX
	JNZ     loop
	VZEROUPPER
	RET

// func weightSumAVX2(sums *[8]float32, x *float32, steps int, least, largest, factor float32)
TEXT ·weightSumAVX2(SB), NOSPLIT, $0-36
	MOVQ         sums+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         steps+16(FP), CX
	VBROADCASTSS least+24(FP), Y6
	VBROADCASTSS largest+28(FP), Y7
	VBROADCASTSS factor+32(FP), Y8
	VMOVUPS      (DI), Y9

loop:
	VMOVUPS (SI), Y5
	VSUBPS  Y7, Y5, Y0
	VMULPS  Y8, Y0, Y0
	EXP
	VCMPPS  $13, Y6, Y5, Y1
	VANDPS  Y1, Y0, Y0
	VADDPS  Y0, Y9, Y9
	ADDQ    $32, SI
	DECQ    CX
	JNZ     loop
	VMOVUPS Y9, (DI)
	VZEROUPPER
	RET

// func atLeastAVX2(dst *int32, x *float32, steps int, least float32) (found int)
TEXT ·atLeastAVX2(SB), NOSPLIT, $0-40
	MOVQ         dst+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         steps+16(FP), CX
	VBROADCASTSS least+24(FP), Y1
	XORQ         R8, R8
	XORL         R10, R10

loop:
	VMOVUPS   (SI), Y0
	VCMPPS    $13, Y1, Y0, Y0
	VMOVMSKPS Y0, AX
	TESTL     AX, AX
	JZ        next

each:
	BSFL AX, BX
	ADDL R10, BX
	MOVL BX, (DI)(R8*4)
	INCQ R8
	LEAL -1(AX), R9
	ANDL R9, AX
	JNZ  each

next:
	ADDQ $32, SI
	ADDL $8, R10
	DECQ CX
	JNZ  loop
	MOVQ R8, found+32(FP)
	VZEROUPPER
	RET
