/* Pairs of bf16, with AVX512-BF16; included after v16_avx512.h. */
#ifndef LINNET_KERNELS_CPU_V16_AVX512BF16_H
#define LINNET_KERNELS_CPU_V16_AVX512BF16_H

#define V16_PAIRS 1

/* Rounds n values, 1 .. 32, to bf16 pairs and stores them, then zeros: 16 words. */
V16_FN void v16_store_pairs(uint32_t *to, const float *from, int n)
{
    v16 zero = v16_set1(0.0f);
    v16 low = v16_load_n(from, n < 16 ? n : 16, zero);
    v16 high = n > 16 ? v16_load_n(from + 16, n - 16, zero) : zero;
    _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(high, low));
}

#endif
