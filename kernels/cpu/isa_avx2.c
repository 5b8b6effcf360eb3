/* The inner loops for AVX2 with FMA (Haswell, Zen and later): body.h over v16_avx2.h. */
#define BODY_TARGET "avx2,fma"
#define V16_SIGNED_BYTES 1
#include "kernels/cpu/target_begin.h"
#include "kernels/cpu/v16_avx2.h"

#define BODY_NAME "avx2"
#define BODY_TABLE lx_cpu_avx2
/* 16 registers of 8 lanes: up to 6 sums of two registers */
#define BODY_ROWS 6
#define BODY_MAX_SUMS 6
#define BODY_WIDE(X) X(1, 4) X(2, 2)
#define BODY_NARROW(X) X(1, 1) X(2, 1) X(3, 1) X(4, 1) X(5, 1) X(6, 1)
#include "kernels/cpu/body.h"
