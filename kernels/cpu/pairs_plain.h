/*
 * Pairs of bf16 in plain C. With V16_FLUSH_PAIRS a denormal value becomes 0 when it is rounded, as
 * with AVX512-BF16; else it is rounded like other values.
 */
#ifndef LINNET_KERNELS_CPU_PAIRS_PLAIN_H
#define LINNET_KERNELS_CPU_PAIRS_PLAIN_H

#include "kernels/cpu/v16_plain.h"

#define V16_PAIRS 1

/* To the nearest, ties to even. */
static uint32_t to_bf16(float f)
{
#ifdef V16_FLUSH_PAIRS
    uint32_t bits = v16_bits(v16_flushed(v16_bits(f)));
#else
    uint32_t bits = v16_bits(f);
#endif
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return bits >> 16 | 64u;
    return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

/* Rounds n values, 1 .. 32, to bf16 pairs and stores them, then zeros: 16 words. */
V16_FN void v16_store_pairs(uint32_t *to, const float *from, int n)
{
    memset(to, 0, 16 * sizeof *to);
    for (int i = 0; i < n; i++)
        to[i / 2] |= to_bf16(from[i]) << (i % 2 * 16);
}

#endif
