#include "textflag.h"
#include "exp_amd64.h"

// The scores of 16 tokens: element d of the query with element d of 16 keys, into 4 pairs of sums by d mod 4.
#define HALF_KEYS(d, low, high, t0, t1, t2) \
	VBROADCASTSS (4*d)(SI), t0; \
	VCVTPH2PS    (32*d)(DX), t1; \
	VCVTPH2PS    (32*d+16)(DX), t2; \
	VMULPS       t0, t1, t1; \
	VMULPS       t0, t2, t2; \
	VADDPS       t1, low, low; \
	VADDPS       t2, high, high

#define FLOAT_KEYS(d, low, high, t0, t1, t2) \
	VBROADCASTSS (4*d)(SI), t0; \
	VMULPS       (64*d)(DX), t0, t1; \
	VMULPS       (64*d+32)(DX), t0, t2; \
	VADDPS       t1, low, low; \
	VADDPS       t2, high, high

#define KEYS(name, ELEMENT, bytes) \
TEXT name(SB), NOSPLIT, $0-32; \
	MOVQ   scores+0(FP), DI; \
	MOVQ   q+8(FP), SI; \
	MOVQ   keys+16(FP), DX; \
	MOVQ   headDim+24(FP), CX; \
	SHRQ   $2, CX; \
	VXORPS Y0, Y0, Y0; \
	VXORPS Y1, Y1, Y1; \
	VXORPS Y2, Y2, Y2; \
	VXORPS Y3, Y3, Y3; \
	VXORPS Y4, Y4, Y4; \
	VXORPS Y5, Y5, Y5; \
	VXORPS Y6, Y6, Y6; \
	VXORPS Y7, Y7, Y7; \
loop: \
	ELEMENT(0, Y0, Y1, Y8, Y9, Y10); \
	ELEMENT(1, Y2, Y3, Y11, Y12, Y13); \
	ELEMENT(2, Y4, Y5, Y8, Y9, Y10); \
	ELEMENT(3, Y6, Y7, Y11, Y12, Y13); \
	ADDQ    $16, SI; \
	ADDQ    bytes, DX; \
	DECQ    CX; \
	JNZ     loop; \
	VADDPS  Y2, Y0, Y0; \
	VADDPS  Y3, Y1, Y1; \
	VADDPS  Y6, Y4, Y4; \
	VADDPS  Y7, Y5, Y5; \
	VADDPS  Y4, Y0, Y0; \
	VADDPS  Y5, Y1, Y1; \
	VMOVUPS Y0, (DI); \
	VMOVUPS Y1, 32(DI); \
	VZEROUPPER; \
	RET

// func keyScoresAVX2(scores *[16]float32, q *float32, keys *byte, headDim int)
KEYS(·keyScoresAVX2, HALF_KEYS, $128)

// func floatKeyScoresAVX2(scores *[16]float32, q *float32, keys *float32, headDim int)
KEYS(·floatKeyScoresAVX2, FLOAT_KEYS, $256)

// func softmaxAVX2(scores *[16]float32, state *softState, from, to int, scale float32) (factor float32)
TEXT ·softmaxAVX2(SB), NOSPLIT, $0-44
	MOVQ         scores+0(FP), DI
	MOVQ         state+8(FP), DX
	MOVQ         from+16(FP), AX
	MOVQ         to+24(FP), BX
	VBROADCASTSS scale+32(FP), Y2
	LEAQ         ·seenTable(SB), R8
	NEGQ         AX
	NEGQ         BX
	LEAQ         64(R8)(AX*4), R9
	LEAQ         128(R8)(BX*4), R10
	VMOVUPS      (R9), Y5
	VMOVUPS      32(R9), Y6
	VANDPS       (R10), Y5, Y5
	VANDPS       32(R10), Y6, Y6
	VMULPS       (DI), Y2, Y7
	VMULPS       32(DI), Y2, Y8
	VMOVUPS      CONST(20), Y3
	VBLENDVPS    Y5, Y7, Y3, Y7
	VBLENDVPS    Y6, Y8, Y3, Y8
	VMAXPS       Y8, Y7, Y0
	LARGEST
	VBROADCASTSS (DX), Y9
	VMAXPS       Y9, Y0, Y10
	VMOVSS       X10, (DX)
	VSUBPS       Y10, Y7, Y0
	EXP
	VMOVAPS      Y0, Y7
	VMOVUPS      Y7, (DI)
	VSUBPS       Y10, Y8, Y0
	EXP
	VMOVAPS      Y0, Y8
	VMOVUPS      Y8, 32(DI)
	VSUBPS       Y10, Y9, Y0
	EXP
	VMOVSS       X0, factor+40(FP)
	VADDPS       Y8, Y7, Y7
	VMULPS       4(DX), Y0, Y0
	VADDPS       Y7, Y0, Y0
	VMOVUPS      Y0, 4(DX)
	VZEROUPPER
	RET

// The weighted sum of values, 64 elements at a time and the rest by 8.
#define HALF_VALUES(i, acc, tmp) \
	VCVTPH2PS (16*i)(R10), tmp; \
	VMULPS    Y14, tmp, tmp; \
	VADDPS    tmp, acc, acc

#define FLOAT_VALUES(i, acc, tmp) \
	VMULPS (32*i)(R10), Y14, tmp; \
	VADDPS tmp, acc, acc

#define VALUES(name, WEIGHTED, shift, bytes64, bytes8) \
TEXT name(SB), NOSPLIT, $0-44; \
	MOVQ         out+0(FP), DI; \
	MOVQ         values+8(FP), SI; \
	MOVQ         weights+16(FP), DX; \
	MOVQ         tokens+24(FP), R8; \
	MOVQ         headDim+32(FP), CX; \
	VBROADCASTSS factor+40(FP), Y15; \
	MOVQ         CX, R9; \
	SHLQ         shift, R9; \
eights: \
	CMPQ    CX, $64; \
	JLT     ones; \
	VMULPS  0(DI), Y15, Y0; \
	VMULPS  32(DI), Y15, Y1; \
	VMULPS  64(DI), Y15, Y2; \
	VMULPS  96(DI), Y15, Y3; \
	VMULPS  128(DI), Y15, Y4; \
	VMULPS  160(DI), Y15, Y5; \
	VMULPS  192(DI), Y15, Y6; \
	VMULPS  224(DI), Y15, Y7; \
	MOVQ    SI, R10; \
	XORQ    AX, AX; \
tokens8: \
	VBROADCASTSS (DX)(AX*4), Y14; \
	WEIGHTED(0, Y0, Y8); \
	WEIGHTED(1, Y1, Y9); \
	WEIGHTED(2, Y2, Y10); \
	WEIGHTED(3, Y3, Y11); \
	WEIGHTED(4, Y4, Y8); \
	WEIGHTED(5, Y5, Y9); \
	WEIGHTED(6, Y6, Y10); \
	WEIGHTED(7, Y7, Y11); \
	ADDQ    R9, R10; \
	INCQ    AX; \
	CMPQ    AX, R8; \
	JLT     tokens8; \
	VMOVUPS Y0, 0(DI); \
	VMOVUPS Y1, 32(DI); \
	VMOVUPS Y2, 64(DI); \
	VMOVUPS Y3, 96(DI); \
	VMOVUPS Y4, 128(DI); \
	VMOVUPS Y5, 160(DI); \
	VMOVUPS Y6, 192(DI); \
	VMOVUPS Y7, 224(DI); \
	ADDQ    $256, DI; \
	ADDQ    bytes64, SI; \
	SUBQ    $64, CX; \
	JMP     eights; \
ones: \
	TESTQ  CX, CX; \
	JLE    done; \
	VMULPS (DI), Y15, Y0; \
	MOVQ   SI, R10; \
	XORQ   AX, AX; \
tokens1: \
	VBROADCASTSS (DX)(AX*4), Y14; \
	WEIGHTED(0, Y0, Y8); \
	ADDQ    R9, R10; \
	INCQ    AX; \
	CMPQ    AX, R8; \
	JLT     tokens1; \
	VMOVUPS Y0, (DI); \
	ADDQ    $32, DI; \
	ADDQ    bytes8, SI; \
	SUBQ    $8, CX; \
	JMP     ones; \
done: \
	VZEROUPPER; \
	RET

// func valuesAVX2(out *float32, values *byte, weights *float32, tokens, headDim int, factor float32)
VALUES(·valuesAVX2, HALF_VALUES, $1, $128, $16)

// func floatValuesAVX2(out *float32, values *float32, weights *float32, tokens, headDim int, factor float32)
VALUES(·floatValuesAVX2, FLOAT_VALUES, $2, $256, $32)

// func floatsAVX2(dst *float32, halves *byte, steps int)
TEXT ·floatsAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ halves+8(FP), SI
	MOVQ steps+16(FP), CX

loop:
	VCVTPH2PS (SI), Y0
	VCVTPH2PS 16(SI), Y1
	VCVTPH2PS 32(SI), Y2
	VCVTPH2PS 48(SI), Y3
	VMOVUPS   Y0, (DI)
	VMOVUPS   Y1, 32(DI)
	VMOVUPS   Y2, 64(DI)
	VMOVUPS   Y3, 96(DI)
	ADDQ      $64, SI
	ADDQ      $128, DI
	DECQ      CX
	JNZ       loop
	VZEROUPPER
	RET
