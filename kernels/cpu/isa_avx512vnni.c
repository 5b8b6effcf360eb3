/*
 * AVX-512 with products of bytes (Cascade Lake, Zen 4 and later), for precision int8: the same bits
 * as every other instruction set gives it. Everything else is as in isa_avx512.c.
 */
#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/isa.h"

#ifdef __clang__
#pragma clang attribute push(                                                                      \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma"))),             \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")
#endif

#define V16_VNNI 1
#include "kernels/cpu/v16_avx512.h"

#define BODY_NAME "avx512vnni"
#define BODY_TABLE lx_cpu_avx512vnni
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
