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

DATA sixths<>+0(SB)/8, $0x3030303030303030
DATA sixths<>+8(SB)/8, $0x3030303030303030
DATA sixths<>+16(SB)/8, $0x3030303030303030
DATA sixths<>+24(SB)/8, $0x3030303030303030
GLOBL sixths<>(SB), RODATA|NOPTR, $32

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

// Scales that are bytes, times the halves before the super-block. R14 is where these are; Y5 is overwritten.
#define BYTES_BY(at, head, y) \
	VPMOVSXBD at(R8), y; \
	VCVTDQ2PS y, y; \
	VCVTPH2PS head(R14), Y5; \
	VMULPS    Y5, y, y

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

// Bits 2j and 2j+1 of each byte beyond the nibbles go to bits 4 and 5 of vector j.
#define SIXTH(y) \
	VPAND sixths<>(SB), Y6, Y6; \
	VPOR  Y6, y, y

#define SIXTHS(at) \
	VMOVDQU at(AX), Y5; \
	VPSLLW  $4, Y5, Y6; \
	SIXTH(Y0); \
	VPSLLW  $2, Y5, Y6; \
	SIXTH(Y1); \
	VPAND   sixths<>(SB), Y5, Y6; \
	VPOR    Y6, Y2, Y2; \
	VPSRLW  $2, Y5, Y6; \
	SIXTH(Y3)

#define LOWS6 LOWS; SIXTHS(128)
#define HIGHS6 HIGHS; SIXTHS(160)

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

// The same with values of 6 bits, of which only 2 products of 2 columns fit 16 bits (63*127*4), and what their zero point makes too much taken off.
#define UNIT6(x0, x1, x2, x3, scale, fix, acc) \
	VPBROADCASTD x0, Y5; \
	VPMADDUBSW   Y5, Y0, Y5; \
	VPBROADCASTD x1, Y6; \
	VPMADDUBSW   Y6, Y1, Y6; \
	VPADDW       Y6, Y5, Y5; \
	VPMADDWD     ones<>(SB), Y5, Y5; \
	VPBROADCASTD x2, Y6; \
	VPMADDUBSW   Y6, Y2, Y6; \
	VPBROADCASTD x3, Y7; \
	VPMADDUBSW   Y7, Y3, Y7; \
	VPADDW       Y7, Y6, Y6; \
	VPMADDWD     ones<>(SB), Y6, Y6; \
	VPADDD       Y6, Y5, Y5; \
	VPBROADCASTD fix, Y6; \
	VPSUBD       Y6, Y5, Y5; \
	VCVTDQ2PS    Y5, Y5; \
	VBROADCASTSS scale, Y6; \
	VMULPS       Y6, Y5, Y5; \
	VMULPS       Y4, Y5, Y5; \
	VADDPS       Y5, acc, acc

#define MINIMUM(sum, acc) \
	VBROADCASTSS sum, Y5; \
	VMULPS       Y7, Y5, Y5; \
	VADDPS       Y5, acc, acc

// Macros that end in a number do it for the first so many activation rows.
#define UNIT_LOW1 UNIT(0(SI), 4(SI), 8(SI), 12(SI), 0(DI), Y8)
#define UNIT_LOW2 UNIT_LOW1; UNIT(0(SI)(DX*1), 4(SI)(DX*1), 8(SI)(DX*1), 12(SI)(DX*1), 0(DI)(R13*1), Y9)
#define UNIT_LOW3 UNIT_LOW2; UNIT(0(SI)(DX*2), 4(SI)(DX*2), 8(SI)(DX*2), 12(SI)(DX*2), 0(DI)(R13*2), Y10)
#define UNIT_LOW4 UNIT_LOW3; UNIT(0(SI)(R12*1), 4(SI)(R12*1), 8(SI)(R12*1), 12(SI)(R12*1), 0(DI)(BX*1), Y11)

#define UNIT_HIGH1 UNIT(16(SI), 20(SI), 24(SI), 28(SI), 4(DI), Y8)
#define UNIT_HIGH2 UNIT_HIGH1; UNIT(16(SI)(DX*1), 20(SI)(DX*1), 24(SI)(DX*1), 28(SI)(DX*1), 4(DI)(R13*1), Y9)
#define UNIT_HIGH3 UNIT_HIGH2; UNIT(16(SI)(DX*2), 20(SI)(DX*2), 24(SI)(DX*2), 28(SI)(DX*2), 4(DI)(R13*2), Y10)
#define UNIT_HIGH4 UNIT_HIGH3; UNIT(16(SI)(R12*1), 20(SI)(R12*1), 24(SI)(R12*1), 28(SI)(R12*1), 4(DI)(BX*1), Y11)

#define UNIT6_LOW1 UNIT6(0(SI), 4(SI), 8(SI), 12(SI), 0(DI), 12(DI), Y8)
#define UNIT6_LOW2 UNIT6_LOW1; UNIT6(0(SI)(DX*1), 4(SI)(DX*1), 8(SI)(DX*1), 12(SI)(DX*1), 0(DI)(R13*1), 12(DI)(R13*1), Y9)
#define UNIT6_LOW3 UNIT6_LOW2; UNIT6(0(SI)(DX*2), 4(SI)(DX*2), 8(SI)(DX*2), 12(SI)(DX*2), 0(DI)(R13*2), 12(DI)(R13*2), Y10)
#define UNIT6_LOW4 UNIT6_LOW3; UNIT6(0(SI)(R12*1), 4(SI)(R12*1), 8(SI)(R12*1), 12(SI)(R12*1), 0(DI)(BX*1), 12(DI)(BX*1), Y11)

#define UNIT6_HIGH1 UNIT6(16(SI), 20(SI), 24(SI), 28(SI), 4(DI), 16(DI), Y8)
#define UNIT6_HIGH2 UNIT6_HIGH1; UNIT6(16(SI)(DX*1), 20(SI)(DX*1), 24(SI)(DX*1), 28(SI)(DX*1), 4(DI)(R13*1), 16(DI)(R13*1), Y9)
#define UNIT6_HIGH3 UNIT6_HIGH2; UNIT6(16(SI)(DX*2), 20(SI)(DX*2), 24(SI)(DX*2), 28(SI)(DX*2), 4(DI)(R13*2), 16(DI)(R13*2), Y10)
#define UNIT6_HIGH4 UNIT6_HIGH3; UNIT6(16(SI)(R12*1), 20(SI)(R12*1), 24(SI)(R12*1), 28(SI)(R12*1), 4(DI)(BX*1), 16(DI)(BX*1), Y11)

#define MINIMUM1 MINIMUM(8(DI), Y12)
#define MINIMUM2 MINIMUM1; MINIMUM(8(DI)(R13*1), Y13)
#define MINIMUM3 MINIMUM2; MINIMUM(8(DI)(R13*2), Y14)
#define MINIMUM4 MINIMUM3; MINIMUM(8(DI)(BX*1), Y15)

#define ZERO1 VXORPS Y8, Y8, Y8; VXORPS Y12, Y12, Y12
#define ZERO2 ZERO1; VXORPS Y9, Y9, Y9; VXORPS Y13, Y13, Y13
#define ZERO3 ZERO2; VXORPS Y10, Y10, Y10; VXORPS Y14, Y14, Y14
#define ZERO4 ZERO3; VXORPS Y11, Y11, Y11; VXORPS Y15, Y15, Y15

#define WITHZERO(acc, acc2) \
	VMULPS Y5, acc2, acc2; \
	VADDPS acc2, acc, acc

#define STORE1 \
	MOVQ    0(R15), AX; \
	MOVQ    8(R15), R8; \
	VMOVUPS Y8, (AX)
#define STORE2 STORE1; VMOVUPS Y9, (AX)(R8*1)
#define STORE3 STORE2; VMOVUPS Y10, (AX)(R8*2)
#define STORE4 STORE3; \
	LEAQ    (AX)(R8*2), AX; \
	VMOVUPS Y11, (AX)(R8*1)

#define FINISH1 \
	VBROADCASTSS 88(R15), Y5; \
	WITHZERO(Y8, Y12)
#define FINISH2 FINISH1; WITHZERO(Y9, Y13)
#define FINISH3 FINISH2; WITHZERO(Y10, Y14)
#define FINISH4 FINISH3; WITHZERO(Y11, Y15)

// Weights come from memory: the lines of a block some 2 KB on are asked for while this one is worked on, also past the group's end, where the next group
// begins. 3 lines hold a block of nibbles, 4 one of 6 bits, 5 one of bytes.
#define AHEAD3 PREFETCHT0 2048(R8); PREFETCHT0 2112(R8); PREFETCHT0 2176(R8)
#define AHEAD4 AHEAD3; PREFETCHT0 2240(R8)
#define AHEAD5 AHEAD4; PREFETCHT0 2304(R8)

#define NEXT \
	ADDQ R9, R8; \
	ADDQ $32, SI; \
	ADDQ $20, DI; \
	DECQ CX; \
	JNZ  loop; \

#define SMALL(name, LOWV, HIGHV, UNITL, UNITH, MINS, ZEROS, FIN, STORES) \
TEXT name(SB), NOSPLIT, $0-8; \
	ARGS; \
	ZEROS; \
loop: \
	AHEAD3; \
	LEAQ (R8)(R11*1), AX; \
	HALVES((R8), Y4); \
	LOWV; \
	UNITL; \
	HIGHV; \
	UNITH; \
	HALVES((R8)(R10*1), Y7); \
	MINS; \
	NEXT; \
	FIN; \
	STORES; \
	VZEROUPPER; \
	RET

// Types with super-blocks: what stands before one is passed every 8 blocks, and R14 left at it.
#define NEXT_SUPER \
	ADDQ  R9, R8; \
	ADDQ  $32, SI; \
	ADDQ  $20, DI; \
	DECQ  CX; \
	JZ    end; \
	TESTQ $7, CX; \
	JNZ   loop; \
	JMP   super; \
end:

#define SUPER(name, LOWV, HIGHV, UNITL, UNITH, MINS, ZEROS, FIN, STORES) \
TEXT name(SB), NOSPLIT, $0-8; \
	ARGS; \
	ZEROS; \
super: \
	MOVQ R8, R14; \
	ADDQ $32, R8; \
loop: \
	AHEAD3; \
	LEAQ (R8)(R11*1), AX; \
	BYTES_BY(0, 0, Y4); \
	LOWV; \
	UNITL; \
	HIGHV; \
	UNITH; \
	BYTES_BY(8, 16, Y7); \
	MINS; \
	NEXT_SUPER \
	FIN; \
	STORES; \
	VZEROUPPER; \
	RET

#define SIX(name, UNITL, UNITH, ZEROS, STORES) \
TEXT name(SB), NOSPLIT, $0-8; \
	ARGS; \
	ZEROS; \
super: \
	MOVQ R8, R14; \
	ADDQ $16, R8; \
loop: \
	AHEAD4; \
	LEAQ (R8)(R11*1), AX; \
	BYTES_BY(0, 0, Y4); \
	LOWS6; \
	UNITL; \
	BYTES_BY(8, 0, Y4); \
	HIGHS6; \
	UNITH; \
	NEXT_SUPER \
	STORES; \
	VZEROUPPER; \
	RET

// func smallHalf1(args *groupArgs)
SMALL(·smallHalf1, LOWS, HIGHS, UNIT_LOW1, UNIT_HIGH1, MINIMUM1, ZERO1, FINISH1, STORE1)

// func smallHalf2(args *groupArgs)
SMALL(·smallHalf2, LOWS, HIGHS, UNIT_LOW2, UNIT_HIGH2, MINIMUM2, ZERO2, FINISH2, STORE2)

// func smallHalf3(args *groupArgs)
SMALL(·smallHalf3, LOWS, HIGHS, UNIT_LOW3, UNIT_HIGH3, MINIMUM3, ZERO3, FINISH3, STORE3)

// func smallHalf4(args *groupArgs)
SMALL(·smallHalf4, LOWS, HIGHS, UNIT_LOW4, UNIT_HIGH4, MINIMUM4, ZERO4, FINISH4, STORE4)

// func fifthHalf1(args *groupArgs)
SMALL(·fifthHalf1, LOWS5, HIGHS5, UNIT_LOW1, UNIT_HIGH1, MINIMUM1, ZERO1, FINISH1, STORE1)

// func fifthHalf2(args *groupArgs)
SMALL(·fifthHalf2, LOWS5, HIGHS5, UNIT_LOW2, UNIT_HIGH2, MINIMUM2, ZERO2, FINISH2, STORE2)

// func fifthHalf3(args *groupArgs)
SMALL(·fifthHalf3, LOWS5, HIGHS5, UNIT_LOW3, UNIT_HIGH3, MINIMUM3, ZERO3, FINISH3, STORE3)

// func fifthHalf4(args *groupArgs)
SMALL(·fifthHalf4, LOWS5, HIGHS5, UNIT_LOW4, UNIT_HIGH4, MINIMUM4, ZERO4, FINISH4, STORE4)

// func smallSuper1(args *groupArgs)
SUPER(·smallSuper1, LOWS, HIGHS, UNIT_LOW1, UNIT_HIGH1, MINIMUM1, ZERO1, FINISH1, STORE1)

// func smallSuper2(args *groupArgs)
SUPER(·smallSuper2, LOWS, HIGHS, UNIT_LOW2, UNIT_HIGH2, MINIMUM2, ZERO2, FINISH2, STORE2)

// func smallSuper3(args *groupArgs)
SUPER(·smallSuper3, LOWS, HIGHS, UNIT_LOW3, UNIT_HIGH3, MINIMUM3, ZERO3, FINISH3, STORE3)

// func smallSuper4(args *groupArgs)
SUPER(·smallSuper4, LOWS, HIGHS, UNIT_LOW4, UNIT_HIGH4, MINIMUM4, ZERO4, FINISH4, STORE4)

// func fifthSuper1(args *groupArgs)
SUPER(·fifthSuper1, LOWS5, HIGHS5, UNIT_LOW1, UNIT_HIGH1, MINIMUM1, ZERO1, FINISH1, STORE1)

// func fifthSuper2(args *groupArgs)
SUPER(·fifthSuper2, LOWS5, HIGHS5, UNIT_LOW2, UNIT_HIGH2, MINIMUM2, ZERO2, FINISH2, STORE2)

// func fifthSuper3(args *groupArgs)
SUPER(·fifthSuper3, LOWS5, HIGHS5, UNIT_LOW3, UNIT_HIGH3, MINIMUM3, ZERO3, FINISH3, STORE3)

// func fifthSuper4(args *groupArgs)
SUPER(·fifthSuper4, LOWS5, HIGHS5, UNIT_LOW4, UNIT_HIGH4, MINIMUM4, ZERO4, FINISH4, STORE4)

// func sixSuper1(args *groupArgs)
SIX(·sixSuper1, UNIT6_LOW1, UNIT6_HIGH1, ZERO1, STORE1)

// func sixSuper2(args *groupArgs)
SIX(·sixSuper2, UNIT6_LOW2, UNIT6_HIGH2, ZERO2, STORE2)

// func sixSuper3(args *groupArgs)
SIX(·sixSuper3, UNIT6_LOW3, UNIT6_HIGH3, ZERO3, STORE3)

// func sixSuper4(args *groupArgs)
SIX(·sixSuper4, UNIT6_LOW4, UNIT6_HIGH4, ZERO4, STORE4)

// Signed bytes: the weight's sign goes to the activation, so that its magnitude is the unsigned factor (128*127*2 fits 16 bits). Y0 weights, Y1 their magnitudes, Y3 scales, Y4-Y7 integer sums.
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
#define COLUMNS2(at) COLUMNS1(at); SIGNED_ADD(at(SI)(DX*1), Y5)
#define COLUMNS3(at) COLUMNS2(at); SIGNED_ADD(at(SI)(DX*2), Y6)
#define COLUMNS4(at) COLUMNS3(at); SIGNED_ADD(at(SI)(R12*1), Y7)

#define CLEAR1 VPXOR Y4, Y4, Y4
#define CLEAR2 CLEAR1; VPXOR Y5, Y5, Y5
#define CLEAR3 CLEAR2; VPXOR Y6, Y6, Y6
#define CLEAR4 CLEAR3; VPXOR Y7, Y7, Y7

#define SCALED1(at) SCALED(Y4, at(DI), Y8)
#define SCALED2(at) SCALED1(at); SCALED(Y5, at(DI)(R13*1), Y9)
#define SCALED3(at) SCALED2(at); SCALED(Y6, at(DI)(R13*2), Y10)
#define SCALED4(at) SCALED3(at); SCALED(Y7, at(DI)(BX*1), Y11)

#define BYTES(name, CLEARS, COLUMNS, SCALEDS, ZEROS, STORES) \
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
	HALVES((R8), Y3); \
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
	SCALEDS(4); \
	NEXT; \
	STORES; \
	VZEROUPPER; \
	RET

// func byteHalf1(args *groupArgs)
BYTES(·byteHalf1, CLEAR1, COLUMNS1, SCALED1, ZERO1, STORE1)

// func byteHalf2(args *groupArgs)
BYTES(·byteHalf2, CLEAR2, COLUMNS2, SCALED2, ZERO2, STORE2)

// func byteHalf3(args *groupArgs)
BYTES(·byteHalf3, CLEAR3, COLUMNS3, SCALED3, ZERO3, STORE3)

// func byteHalf4(args *groupArgs)
BYTES(·byteHalf4, CLEAR4, COLUMNS4, SCALED4, ZERO4, STORE4)
