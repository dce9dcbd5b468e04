// e^x of float.go on 8 lanes of Y0, in the same order of operations; Y1-Y4 are overwritten. Constants are rows of expTable.
#define CONST(i) ·expTable+(32*i)(SB)
#define EXP \
	VCMPPS    $1, CONST(0), Y0, Y1; \
	VMINPS    CONST(1), Y0, Y0; \
	VMAXPS    CONST(0), Y0, Y0; \
	VMULPS    CONST(2), Y0, Y2; \
	VADDPS    CONST(3), Y2, Y2; \
	VSUBPS    CONST(3), Y2, Y2; \
	VMULPS    CONST(4), Y2, Y3; \
	VSUBPS    Y3, Y0, Y0; \
	VMULPS    CONST(5), Y2, Y3; \
	VSUBPS    Y3, Y0, Y0; \
	VCVTPS2DQ Y2, Y2; \
	VPADDD    CONST(13), Y2, Y2; \
	VPSLLD    $23, Y2, Y2; \
	VMULPS    CONST(6), Y0, Y3; \
	VADDPS    CONST(7), Y3, Y3; \
	VMULPS    Y0, Y3, Y3; \
	VADDPS    CONST(8), Y3, Y3; \
	VMULPS    Y0, Y3, Y3; \
	VADDPS    CONST(9), Y3, Y3; \
	VMULPS    Y0, Y3, Y3; \
	VADDPS    CONST(10), Y3, Y3; \
	VMULPS    Y0, Y3, Y3; \
	VADDPS    CONST(11), Y3, Y3; \
	VMULPS    Y0, Y0, Y4; \
	VMULPS    Y4, Y3, Y3; \
	VADDPS    Y0, Y3, Y3; \
	VADDPS    CONST(12), Y3, Y3; \
	VMULPS    Y2, Y3, Y3; \
	VANDNPS   Y3, Y1, Y0

// The largest of 8 lanes of Y0, to all lanes; Y1 is overwritten.
#define LARGEST \
	VPERM2F128 $1, Y0, Y0, Y1; \
	VMAXPS     Y1, Y0, Y0; \
	VPERMILPS  $0x4e, Y0, Y1; \
	VMAXPS     Y1, Y0, Y0; \
	VPERMILPS  $0xb1, Y0, Y1; \
	VMAXPS     Y1, Y0, Y0

