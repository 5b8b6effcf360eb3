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
#include "kernels/cpu/shapes_avx512.h"

#include "kernels/cpu/body.h"

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#else
typedef int lx_no_such_isa; /* a file may not be empty */
#endif
