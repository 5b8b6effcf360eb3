/*
 * AVX-512 with bf16 products (Cooper Lake, Sapphire Rapids, Zen 4 and later): activations that meet
 * bf16 weights are rounded to bf16, sums are f32. Twice the rate of f32, other bits than the exact
 * tables; everything else is of isa_avx512vnni.c.
 */
#define BODY_TARGET "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vnni,avx2,fma"
#include "kernels/cpu/target_begin.h"
#define V16_VNNI 1 /* every processor with bf16 has it */
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
#define BODY_OTHERS lx_cpu_avx512vnni
#define BODY_BORROWS lx_cpu_avx512vnni_shapes
#include "kernels/cpu/body.h"
