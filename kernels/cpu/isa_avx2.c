/*
 * The inner loops for AVX2 with FMA (Haswell, Zen and later): body.h over v16_avx2.h. The
 * instruction set is asked for here and not on the command line, so that nothing else in the
 * program may use it.
 */
#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/isa.h"

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif

#include "kernels/cpu/v16_avx2.h"

#define BODY_NAME "avx2"
#define BODY_TABLE lx_cpu_avx2
/* 16 registers of 8 lanes: up to 6 sums of two registers */
#define BODY_ROWS 6
#define BODY_MAX_SUMS 6
#define BODY_WIDE(X) X(1, 4) X(2, 2)
#define BODY_NARROW(X) X(1, 1) X(2, 1) X(3, 1) X(4, 1) X(5, 1) X(6, 1)
#include "kernels/cpu/body.h"

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#else
typedef int lx_no_such_isa; /* a file may not be empty */
#endif
