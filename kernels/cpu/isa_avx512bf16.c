/*
 * AVX-512 with bf16 products (Cooper Lake, Sapphire Rapids, Zen 4 and later): activations that meet
 * bf16 weights are rounded to bf16, sums are f32. Twice the rate of f32, other bits than the exact
 * tables; everything else is as in isa_avx512.c.
 */
#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/isa.h"

#ifdef __clang__
#pragma clang attribute push(                                                                      \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma"))),             \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")
#endif

#include "kernels/cpu/v16_avx512.h"
#include "kernels/cpu/v16_avx512bf16.h"

#define V16_DOT 1

/* sum + w[2i] x[0] + w[2i + 1] x[1] in every lane i, x a pair of bf16 */
V16_FN v16 v16_dot(v16 sum, v16u w, uint32_t x)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)w, (__m512bh)_mm512_set1_epi32((int)x));
}

#define BODY_NAME "avx512bf16"
#define BODY_TABLE lx_cpu_avx512bf16
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
