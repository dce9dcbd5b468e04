#include "textflag.h"

// The products of matmul.go, 8 weight rows (one per lane) at a time. The argument block is groupArgs; offsets are those of its fields.
//
//	R8 block, R9 block bytes, R10 offset of minima, R11 offset of values, CX blocks left
//	SI integers of row 0, DX their stride, R12 three strides
//	DI scales of row 0, R13 their stride, BX three strides
//	Y0-Y3 weights of the unit, Y4 scales, Y5-Y7 temporaries, Y8-Y11 sums, Y12-Y15 sums with minima

DATA nibbles<>+0(SB)/8, $0x0f0f0f0f0f0f0f0f
DATA nibbles<>+8(SB)/8, $0x0f0f0f0f0f0f0f0f
DATA nibbles<>+16(SB)/8, $0x0f0f0f0f0f0f0f0f
DATA nibbles<>+24(SB)/8, $0x0f0f0f0f0f0f0f0f
GLOBL nibbles<>(SB), RODATA|NOPTR, $32

DATA fifths<>+0(SB)/8, $0x1010101010101010
DATA fifths<>+8(SB)/8, $0x1010101010101010
DATA fifths<>+16(SB)/8, $0x1010101010101010
DATA fifths<>+24(SB)/8, $0x1010101010101010
GLOBL fifths<>(SB), RODATA|NOPTR, $32

DATA ones<>+0(SB)/8, $0x0001000100010001
DATA ones<>+8(SB)/8, $0x0001000100010001
DATA ones<>+16(SB)/8, $0x0001000100010001
DATA ones<>+24(SB)/8, $0x0001000100010001
GLOBL ones<>(SB), RODATA|NOPTR, $32

#define ARGS \
	MOVQ args+0(FP), R15; \
	MOVQ 16(R15), R8; \
	MOVQ 24(R15), R9; \
	MOVQ 32(R15), R10; \
	MOVQ 40(R15), R11; \
	MOVQ 48(R15), CX; \
	MOVQ 56(R15), SI; \
	MOVQ 64(R15), DX; \
	LEAQ (DX)(DX*2), R12; \
	MOVQ 72(R15), DI; \
	MOVQ 80(R15), R13; \
	LEAQ (R13)(R13*2), BX

#define HALVES(mem, y) VCVTPH2PS mem, y
#define FLOATS(mem, y) VMOVUPS mem, y

// The low and high nibbles of a block's values.
#define LOW(at, y) \
	VMOVDQU nibbles<>(SB), y; \
	VPAND   at(AX), y, y

#define HIGH(at, y) \
	VMOVDQU at(AX), y; \
	VPSRLW  $4, y, y; \
	VPAND   nibbles<>(SB), y, y

#define LOWS LOW(0, Y0); LOW(32, Y1); LOW(64, Y2); LOW(96, Y3)
#define HIGHS HIGH(0, Y0); HIGH(32, Y1); HIGH(64, Y2); HIGH(96, Y3)

// Bit b of each fifth-bits byte goes to bit 4 of the value.
#define FIFTH(shift, n, y) \
	shift n, Y5, Y6; \
	VPAND fifths<>(SB), Y6, Y6; \
	VPOR  Y6, y, y

#define LOWS5 LOWS; \
	VMOVDQU 128(AX), Y5; \
	FIFTH(VPSLLW, $4, Y0); FIFTH(VPSLLW, $3, Y1); FIFTH(VPSLLW, $2, Y2); FIFTH(VPSLLW, $1, Y3)

#define HIGHS5 HIGHS; \
	VMOVDQU 128(AX), Y5; \
	FIFTH(VPSRLW, $0, Y0); FIFTH(VPSRLW, $1, Y1); FIFTH(VPSRLW, $2, Y2); FIFTH(VPSRLW, $3, Y3)

// One unit of one activation row: 4 products of 4 columns each, summed in 16 bits (31*127*8 fits), widened, scaled.
#define UNIT(x0, x1, x2, x3, scale, acc) \
	VPBROADCASTD x0, Y5; \
	VPMADDUBSW   Y5, Y0, Y5; \
	VPBROADCASTD x1, Y6; \
	VPMADDUBSW   Y6, Y1, Y6; \
	VPADDW       Y6, Y5, Y5; \
	VPBROADCASTD x2, Y6; \
	VPMADDUBSW   Y6, Y2, Y6; \
	VPBROADCASTD x3, Y7; \
	VPMADDUBSW   Y7, Y3, Y7; \
	VPADDW       Y7, Y6, Y6; \
	VPADDW       Y6, Y5, Y5; \
	VPMADDWD     ones<>(SB), Y5, Y5; \
	VCVTDQ2PS    Y5, Y5; \
	VBROADCASTSS scale, Y6; \
	VMULPS       Y6, Y5, Y5; \
	VMULPS       Y4, Y5, Y5; \
	VADDPS       Y5, acc, acc

#define MINIMUM(sum, acc) \
	VBROADCASTSS sum, Y5; \
	VMULPS       Y7, Y5, Y5; \
	VADDPS       Y5, acc, acc

#define UNIT_LOW1 UNIT(0(SI), 4(SI), 8(SI), 12(SI), 0(DI), Y8)
#define UNIT_HIGH1 UNIT(16(SI), 20(SI), 24(SI), 28(SI), 4(DI), Y8)

#define UNIT_LOW4 UNIT_LOW1; \
	UNIT(0(SI)(DX*1), 4(SI)(DX*1), 8(SI)(DX*1), 12(SI)(DX*1), 0(DI)(R13*1), Y9); \
	UNIT(0(SI)(DX*2), 4(SI)(DX*2), 8(SI)(DX*2), 12(SI)(DX*2), 0(DI)(R13*2), Y10); \
	UNIT(0(SI)(R12*1), 4(SI)(R12*1), 8(SI)(R12*1), 12(SI)(R12*1), 0(DI)(BX*1), Y11)

#define UNIT_HIGH4 UNIT_HIGH1; \
	UNIT(16(SI)(DX*1), 20(SI)(DX*1), 24(SI)(DX*1), 28(SI)(DX*1), 4(DI)(R13*1), Y9); \
	UNIT(16(SI)(DX*2), 20(SI)(DX*2), 24(SI)(DX*2), 28(SI)(DX*2), 4(DI)(R13*2), Y10); \
	UNIT(16(SI)(R12*1), 20(SI)(R12*1), 24(SI)(R12*1), 28(SI)(R12*1), 4(DI)(BX*1), Y11)

#define MINIMUM1 MINIMUM(8(DI), Y12)
#define MINIMUM4 MINIMUM1; MINIMUM(8(DI)(R13*1), Y13); MINIMUM(8(DI)(R13*2), Y14); MINIMUM(8(DI)(BX*1), Y15)

#define ZERO1 VXORPS Y8, Y8, Y8; VXORPS Y12, Y12, Y12
#define ZERO4 ZERO1; VXORPS Y9, Y9, Y9; VXORPS Y10, Y10, Y10; VXORPS Y11, Y11, Y11; \
	VXORPS Y13, Y13, Y13; VXORPS Y14, Y14, Y14; VXORPS Y15, Y15, Y15

#define WITHZERO(acc, acc2) \
	VMULPS Y5, acc2, acc2; \
	VADDPS acc2, acc, acc

#define STORE1 \
	MOVQ 0(R15), AX; \
	VMOVUPS Y8, (AX)

#define STORE4 STORE1; \
	MOVQ 8(R15), R8; \
	VMOVUPS Y9, (AX)(R8*1); \
	VMOVUPS Y10, (AX)(R8*2); \
	LEAQ (AX)(R8*2), AX; \
	VMOVUPS Y11, (AX)(R8*1)

#define FINISH1 \
	VBROADCASTSS 88(R15), Y5; \
	WITHZERO(Y8, Y12)
#define FINISH4 FINISH1; WITHZERO(Y9, Y13); WITHZERO(Y10, Y14); WITHZERO(Y11, Y15)

// Weights come from memory: the lines of a block some 2 KB on are asked for while this one is worked on, also past the group's end, where the next group
// begins. 3 lines hold a block of nibbles, 5 one of bytes.
#define AHEAD3 PREFETCHT0 2048(R8); PREFETCHT0 2112(R8); PREFETCHT0 2176(R8)
#define AHEAD5 AHEAD3; PREFETCHT0 2240(R8); PREFETCHT0 2304(R8)

#define NEXT \
	ADDQ R9, R8; \
	ADDQ $32, SI; \
	ADDQ $16, DI; \
	DECQ CX; \
	JNZ  loop; \

#define SMALL(name, SCALES, LOWV, HIGHV, UNITL, UNITH, MINS, ZEROS, FIN, STORES) \
TEXT name(SB), NOSPLIT, $0-8; \
	ARGS; \
	ZEROS; \
loop: \
	AHEAD3; \
	LEAQ (R8)(R11*1), AX; \
	SCALES((R8), Y4); \
	LOWV; \
	UNITL; \
	HIGHV; \
	UNITH; \
	SCALES((R8)(R10*1), Y7); \
	MINS; \
	NEXT; \
	FIN; \
	STORES; \
	VZEROUPPER; \
	RET

// func smallHalf1(args *groupArgs)
SMALL(·smallHalf1, HALVES, LOWS, HIGHS, UNIT_LOW1, UNIT_HIGH1, MINIMUM1, ZERO1, FINISH1, STORE1)

// func smallHalf4(args *groupArgs)
SMALL(·smallHalf4, HALVES, LOWS, HIGHS, UNIT_LOW4, UNIT_HIGH4, MINIMUM4, ZERO4, FINISH4, STORE4)

// func smallFloat1(args *groupArgs)
SMALL(·smallFloat1, FLOATS, LOWS, HIGHS, UNIT_LOW1, UNIT_HIGH1, MINIMUM1, ZERO1, FINISH1, STORE1)

// func smallFloat4(args *groupArgs)
SMALL(·smallFloat4, FLOATS, LOWS, HIGHS, UNIT_LOW4, UNIT_HIGH4, MINIMUM4, ZERO4, FINISH4, STORE4)

// func fifthHalf1(args *groupArgs)
SMALL(·fifthHalf1, HALVES, LOWS5, HIGHS5, UNIT_LOW1, UNIT_HIGH1, MINIMUM1, ZERO1, FINISH1, STORE1)

// func fifthHalf4(args *groupArgs)
SMALL(·fifthHalf4, HALVES, LOWS5, HIGHS5, UNIT_LOW4, UNIT_HIGH4, MINIMUM4, ZERO4, FINISH4, STORE4)

// func fifthFloat1(args *groupArgs)
SMALL(·fifthFloat1, FLOATS, LOWS5, HIGHS5, UNIT_LOW1, UNIT_HIGH1, MINIMUM1, ZERO1, FINISH1, STORE1)

// func fifthFloat4(args *groupArgs)
SMALL(·fifthFloat4, FLOATS, LOWS5, HIGHS5, UNIT_LOW4, UNIT_HIGH4, MINIMUM4, ZERO4, FINISH4, STORE4)

// Signed bytes: the weight's sign goes to the activation, so that its magnitude is the unsigned factor (128*127*2 fits 16 bits). R10 is where the
// scales of unit 1 lie. Y0 weights, Y1 their magnitudes, Y3 scales, Y4-Y7 integer sums.
#define WEIGHTS(at) \
	VMOVDQU at(AX), Y0; \
	VPABSB  Y0, Y1

#define SIGNED(x) \
	VPBROADCASTD x, Y2; \
	VPSIGNB      Y0, Y2, Y2; \
	VPMADDUBSW   Y2, Y1, Y2; \
	VPMADDWD     ones<>(SB), Y2, Y2

#define SIGNED_ADD(x, sum) SIGNED(x); VPADDD Y2, sum, sum

#define SCALED(sum, scale, acc) \
	VCVTDQ2PS    sum, sum; \
	VBROADCASTSS scale, Y2; \
	VMULPS       Y2, sum, sum; \
	VMULPS       Y3, sum, sum; \
	VADDPS       sum, acc, acc

#define COLUMNS1(at) SIGNED_ADD(at(SI), Y4)
#define COLUMNS4(at) COLUMNS1(at); SIGNED_ADD(at(SI)(DX*1), Y5); SIGNED_ADD(at(SI)(DX*2), Y6); SIGNED_ADD(at(SI)(R12*1), Y7)

#define CLEAR1 VPXOR Y4, Y4, Y4
#define CLEAR4 CLEAR1; VPXOR Y5, Y5, Y5; VPXOR Y6, Y6, Y6; VPXOR Y7, Y7, Y7

#define SCALED1(at) SCALED(Y4, at(DI), Y8)
#define SCALED4(at) SCALED1(at); SCALED(Y5, at(DI)(R13*1), Y9); SCALED(Y6, at(DI)(R13*2), Y10); SCALED(Y7, at(DI)(BX*1), Y11)

#define BYTES(name, SCALES, CLEARS, COLUMNS, SCALEDS, ZEROS, STORES) \
TEXT name(SB), NOSPLIT, $0-8; \
	ARGS; \
	ZEROS; \
loop: \
	AHEAD5; \
	LEAQ (R8)(R11*1), AX; \
	CLEARS; \
	WEIGHTS(0); \
	COLUMNS(0); \
	WEIGHTS(32); \
	COLUMNS(4); \
	WEIGHTS(64); \
	COLUMNS(8); \
	WEIGHTS(96); \
	COLUMNS(12); \
	SCALES((R8), Y3); \
	SCALEDS(0); \
	CLEARS; \
	WEIGHTS(128); \
	COLUMNS(16); \
	WEIGHTS(160); \
	COLUMNS(20); \
	WEIGHTS(192); \
	COLUMNS(24); \
	WEIGHTS(224); \
	COLUMNS(28); \
	SCALES((R8)(R10*1), Y3); \
	SCALEDS(4); \
	NEXT; \
	STORES; \
	VZEROUPPER; \
	RET

// func byteHalf1(args *groupArgs)
BYTES(·byteHalf1, HALVES, CLEAR1, COLUMNS1, SCALED1, ZERO1, STORE1)

// func byteHalf4(args *groupArgs)
BYTES(·byteHalf4, HALVES, CLEAR4, COLUMNS4, SCALED4, ZERO4, STORE4)

// func byteFloat1(args *groupArgs)
BYTES(·byteFloat1, FLOATS, CLEAR1, COLUMNS1, SCALED1, ZERO1, STORE1)

// func byteFloat4(args *groupArgs)
BYTES(·byteFloat4, FLOATS, CLEAR4, COLUMNS4, SCALED4, ZERO4, STORE4)
