/*
 * The inner loops for AVX-512 (Skylake-SP and later): body.h over v16_avx512.h. The instruction set
 * is asked for here and not on the command line, so that nothing else in the program may use it.
 */
#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/isa.h"

#ifdef __clang__
#pragma clang attribute push(                                                                      \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#endif

#include "kernels/cpu/v16_avx512.h"

#define BODY_NAME "avx512"
#define BODY_TABLE lx_cpu_avx512
/* 32 registers of 16 lanes: up to 24 sums, 8 at least to hide the latency of fma */
#define BODY_ROWS 12
#define BODY_MAX_SUMS 24
#define BODY_WIDE(X) X(1, 8) X(2, 4) X(3, 4)
#define BODY_NARROW(X)                                                                             \
    X(1, 2)                                                                                        \
    X(2, 2)                                                                                        \
    X(3, 2) X(4, 2) X(5, 2) X(6, 2) X(7, 2) X(8, 2) X(9, 2) X(10, 2) X(11, 2) X(12, 2)
#include "kernels/cpu/body.h"

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#else
typedef int lx_no_such_isa; /* a file may not be empty */
#endif
