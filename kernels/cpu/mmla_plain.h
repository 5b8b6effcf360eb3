/*
 * The operations of ops/linear/cpu_mmla.h, and v16_dot, in plain C, with the bits of BFDOT, BFMMLA
 * and SMMLA as Arm's manual defines them. So every machine can test them, and compute the bits of a
 * processor that has them, slowly.
 *
 * BFDOT with FPCR.EBF = 0 (Linux starts every process so; older processors lack the bit) makes two
 * products, their sum, and its sum with the addend. Each is rounded to odd (towards 0, the last bit
 * set if that was not exact), whatever else FPCR says. Denormal inputs and results become 0, and
 * too large results infinite. BFMMLA is BFDOT twice.
 */
#ifndef LINNET_KERNELS_CPU_MMLA_PLAIN_H
#define LINNET_KERNELS_CPU_MMLA_PLAIN_H

#include "kernels/cpu/v16_plain.h"

#define V16_DOT 1
#define V16_MMLA 1

/* Two words of inputs of each of two rows. */
typedef struct v16_rows {
    uint32_t u[4];
} v16_rows;

/* A value that is exact, or rounded to odd in double, as f32, rounded to odd. */
static float to_odd(double exact)
{
    uint64_t bits;
    if (isnan(exact))
        return v16_of_bits(0x7fc00000u);
    if (fabs(exact) < 0x1p-126)
        return copysignf(0.0f, (float)exact);
    if (fabs(exact) >= 0x1p128)
        return exact > 0 ? INFINITY : -INFINITY;
    memcpy(&bits, &exact, sizeof bits);
    uint32_t sign = (uint32_t)(bits >> 63) << 31;
    bits = (bits & INT64_MAX) - ((uint64_t)(1023 - 127) << 52);
    uint32_t magnitude = (uint32_t)(bits >> 29);
    return v16_of_bits(sign | magnitude | ((bits & 0x1fffffffu) != 0));
}

/* The halves of word w times the halves of word x. */
V16_FN float dot_pair(float sum, uint32_t w, uint32_t x)
{
    double low = (double)v16_flushed(w << 16) * (double)v16_flushed(x << 16);
    double high = (double)v16_flushed(w & 0xffff0000u) * (double)v16_flushed(x & 0xffff0000u);
    float both = to_odd(v16_add_odd((double)to_odd(low), (double)to_odd(high)));
    return to_odd(v16_add_odd((double)v16_flushed(v16_bits(sum)), (double)both));
}
/* sum + (w[2i] x[0] + w[2i + 1] x[1]) in every lane i, x a pair of bf16 */
V16_DEFINE(v16_dot(v16 sum, v16u w, uint32_t x), dot_pair(sum.f[i], w.u[i], x))
V16_FN v16_rows v16_two_rows(const uint32_t *a, const uint32_t *b)
{
    return (v16_rows){{a[0], a[1], b[0], b[1]}};
}
/* Words of eight lanes, the first (half 0) or the last, of a and b in turn. */
V16_FN v16u v16_zip(v16u a, v16u b, const int half)
{
    v16u r;
    for (int i = 0; i < 16; i++)
        r.u[i] = (i % 2 == 0 ? a : b).u[8 * half + i / 2];
    return r;
}
/* Four squares of eight outputs, the first (half 0) or the last, from rows of sixteen lanes. */
V16_FN v16u v16_squares(v16u first, v16u second, const int half)
{
    v16u r;
    for (int i = 0; i < 16; i++)
        r.u[i] = (i / 2 % 2 == 0 ? first : second).u[8 * half + i / 4 * 2 + i % 2];
    return r;
}
/* The first (0) or second row of eight squares. */
V16_FN v16u v16_row(v16u a, v16u b, const int row)
{
    v16u r;
    for (int i = 0; i < 16; i++)
        r.u[i] = (i < 8 ? a : b).u[i % 8 / 2 * 4 + 2 * row + i % 2];
    return r;
}
/* Adds x, two rows, times w, pairs of bf16 of two outputs a square, to four squares. */
V16_FN v16u v16_mmla_pairs(v16u sums, v16_rows x, v16u w)
{
    for (int i = 0; i < 16; i++) {
        const uint32_t *row = x.u + i / 2 % 2 * 2, *output = w.u + i / 4 * 4 + i % 2 * 2;
        float sum = dot_pair(v16_of_bits(sums.u[i]), output[0], row[0]);
        sums.u[i] = v16_bits(dot_pair(sum, output[1], row[1]));
    }
    return sums;
}
/* As v16_mmla_pairs, of signed bytes. */
V16_FN v16u v16_mmla_bytes(v16u sums, v16_rows x, v16u w)
{
    for (int i = 0; i < 16; i++) {
        const uint32_t *row = x.u + i / 2 % 2 * 2, *output = w.u + i / 4 * 4 + i % 2 * 2;
        for (int byte = 0; byte < 64; byte += 8)
            sums.u[i] += (uint32_t)((int8_t)(output[byte / 32] >> byte % 32) *
                                    (int8_t)(row[byte / 32] >> byte % 32));
    }
    return sums;
}

#endif
